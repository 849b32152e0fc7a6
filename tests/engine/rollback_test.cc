// What the log definitely refuses is taken back, newest first; what was acknowledged at `memory`
// and the own records of the engine stay; due tasks still run.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
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
using std::chrono::nanoseconds;
using testing::eventually;
using testing::FaultJournal;
using testing::Faults;
using testing::HostEngine;
using testing::MemoryLog;

// All that the table knows, as one text.
std::string everything(const Engine& engine) {
  std::string text;
  for (const TaskInfo& task : engine.list({}, 1'000'000)) {
    text += std::to_string(task.id.value) + " " + std::string(to_string(task.state)) + " " +
            task.type + " " + task.key + " " + task.payload + " " +
            std::to_string(task.deadline.time_since_epoch().count()) + " " +
            std::to_string(task.boot_deadline_ns) + " " + std::to_string(task.order_lsn.value) +
            " " + std::to_string(task.failures) + " " + std::to_string(task.attempts) + "\n";
  }
  const Stats stats = engine.stats();
  return text + std::to_string(stats.pending) + " " + std::to_string(stats.pending_bytes) + " " +
         std::to_string(stats.scheduled - stats.cancelled - stats.replaced);
}

class Rollback : public ::testing::Test {
 protected:
  Rollback()
      : host_({}, nullptr, std::make_unique<FaultJournal>(&faults_, log_.journal())),
        engine_(*host_.engine) {
    host_.run();
    EXPECT_TRUE(engine_.flush().ok());  // the types' names
  }

  Submitted submit(const TaskSpec& spec) {
    const Result<Submitted> submitted = engine_.submit(spec);
    EXPECT_TRUE(submitted.ok()) << submitted.status().text();
    return submitted.ok() ? *submitted : Submitted{};
  }
  Submitted submit(Deadline deadline, std::string_view key) {
    return submit({.type = "test", .deadline = deadline, .key = key});
  }
  // What is queued is refused.
  void refuse() {
    faults_.answer(Code::kNoSpace);
    EXPECT_EQ(engine_.flush().code(), Code::kNoSpace);
    EXPECT_EQ(engine_.check_invariants(), "");
  }
  // Until the engine accepts again. It asks the journal now and then by itself.
  void space_returns() {
    faults_.answer(Code::kOk);
    EXPECT_TRUE(eventually(
        [this] {
          engine_.poll();
          return engine_.stats().health == Health::kOk;
        },
        10s));
    engine_.poll();
  }
  // The keys that a crash now would leave.
  std::vector<std::string> after_crash() const {
    ManualClock clock;
    InlineExecutor executor;
    EngineOptions options;
    options.drive = Drive::kHost;
    const std::unique_ptr<MemoryLog> image = log_.killed();
    const Result<testing::Recovered> recovered =
        testing::recover(*image, options, &clock, &executor);
    EXPECT_TRUE(recovered.ok()) << recovered.status().text();
    std::vector<std::string> keys;
    for (const TaskInfo& task : recovered->engine->list({}, 1000)) {
      keys.push_back(task.key);
    }
    std::sort(keys.begin(), keys.end());
    return keys;
  }

  MemoryLog log_;
  Faults faults_;
  HostEngine host_;
  Engine& engine_;
};

TEST_F(Rollback, ARefusedScheduleIsGone) {
  const std::string before = everything(engine_);
  const Submitted task = submit(after(1s), "K");
  refuse();
  EXPECT_EQ(engine_.wait_durable(task.lsn).code(), Code::kNoSpace);
  EXPECT_EQ(engine_.find(task.id).code(), Code::kNotFound);
  EXPECT_EQ(engine_.find("K").code(), Code::kNotFound);
  EXPECT_EQ(everything(engine_), before);
  EXPECT_EQ(host_.advance(1h), 0U);
  EXPECT_EQ(engine_.stats().health, Health::kDegraded);
  EXPECT_EQ(engine_.stats().rolled_back, 1U);
  EXPECT_EQ(engine_.schedule({.type = "test", .deadline = after(1s)}).code(), Code::kNoSpace);
  space_returns();
  EXPECT_NE(host_.schedule(after(1s), "K"), task.id);  // ids are used up
}

