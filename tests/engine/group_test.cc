// Groups: one call for all tasks that carry the same number.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/dead_letter_fixture.h"
#include "testing/engine_fixture.h"
#include "testing/fault_journal.h"
#include "testing/memory_log.h"
#include "testing/restarted.h"

namespace countwheel::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSession = 4711;

TaskId join(Engine& engine,
            std::uint64_t group,
            Deadline deadline,
            std::string_view key = {},
            KeyPolicy policy = KeyPolicy::kReject) {
  const Result<TaskId> id = engine.schedule(
      {.type = "test", .deadline = deadline, .key = key, .key_policy = policy, .group = group});
  EXPECT_TRUE(id.ok()) << id.status().text();
  return id.ok() ? *id : TaskId{};
}

// All that the tick thread still has to do for groups.
void settle(HostEngine& host) {
  for (int i = 0; i < 100'000 && host.engine->next_wake().boot_ns <= host.clock.now().boot_ns;
       ++i) {
    host.engine->poll();
  }
}

TEST(Group, CancellingItEndsAllItsTasksAndNoOther) {
  HostEngine host;
  host.run();
  for (int i = 0; i < 1'000; ++i) {
    join(*host.engine, kSession, after(1s), i % 2 == 0 ? "" : "order-" + std::to_string(i));
  }
  const TaskId other = join(*host.engine, kSession + 1, after(1s), "other");
  const TaskId none = host.schedule(after(1s), "none");
  const GroupChange change = host.engine->cancel_group(kSession);
  ASSERT_TRUE(change.status.ok()) << change.status.text();
  EXPECT_EQ(change.count, 1'000U);
  settle(host);
  EXPECT_EQ(host.engine->stats().cancelled, 1'000U);
  EXPECT_EQ(host.engine->stats().pending, 2U);
  EXPECT_EQ(host.engine->group_count(kSession), 0U);
  EXPECT_EQ(host.engine->check_invariants(), "");
  host.advance(2s);
  ASSERT_EQ(host.started.size(), 2U);
  EXPECT_EQ(host.started[0].id, other);
  EXPECT_EQ(host.started[1].id, none);
}

TEST(Group, ACallReturnsWithoutVisitingAMemberAndLogsOneRecord) {
  auto log = std::make_unique<MemoryLog>();
  HostEngine host({}, nullptr, log->journal());
  host.run();
  for (int i = 0; i < 5'000; ++i) {
    join(*host.engine, kSession, after(1h));
  }
  const std::uint64_t ops = log->op_count();
  ASSERT_TRUE(host.engine->reschedule_group(kSession, after(2h)).status.ok());
  EXPECT_EQ(host.engine->stats().group_visits, 0U);
  EXPECT_EQ(log->op_count(), ops + 1);
  settle(host);
  EXPECT_EQ(host.engine->stats().group_visits, 5'000U);
  EXPECT_EQ(log->op_count(), ops + 1);
  host.advance(90min);
  EXPECT_TRUE(host.started.empty());
  host.advance(31min);
  EXPECT_EQ(host.started.size(), 5'000U);
}

TEST(Group, AStepVisitsAFewHundredMembers) {
  HostEngine host;
  host.run();
  for (int i = 0; i < 2'000; ++i) {
    join(*host.engine, kSession, after(1h));
  }
  ASSERT_TRUE(host.engine->cancel_group(kSession).status.ok());
  host.engine->poll();
  const std::uint64_t visits = host.engine->stats().group_visits;
  EXPECT_GT(visits, 0U);
  EXPECT_LE(visits, 512U);
  EXPECT_LE(host.engine->next_wake().boot_ns, host.clock.now().boot_ns);
}

TEST(Group, ExpiringItHandsOverItsTasksInTheOrderOfTheirSchedules) {
  HostEngine host;
  host.run();
  std::vector<TaskId> ids;
  for (int i = 0; i < 3'000; ++i) {
    // Keys spread them over all shards; later ones have earlier deadlines.
    ids.push_back(join(*host.engine, kSession, after(1h - i * 1ms), "o" + std::to_string(i)));
  }
  // A task that is scheduled again goes behind the others.
  ASSERT_TRUE(host.engine->reschedule(ids[5], after(3h)).status.ok());
  ids.push_back(ids[5]);
  ids.erase(ids.begin() + 5);
  EXPECT_EQ(host.engine->expire_group(kSession).count, 3'000U);
  settle(host);
  ASSERT_EQ(host.started.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_EQ(host.started[i].id, ids[i]) << i;
    ASSERT_TRUE(host.started[i].overdue);
  }
}

TEST(Group, FromTheCallOnAMemberIsWhatTheCallMadeOfIt) {
  HostEngine host;
  host.run();
  const TaskId moved = join(*host.engine, 1, after(10s), "moved");
  const TaskId cancelled = join(*host.engine, 2, after(10s), "cancelled");
  const WallTime before = host.engine->find(moved)->deadline;
  ASSERT_TRUE(host.engine->submit_reschedule_group(1, after(20s)).status.ok());
  ASSERT_TRUE(host.engine->submit_cancel_group(2).status.ok());
  EXPECT_EQ(host.engine->find(moved)->deadline, before + 10s);
  EXPECT_EQ(host.engine->find("cancelled").code(), Code::kNotFound);
  EXPECT_EQ(host.engine->find(cancelled).code(), Code::kNotFound);
  EXPECT_EQ(host.engine->list(TaskId{}, 10).size(), 1U);
  EXPECT_EQ(host.engine->cancel(cancelled).status.code(), Code::kNotFound);
  EXPECT_EQ(host.engine->reschedule("cancelled", after(1s)).status.code(), Code::kNotFound);
  EXPECT_EQ(host.engine->reschedule_if(moved, before, after(1s)).status.code(), Code::kChanged);
  const Change change = host.engine->cancel(moved);
  EXPECT_EQ(change.status.code(), Code::kCancelled);
  EXPECT_EQ(change.deadline, before + 10s);
  settle(host);
  EXPECT_EQ(host.engine->stats().cancelled, 2U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Group, TheKeyOfACancelledMemberIsFreeAtOnce) {
  HostEngine host;
  host.run();
  join(*host.engine, kSession, after(10s), "order-1");
  ASSERT_TRUE(host.engine->submit_cancel_group(kSession).status.ok());
  const TaskId again = join(*host.engine, kSession, after(10s), "order-1");
  settle(host);
  EXPECT_EQ(host.engine->find("order-1")->id, again);
  host.advance(11s);
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.started[0].id, again);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Group, ATaskThatWaitsInThePoolIsCancelledOrMovedWithItsGroup) {
  GatedExecutor gate;
  HostEngine host({}, &gate);
  host.run();
  join(*host.engine, 1, after(1s));
  join(*host.engine, 2, after(1s));
  EXPECT_EQ(host.advance(1s), 2U);
  ASSERT_TRUE(host.engine->submit_cancel_group(1).status.ok());
  ASSERT_TRUE(host.engine->submit_reschedule_group(2, after(5s)).status.ok());
  gate.open();
  EXPECT_TRUE(host.started.empty());
  settle(host);
  gate.open();
  EXPECT_TRUE(host.started.empty());
  host.advance(5s);
  gate.open();
  EXPECT_EQ(host.started.size(), 1U);
}

TEST(Group, ARunningMemberIsToldAndDoesNotComeBack) {
  HostEngine host;
  std::optional<Delivery> kept;
  ASSERT_TRUE(host.engine->on("test", [&](Delivery d) { kept.emplace(std::move(d)); }).ok());
  ASSERT_TRUE(host.engine->start().ok());
  const TaskId id = join(*host.engine, kSession, after(0s));
  host.advance(1ms);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(host.engine->cancel_group(kSession).count, 1U);
  settle(host);
  EXPECT_TRUE(kept->cancel_requested());
  EXPECT_TRUE(kept->fail("no").ok());
  kept.reset();
  host.advance(1h);
  EXPECT_EQ(host.engine->find(id).code(), Code::kNotFound);
  EXPECT_EQ(host.engine->stats().pending, 0U);
  EXPECT_FALSE(kept.has_value());
}

TEST(Group, AnEmptyGroupIsNotFoundAndGroupZeroIsNone) {
  HostEngine host;
  host.run();
  host.schedule(after(1s));
  EXPECT_EQ(host.engine->cancel_group(kSession).status.code(), Code::kNotFound);
  EXPECT_EQ(host.engine->cancel_group(0).status.code(), Code::kInvalidArgument);
  EXPECT_EQ(host.engine->reschedule_group(kSession, after(1h * 24 * 365 * 100)).status.code(),
            Code::kOutOfRange);
  EXPECT_EQ(host.engine->group_count(kSession), 0U);
  EXPECT_EQ(host.engine->stats().pending, 1U);
}

TEST(Group, AMemberThatEndsLeavesIt) {
  FailingEngine host;
  const TaskId dead = join(*host.engine, kSession, after(0s));
  host.advance(1ms);
  const TaskId cancelled = join(*host.engine, kSession, after(1h), "x");
  (void)host.engine->cancel(cancelled);
  EXPECT_EQ(host.engine->group_count(kSession), 0U);
  EXPECT_EQ(host.engine->find(dead)->group, kSession);
  // What is made of its dead letter is a member again.
  host.succeed = true;
  const Result<TaskId> again = host.engine->requeue(dead, after(1h));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(host.engine->group_count(kSession), 1U);
  // An upsert moves it into another group.
  join(*host.engine, 1, after(1h), "y");
  join(*host.engine, 2, after(1h), "y", KeyPolicy::kReplace);
  EXPECT_EQ(host.engine->group_count(1), 0U);
  EXPECT_EQ(host.engine->group_count(2), 1U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Group, APausedGroupWaitsAndTheOthersGoOn) {
  HostEngine host;
  host.run();
  ASSERT_TRUE(host.engine->pause_group(kSession).ok());
  join(*host.engine, kSession, after(1s), "held");
  const TaskId cancelled = join(*host.engine, kSession, after(1s), "cancelled");
  const TaskId other = host.schedule(after(1s));
  host.advance(2s);
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.started[0].id, other);
  EXPECT_TRUE(host.engine->cancel(cancelled));
  ASSERT_TRUE(host.engine->resume_group(kSession).ok());
  settle(host);
  ASSERT_EQ(host.started.size(), 2U);
  EXPECT_EQ(host.started[1].key, "held");
  EXPECT_EQ(host.started[1].lateness, 1s);
}

TEST(Group, ARefusedChangeHasChangedNothing) {
  Faults faults;
  HostEngine host({}, nullptr, std::make_unique<FaultJournal>(&faults));
  host.run();
  join(*host.engine, 1, after(1s));
  join(*host.engine, 2, after(1s), "order-2");
  faults.answer(Code::kNoSpace);
  const GroupChange cancel = host.engine->submit_cancel_group(1);
  const GroupChange move = host.engine->submit_reschedule_group(2, after(1h));
  ASSERT_TRUE(cancel.status.ok());
  // Falls due before anybody knows that the disk is full.
  host.clock.advance(1s);
  host.engine->poll();
  EXPECT_EQ(host.engine->wait_durable(cancel.lsn).code(), Code::kNoSpace);
  EXPECT_EQ(host.engine->wait_durable(move.lsn).code(), Code::kNoSpace);
  settle(host);
  EXPECT_EQ(host.started.size(), 2U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Group, AMemberThatWasTakenBackIsWhatItsGroupHadBecome) {
  Faults faults;
  HostEngine host({}, nullptr, std::make_unique<FaultJournal>(&faults));
  host.run();
  const TaskId id = join(*host.engine, 1, after(1s));
  const TaskId keyed = join(*host.engine, 2, after(1s), "k");
  // Durable, but the tick thread has not come to the members.
  ASSERT_TRUE(host.engine->reschedule_group(1, after(1h)).status.ok());
  ASSERT_TRUE(host.engine->cancel_group(2).status.ok());
  faults.answer(Code::kNoSpace);
  ASSERT_TRUE(host.engine->submit_reschedule(id, after(2h)).status.ok());
  ASSERT_TRUE(host.engine->submit({.type = "test", .deadline = after(1s), .key = "k"}).ok());
  settle(host);
  host.advance(59min);
  EXPECT_TRUE(host.started.empty());
  EXPECT_EQ(host.engine->find(keyed).code(), Code::kNotFound);
  EXPECT_EQ(host.engine->find("k").code(), Code::kNotFound);
  host.advance(2min);
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.started[0].id, id);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

// The same calls with a crash after each commit: memory and log agree, visited or not.
TEST(Group, ACrashAtAnyPointLeavesWhatWasAcknowledged) {
  for (const bool swept : {false, true}) {
    SCOPED_TRACE(swept);
    MemoryLog log;
    HostEngine host({}, nullptr, log.journal());
    host.run();
    std::vector<TaskId> ids;
    for (int i = 0; i < 600; ++i) {
      ids.push_back(
          join(*host.engine, 1 + static_cast<unsigned>(i % 3), after(1h), "o" + std::to_string(i)));
    }
    ASSERT_TRUE(host.engine->cancel_group(1).status.ok());
    ASSERT_TRUE(host.engine->reschedule_group(2, after(10s)).status.ok());
    join(*host.engine, 1, after(1h), "o0");
    ASSERT_TRUE(host.engine->reschedule(ids[1], after(2h)).status.ok());
    if (swept) {
      settle(host);
    }
    Restarted restarted(log, host.clock);
    Engine& engine = *restarted.engine;
    EXPECT_EQ(restarted.summary.live, 401U);
    EXPECT_EQ(engine.group_count(1), 1U);
    EXPECT_EQ(engine.group_count(2), 200U);
    EXPECT_EQ(engine.group_count(3), 200U);
    std::vector<TaskId> started;
    ASSERT_TRUE(engine
                    .on("test",
                        [&](Delivery d) {
                          started.push_back(d.id());
                          EXPECT_TRUE(d.done().ok());
                        })
                    .ok());
    ASSERT_TRUE(engine.start().ok());
    restarted.clock.advance(11s);
    engine.poll();
    ASSERT_EQ(started.size(), 199U);
    for (std::size_t i = 0; i < started.size(); ++i) {
      ASSERT_EQ(started[i], ids[4 + 3 * i]) << i;
    }
    EXPECT_EQ(engine.check_invariants(), "");
  }
}

// The cleaner carries tasks on behind the record of a change: it must not undo it.
TEST(Group, TheCleanerCarriesWhatAMemberHasBecome) {
  MemoryLog log;
  log.clean_above = 8;
  HostEngine host({}, nullptr, log.journal());
  host.run();
  for (int i = 0; i < 40; ++i) {
    join(*host.engine, 1 + static_cast<unsigned>(i % 2), after(1h));
  }
  ASSERT_TRUE(host.engine->cancel_group(1).status.ok());
  ASSERT_TRUE(host.engine->reschedule_group(2, after(2h)).status.ok());
  for (int i = 0; i < 60; ++i) {
    const TaskId id = host.schedule(after(10s));
    ASSERT_TRUE(host.engine->cancel(id));  // Commits, and so cleans, with nothing swept.
  }
  ASSERT_GT(host.engine->stats().reappended, 0U);
  Restarted restarted(log, host.clock);
  EXPECT_EQ(restarted.summary.live, 20U);
  for (const TaskInfo& info : restarted.engine->list(TaskId{}, 100)) {
    EXPECT_EQ(info.group, 2U);
    EXPECT_EQ(info.deadline.time_since_epoch().count(), host.clock.now().wall_ns + (2h / 1ns));
  }
}

}  // namespace
}  // namespace countwheel::testing
