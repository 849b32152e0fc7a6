// A schedule and its cancel that meet before they are written leave no trace on disk, and nothing
// else vanishes with them. The two marks, and the ceilings that keep ids and LSNs unique.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"
#include "testing/fault_journal.h"
#include "testing/memory_log.h"
#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::FaultJournal;
using testing::Faults;
using testing::HostEngine;
using testing::MemoryLog;
using testing::ThreadedEngine;

class Elision : public ::testing::Test {
 protected:
  Elision()
      : host_({}, nullptr, std::make_unique<FaultJournal>(&faults_, log_.journal())),
        engine_(*host_.engine) {
    host_.run();
    EXPECT_TRUE(engine_.flush().ok());  // the type's name
  }

  Submitted submit(std::string_view key,
                   KeyPolicy policy = KeyPolicy::kReject,
                   Durability durability = Durability::kDisk) {
    TaskSpec spec{.type = "test", .deadline = after(1h), .key = key};
    spec.key_policy = policy;
    spec.durability = durability;
    const Result<Submitted> submitted = engine_.submit(spec);
    EXPECT_TRUE(submitted.ok()) << submitted.status().text();
    return submitted.ok() ? *submitted : Submitted{};
  }
  // Commits; answers the kinds that reached the log, in order.
  std::vector<OpKind> logged() {
    const std::size_t before = log_.size();
    EXPECT_TRUE(engine_.flush().ok());
    std::vector<OpKind> kinds;
    const std::vector<MemoryLog::StoredBatch> batches = log_.batches();
    for (std::size_t i = before; i < batches.size(); ++i) {
      for (const MemoryLog::StoredOp& stored : batches[i].ops) {
        kinds.push_back(stored.op.kind);
      }
    }
    return kinds;
  }
  // The engine that a crash now would leave.
  testing::Recovered after_crash() {
    image_ = log_.killed();
    EngineOptions options;
    options.drive = Drive::kHost;
    Result<testing::Recovered> recovered = testing::recover(*image_, options, &clock_, &executor_);
    EXPECT_TRUE(recovered.ok()) << recovered.status().text();
    return std::move(*recovered);
  }

  using Kinds = std::vector<OpKind>;
  MemoryLog log_;
  Faults faults_;
  HostEngine host_;
  Engine& engine_;
  std::unique_ptr<MemoryLog> image_;
  ManualClock clock_;
  InlineExecutor executor_;
};

TEST_F(Elision, AScheduleAndItsCancelVanish) {
  const std::uint64_t appends = faults_.appends();
  const Submitted task = submit("K");
  EXPECT_TRUE(engine_.submit_cancel(task.id));
  EXPECT_EQ(logged(), Kinds{});
  EXPECT_EQ(faults_.appends(), appends);
  EXPECT_EQ(engine_.stats().elided, 2U);
  // Both are acknowledged, at every level.
  EXPECT_TRUE(engine_.wait_durable(task.lsn).ok());
  EXPECT_GT(engine_.durable_lsn(Durability::kDisk), task.lsn);
  // Ids and LSNs are used up.
  const Submitted next = submit("K");
  EXPECT_NE(next.id, task.id);
  EXPECT_EQ(next.lsn.value, task.lsn.value + 2);
}

TEST_F(Elision, TheMovesBetweenVanishWithThem) {
  const Submitted task = submit("K");
  EXPECT_TRUE(engine_.submit_reschedule(task.id, after(2h)));
  EXPECT_TRUE(engine_.submit_reschedule(task.id, after(3h)));
  EXPECT_TRUE(engine_.submit_cancel(task.id));
  EXPECT_EQ(logged(), Kinds{});
  EXPECT_EQ(engine_.stats().elided, 4U);
  EXPECT_EQ(engine_.stats().pending, 0U);
}

TEST_F(Elision, NeighboursStay) {
  submit("A");
  submit("dead");
  submit("B");
  EXPECT_TRUE(engine_.submit_cancel("dead"));
  EXPECT_TRUE(engine_.submit_reschedule("A", after(2h)));
  EXPECT_EQ(logged(), (Kinds{OpKind::kSchedule, OpKind::kSchedule, OpKind::kReschedule}));
  EXPECT_EQ(after_crash().summary.live, 2U);
}

TEST_F(Elision, T9_AnUpsertKeepsTheRemovalOfTheTaskBefore) {
  submit("K");
  EXPECT_EQ(logged(), Kinds{OpKind::kSchedule});
  EXPECT_TRUE(submit("K", KeyPolicy::kReplace).replaced);
  EXPECT_TRUE(engine_.submit_cancel("K"));
  EXPECT_EQ(logged(), (Kinds{OpKind::kSchedule, OpKind::kCancel}));
  EXPECT_EQ(after_crash().summary.live, 0U);
}