TEST_F(Rollback, ACancelledTaskIsScheduledAgainAndRuns) {
  host_.schedule(after(10s), "K");
  const std::string before = everything(engine_);
  const Change change = engine_.submit_cancel("K");
  EXPECT_EQ(change.status.code(), Code::kCancelled);
  refuse();
  EXPECT_EQ(engine_.wait_durable(change.lsn).code(), Code::kNoSpace);
  EXPECT_EQ(everything(engine_), before);
  host_.advance(10s);  // without space: due tasks still run
  ASSERT_EQ(host_.started.size(), 1U);
  EXPECT_EQ(host_.started[0].lateness, 0ns);
}

TEST_F(Rollback, ACancelledTaskThatFellDueMeanwhileRunsAtOnce) {
  host_.schedule(after(10s), "K");
  engine_.poll();
  EXPECT_TRUE(engine_.submit_cancel("K"));
  host_.clock.advance(20s);
  EXPECT_EQ(host_.started.size(), 0U);
  refuse();
  engine_.poll();
  ASSERT_EQ(host_.started.size(), 1U);
  EXPECT_EQ(host_.started[0].lateness, 10s);
}

TEST_F(Rollback, AMovedTaskHasItsOldDeadline) {
  host_.schedule(after(10s), "K");
  const std::string before = everything(engine_);
  EXPECT_TRUE(engine_.submit_reschedule("K", after(1h)));
  refuse();
  EXPECT_EQ(everything(engine_), before);
  host_.advance(10s);
  EXPECT_EQ(host_.started.size(), 1U);
  host_.advance(2h);
  EXPECT_EQ(host_.started.size(), 1U);
}

TEST_F(Rollback, AnUpsertGivesBackTheWholeTask) {
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(10s);
  ASSERT_TRUE(engine_
                  .on(
                      "fails", [](Delivery d) { (void)d.fail("once"); }, policy)
                  .ok());
  ASSERT_TRUE(engine_.schedule(
      {.type = "fails", .deadline = after(0s), .key = "K", .payload = std::string(100, 'o')}));
  engine_.poll();  // one failure
  ASSERT_TRUE(engine_.flush().ok());
  const std::string before = everything(engine_);
  EXPECT_NE(before.find("fails K"), std::string::npos);
  TaskSpec spec{.type = "test", .deadline = after(0s), .key = "K", .payload = "new"};
  spec.key_policy = KeyPolicy::kReplace;
  EXPECT_TRUE(submit(spec).replaced);
  refuse();
  EXPECT_EQ(everything(engine_), before);
  EXPECT_EQ(engine_.find("K")->failures, 1U);
  engine_.poll();
  EXPECT_TRUE(host_.started.empty());
}

TEST_F(Rollback, AChainOfChangesIsUndoneFromItsEnd) {
  host_.schedule(after(10s), "K");
  const std::string before = everything(engine_);
  EXPECT_TRUE(engine_.submit_reschedule("K", after(20s)));
  EXPECT_TRUE(engine_.submit_reschedule("K", after(30s)));
  TaskSpec spec{.type = "test", .deadline = after(40s), .key = "K", .payload = "a longer payload"};
  spec.key_policy = KeyPolicy::kReplace;
  submit(spec);
  EXPECT_TRUE(engine_.submit_reschedule("K", after(50s)));
  EXPECT_TRUE(engine_.submit_cancel("K"));
  submit(after(60s), "K");
  EXPECT_TRUE(engine_.submit_reschedule("K", after(70s)));
  refuse();
  EXPECT_EQ(everything(engine_), before);
  host_.advance(10s);
  ASSERT_EQ(host_.started.size(), 1U);
  EXPECT_EQ(host_.started[0].payload, "");
}