TEST_F(Elision, AnUpsertInTheSameBatchKeepsAllThree) {
  submit("K");
  EXPECT_TRUE(submit("K", KeyPolicy::kReplace).replaced);
  EXPECT_TRUE(engine_.submit_cancel("K"));
  EXPECT_EQ(logged(), (Kinds{OpKind::kSchedule, OpKind::kSchedule, OpKind::kCancel}));
  EXPECT_EQ(after_crash().summary.live, 0U);
}

TEST_F(Elision, AnUpsertOfNobodyIsAPlainSchedule) {
  EXPECT_FALSE(submit("K", KeyPolicy::kReplace).replaced);
  EXPECT_TRUE(engine_.submit_cancel("K"));
  EXPECT_EQ(logged(), Kinds{});
}

TEST_F(Elision, ACancelOfWhatIsInTheLogIsWritten) {
  submit("A");
  submit("B");
  EXPECT_EQ(logged(), (Kinds{OpKind::kSchedule, OpKind::kSchedule}));
  EXPECT_TRUE(engine_.submit_cancel("A"));
  EXPECT_TRUE(engine_.submit_reschedule("B", after(2h)));
  EXPECT_TRUE(engine_.submit_cancel("B"));
  EXPECT_EQ(logged(), (Kinds{OpKind::kCancel, OpKind::kReschedule, OpKind::kCancel}));
  EXPECT_EQ(after_crash().summary.live, 0U);
}

TEST_F(Elision, PairsThatLieInTwoPiecesAreBothWritten) {
  // One batch is written in pieces of 16 k operations.
  const Submitted first = submit("first");
  for (int i = 0; i < 20'000; ++i) {
    submit("");
  }
  EXPECT_TRUE(engine_.submit_cancel(first.id));
  const Submitted second = submit("second");
  EXPECT_TRUE(engine_.submit_cancel(second.id));
  EXPECT_EQ(logged().size(), 20'002U);
  EXPECT_EQ(engine_.stats().elided, 2U);
  testing::Recovered recovered = after_crash();
  EXPECT_EQ(recovered.summary.live, 20'000U);
  EXPECT_EQ(recovered.engine->find("first").code(), Code::kNotFound);
}

TEST_F(Elision, ReusedSlotsInOneBatchVanishEachForItself) {
  for (int i = 0; i < 100; ++i) {
    submit("K");
    EXPECT_TRUE(engine_.submit_cancel("K"));
  }
  submit("K");
  EXPECT_EQ(logged(), Kinds{OpKind::kSchedule});
  EXPECT_EQ(engine_.stats().elided, 200U);
  EXPECT_EQ(engine_.check_invariants(), "");
}

TEST_F(Elision, T2_IdsOfElidedTasksAreNeverHandedOutAgain) {
  std::set<TaskId> ids;
  std::uint64_t last_lsn = 0;
  // The same slots again and again, a commit each, all of it elided: the log must hear of it now
  // and then, or a crash would hand the generations out again.
  for (int i = 0; i < 5000; ++i) {
    const Submitted task = submit("");
    EXPECT_TRUE(ids.insert(task.id).second);
    EXPECT_TRUE(engine_.submit_cancel(task.id));
    ASSERT_TRUE(engine_.flush().ok());
    last_lsn = task.lsn.value;
  }
  EXPECT_EQ(log_.op_count(), 1U);  // the type's name
  testing::Recovered recovered = after_crash();
  ASSERT_TRUE(recovered.engine->start().ok());
  for (int i = 0; i < 100; ++i) {
    const Result<Submitted> task =
        recovered.engine->submit({.type = "test", .deadline = after(1h)});
    ASSERT_TRUE(task.ok());
    EXPECT_TRUE(ids.insert(task->id).second);
    EXPECT_GT(task->lsn.value, last_lsn);
  }
}

TEST_F(Elision, T2_LsnsOfElidedOperationsAreNeverHandedOutAgain) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "millions of operations on one thread";
#endif
  // More LSNs than the reserve in the log, all elided.
  const std::uint64_t first_ceiling = log_.end().lsn_ceiling;
  std::uint64_t last_lsn = 0;
  while (last_lsn <= first_ceiling) {
    for (int pair = 0; pair < 10'000; ++pair) {
      const Result<Submitted> task = engine_.submit({.type = "test", .deadline = after(1h)});
      ASSERT_TRUE(task.ok());
      last_lsn = engine_.submit_cancel(task->id).lsn.value;
      ASSERT_GE(log_.end().lsn_ceiling, last_lsn);
    }
    ASSERT_TRUE(engine_.flush().ok());
  }
  EXPECT_EQ(log_.op_count(), 1U);
  testing::Recovered recovered = after_crash();
  ASSERT_TRUE(recovered.engine->start().ok());
  EXPECT_GT(recovered.engine->submit({.type = "test", .deadline = after(1h)})->lsn.value, last_lsn);
}

class Marks : public Elision {};

TEST_F(Marks, T8_ABatchAtOsMovesTheWrittenMarkOnly) {
  const Lsn synced = engine_.durable_lsn(Durability::kDisk);
  const std::uint64_t syncs = faults_.syncs();
  const Submitted task = submit("os", KeyPolicy::kReject, Durability::kOs);
  ASSERT_TRUE(engine_.wait_durable(task.lsn, Durability::kOs).ok());
  EXPECT_EQ(engine_.durable_lsn(Durability::kOs), task.lsn);
  EXPECT_EQ(engine_.durable_lsn(Durability::kDisk), synced);
  EXPECT_EQ(faults_.syncs(), syncs);
  // Any operation at `disk` syncs what was written before.
  const Submitted at_disk = submit("disk");
  ASSERT_TRUE(engine_.wait_durable(at_disk.lsn).ok());
  EXPECT_EQ(engine_.durable_lsn(Durability::kDisk), at_disk.lsn);
  EXPECT_EQ(faults_.syncs(), syncs + 1);
}

TEST_F(Marks, T8_AnElidedBatchBehindAnUnsyncedOneForcesOneSyncedWatermark) {
  const Submitted task = submit("os", KeyPolicy::kReject, Durability::kOs);
  ASSERT_TRUE(engine_.wait_durable(task.lsn, Durability::kOs).ok());
  const std::uint64_t syncs = faults_.syncs();
  const std::uint64_t ops = faults_.ops();
  const Submitted dead = submit("dead");
  const Change change = engine_.submit_cancel(dead.id);
  ASSERT_TRUE(engine_.wait_durable(change.lsn, Durability::kDisk).ok());
  EXPECT_EQ(faults_.syncs(), syncs + 1);
  EXPECT_EQ(faults_.ops(), ops);
  EXPECT_EQ(log_.synced_size(), log_.size());
  EXPECT_GE(engine_.durable_lsn(Durability::kDisk), change.lsn);
}

TEST_F(Marks, AWaitAtDiskForWhatOnlyAskedForOsSyncs) {
  const Submitted task = submit("os", KeyPolicy::kReject, Durability::kOs);
  ASSERT_TRUE(engine_.wait_durable(task.lsn, Durability::kOs).ok());
  ASSERT_TRUE(engine_.wait_durable(task.lsn, Durability::kDisk).ok());
  EXPECT_EQ(engine_.durable_lsn(Durability::kDisk), task.lsn);
  EXPECT_EQ(log_.synced_size(), log_.size());
}

TEST_F(Marks, MemoryIsReachedAtOnceAndStillLogged) {
  const Submitted task = submit("memory", KeyPolicy::kReject, Durability::kMemory);
  EXPECT_EQ(engine_.durable_lsn(Durability::kMemory), task.lsn);
  EXPECT_TRUE(engine_.wait_durable(task.lsn, Durability::kMemory).ok());
  EXPECT_LT(engine_.durable_lsn(Durability::kOs), task.lsn);
  engine_.poll();
  EXPECT_GE(engine_.durable_lsn(Durability::kOs), task.lsn);
  EXPECT_EQ(after_crash().summary.live, 1U);
}

TEST_F(Marks, ALsnThatWasNotHandedOutIsRefused) {
  const Submitted task = submit("K");
  ASSERT_TRUE(engine_.flush().ok());
  EXPECT_EQ(engine_.wait_durable({task.lsn.value + 1000}).code(), Code::kOutOfRange);
  EXPECT_TRUE(engine_.wait_durable({0}).ok());
}

TEST(MarksThreads, WhatIsOnlyWrittenIsSyncedSoonWithoutAnyCall) {
  Faults faults;
  MemoryLog log;
  ThreadedEngine threaded({}, std::make_unique<FaultJournal>(&faults, log.journal()));
  threaded.run();
  TaskSpec spec{.type = "test", .deadline = after(1h)};
  spec.durability = Durability::kOs;
  const Result<Submitted> task = threaded.engine->submit(spec);
  ASSERT_TRUE(task.ok());
  EXPECT_TRUE(
      eventually([&] { return threaded.engine->durable_lsn(Durability::kDisk) >= task->lsn; },
                 10 * threaded.engine->options().os_sync_bound + 1s));
}

}  // namespace
}  // namespace countwheel