TEST_F(Rollback, AnElidedPairSharesTheFateOfItsBatch) {
  const std::string before = everything(engine_);
  const Submitted dead = submit(after(1s), "A");
  EXPECT_TRUE(engine_.submit_cancel("A"));
  submit(after(1s), "B");  // something that must be written
  refuse();
  EXPECT_EQ(everything(engine_), before);
  EXPECT_EQ(engine_.wait_durable(dead.lsn).code(), Code::kNoSpace);
}

TEST_F(Rollback, AWatermarkThatFailsTakesNothingBack) {
  // A batch with an elided pair goes well; then only the fsync that somebody waits for fails.
  TaskSpec spec{.type = "test", .deadline = after(1h), .key = "os"};
  spec.durability = Durability::kOs;
  const Submitted kept = submit(spec);
  spec.key = "pair";
  submit(spec);
  EXPECT_TRUE(engine_.cancel("pair", Durability::kOs));
  ASSERT_TRUE(engine_.wait_durable(kept.lsn, Durability::kOs).ok());
  const std::string before = everything(engine_);
  faults_.answer(Code::kNoSpace);
  EXPECT_EQ(engine_.wait_durable(kept.lsn, Durability::kDisk, 1ms).code(), Code::kTimedOut);
  EXPECT_EQ(everything(engine_), before);
  space_returns();
  EXPECT_TRUE(engine_.wait_durable(kept.lsn, Durability::kDisk).ok());
  EXPECT_EQ(after_crash(), (std::vector<std::string>{"os"}));
}

TEST_F(Rollback, TheKeyGoesBackToTheCancelledTask) {
  const TaskId first = host_.schedule(after(10s), "K");
  EXPECT_TRUE(engine_.submit_cancel("K"));
  submit(after(20s), "K");
  refuse();
  EXPECT_EQ(engine_.find("K")->id, first);
  host_.advance(1h);
  EXPECT_EQ(host_.started.size(), 1U);
}

TEST_F(Rollback, AKeyThatAnAcknowledgedTaskHasIsNotTakenBack) {
  const TaskId first = host_.schedule(after(10s), "K");
  EXPECT_TRUE(engine_.submit_cancel("K"));
  TaskSpec spec{.type = "test", .deadline = after(20s), .key = "K"};
  spec.durability = Durability::kMemory;
  const Submitted second = submit(spec);  // acknowledged: never rolled back
  faults_.answer(Code::kNoSpace);
  engine_.poll();
  EXPECT_EQ(engine_.find("K")->id, second.id);
  EXPECT_EQ(engine_.find(first).code(), Code::kNotFound);
  EXPECT_EQ(engine_.check_invariants(), "");
  host_.advance(1h);
  ASSERT_EQ(host_.started.size(), 1U);
  EXPECT_EQ(host_.started[0].id, second.id);
  space_returns();
  EXPECT_TRUE(after_crash().empty());
}

TEST_F(Rollback, WhatWasAcknowledgedAtMemoryStaysRunsAndIsLoggedLater) {
  TaskSpec spec{.type = "test", .deadline = after(10s), .key = "memory"};
  spec.durability = Durability::kMemory;
  submit(spec);
  spec.key = "later";
  spec.deadline = after(1h);
  submit(spec);
  // It stands on a schedule and a move that were only wanted at `disk`.
  submit(after(2h), "on disk");
  EXPECT_TRUE(engine_.submit_reschedule("on disk", after(3h)));
  EXPECT_TRUE(engine_.reschedule("on disk", after(4h), Durability::kMemory));
  submit(after(2h), "refused");
  refuse();
  EXPECT_EQ(engine_.find("refused").code(), Code::kNotFound);
  EXPECT_EQ(nanoseconds(engine_.find("on disk")->boot_deadline_ns), 4h);
  host_.advance(10s);
  ASSERT_EQ(host_.started.size(), 1U);
  EXPECT_EQ(host_.started[0].key, "memory");
  EXPECT_TRUE(after_crash().empty());
  space_returns();
  EXPECT_EQ(after_crash(), (std::vector<std::string>{"later", "on disk"}));
}

TEST_F(Rollback, TheEnginesOwnRecordsWaitForSpace) {
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(1s);
  policy.retry.max_attempts = 2;
  ASSERT_TRUE(engine_
                  .on(
                      "fails", [](Delivery d) { (void)d.fail("no"); }, policy)
                  .ok());
  host_.schedule(after(1s), "done");
  ASSERT_TRUE(engine_.schedule({.type = "fails", .deadline = after(1s), .key = "dead"}));
  faults_.answer(Code::kNoSpace);
  host_.advance(1s);
  EXPECT_EQ(host_.started.size(), 1U);
  EXPECT_EQ(engine_.stats().done, 1U);
  EXPECT_EQ(after_crash(), (std::vector<std::string>{"dead", "done"}));  // redelivered then
  EXPECT_GT(engine_.stats().durable_lag, 0U);
  host_.advance(1s);  // the retry is filed although it is not in the log
  EXPECT_EQ(engine_.stats().dead, 1U);
  space_returns();
  EXPECT_EQ(after_crash(), (std::vector<std::string>{"dead"}));
  EXPECT_EQ(engine_.stats().durable_lag, 0U);
}

TEST_F(Rollback, ARefusedCancelOfARunningTaskIsForgotten) {
  std::vector<Delivery> kept;
  ASSERT_TRUE(engine_.on("keeps", [&](Delivery d) { kept.push_back(std::move(d)); }).ok());
  const Result<TaskId> id = engine_.schedule({.type = "keeps", .deadline = after(0s)});
  engine_.poll();
  ASSERT_EQ(kept.size(), 1U);
  const Change change = engine_.submit_cancel(*id);
  EXPECT_EQ(change.status.code(), Code::kTooLate);
  EXPECT_TRUE(kept[0].cancel_requested());
  refuse();
  EXPECT_FALSE(kept[0].cancel_requested());
  EXPECT_TRUE(kept[0].fail("later").ok());
  EXPECT_EQ(engine_.find(*id)->state, State::kScheduled);  // it is tried again
}

TEST_F(Rollback, ARefusedBatchOfAnythingChangesNothing) {
  const char* given = std::getenv("COUNTWHEEL_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 42;
  SCOPED_TRACE("COUNTWHEEL_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    Faults faults;
    HostEngine host({}, nullptr, std::make_unique<FaultJournal>(&faults));
    host.run();
    const auto change_something = [&] {
      const std::string key = "k" + std::to_string(random() % 6);
      const Deadline deadline =
          random() % 2 == 0
              ? after(1s * (random() % 100 + 1))
              : at(WallTime(nanoseconds(host.clock.now().wall_ns)) + 1s * (random() % 100 + 1));
      const std::string payload(random() % 40, static_cast<char>('a' + random() % 26));
      TaskSpec spec{.type = "test", .deadline = deadline, .key = key, .payload = payload};
      switch (random() % 4) {
        case 0:
          (void)host.engine->submit(spec);
          break;
        case 1:
          spec.key_policy = KeyPolicy::kReplace;
          (void)host.engine->submit(spec);
          break;
        case 2:
          (void)host.engine->submit_cancel(key);
          break;
        default:
          (void)host.engine->submit_reschedule(key, deadline);
          break;
      }
    };
    for (int i = 0; i < 10; ++i) {
      change_something();
    }
    ASSERT_TRUE(host.engine->flush().ok());
    const std::string before = everything(*host.engine);
    const std::size_t pending = host.engine->stats().pending;
    for (std::uint64_t i = random() % 30; i > 0; --i) {
      change_something();
    }
    faults.answer(Code::kNoSpace);
    (void)host.engine->flush();
    ASSERT_EQ(everything(*host.engine), before) << round;
    ASSERT_EQ(host.engine->check_invariants(), "") << round;
    host.advance(1h);
    ASSERT_EQ(host.started.size(), pending) << round;  // and each runs, once
  }
}

}  // namespace
}  // namespace countwheel
