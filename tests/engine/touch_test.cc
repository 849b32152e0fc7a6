// touch(): heartbeats, and the switch that cancels all when they stop.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/fault_journal.h"
#include "testing/memory_log.h"
#include "testing/restarted.h"

namespace countwheel::testing {
namespace {

using namespace std::chrono_literals;

TEST(Touch, ATaskThatIsTouchedWaitsAndRunsWhenTheTouchesEnd) {
  HostEngine host;
  host.run();
  const TaskId id = host.schedule(after(30s), "session");
  for (int i = 0; i < 600; ++i) {
    host.advance(1s);
    ASSERT_TRUE(host.engine->touch("session", after(30s)).status.ok());
  }
  EXPECT_TRUE(host.started.empty());
  EXPECT_EQ(host.engine->find(id)->boot_deadline_ns, (630s / 1ns));
  host.advance_by_steps(29'999ms, 1s);
  EXPECT_TRUE(host.started.empty());
  host.advance(1ms);
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.started[0].lateness, 0ns);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Touch, TheLogIsToldOnceAnIntervalAndTheWheelOncePerDeadline) {
  MemoryLog log;
  EngineOptions options;
  options.touch_interval = 5s;
  HostEngine host(options, nullptr, log.journal());
  host.run();
  const TaskId id = host.schedule(after(30s));
  const std::uint64_t before = log.op_count();
  for (int i = 0; i < 6'000; ++i) {
    host.advance(10ms);
    ASSERT_TRUE(host.engine->touch(id, after(30s)).status.ok());
  }
  // 60 s of touches: the first, then one every 5 s.
  EXPECT_EQ(log.op_count() - before, 12U);
  EXPECT_LE(host.engine->stats().wheel_entries, 4U);
  EXPECT_TRUE(host.started.empty());
}

TEST(Touch, NeverMovesATaskCloser) {
  HostEngine host;
  host.run();
  const TaskId id = host.schedule(after(30s));
  const Change change = host.engine->touch(id, after(10s));
  EXPECT_TRUE(change.status.ok());
  EXPECT_EQ(host.engine->find(id)->boot_deadline_ns, (30s / 1ns));
  ASSERT_TRUE(host.engine->touch(id, after(40s)).status.ok());
  ASSERT_TRUE(host.engine->touch(id, after(35s)).status.ok());
  EXPECT_EQ(host.engine->find(id)->boot_deadline_ns, (40s / 1ns));
  // A reschedule does.
  ASSERT_TRUE(host.engine->reschedule(id, after(5s)).status.ok());
  host.advance(5s);
  EXPECT_EQ(host.started.size(), 1U);
}

TEST(Touch, WhatCannotBeTouchedSaysWhy) {
  HostEngine host;
  host.run();
  const TaskId id = host.schedule(after(30s));
  EXPECT_EQ(host.engine->touch("nobody", after(1s)).status.code(), Code::kNotFound);
  EXPECT_EQ(host.engine->touch(TaskId::of(9, 9), after(1s)).status.code(), Code::kNotFound);
  const Deadline on_wall = at(WallTime(60s + host.clock.now().wall_ns * 1ns));
  EXPECT_EQ(host.engine->touch(id, on_wall).status.code(), Code::kInvalidArgument);
  EXPECT_EQ(host.engine->touch(id, after(24h * 365 * 100)).status.code(), Code::kOutOfRange);
  host.advance(30s);
  EXPECT_EQ(host.engine->touch(id, after(60s)).status.code(), Code::kNotFound);
  EngineOptions options;
  options.touch_interval = 2h;
  EXPECT_EQ(Engine::create(options).status().code(), Code::kInvalidArgument);
}

TEST(Touch, ATaskThatWaitsInThePoolIsPutOff) {
  GatedExecutor gate;
  HostEngine host({}, &gate);
  host.run();
  const TaskId first = host.schedule(after(1s));
  const TaskId again = host.schedule(after(1s));
  ASSERT_TRUE(host.engine->touch(again, after(2s)).status.ok());
  host.advance(2s);
  // The one was never touched before, the other was.
  ASSERT_TRUE(host.engine->touch(first, after(3s)).status.ok());
  ASSERT_TRUE(host.engine->touch(again, after(3s)).status.ok());
  gate.open();
  EXPECT_TRUE(host.started.empty());
  host.advance(2'999ms);
  gate.open();
  EXPECT_TRUE(host.started.empty());
  host.advance(1ms);
  gate.open();
  EXPECT_EQ(host.started.size(), 2U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Touch, ACrashMakesItLateByTheIntervalAtMostAndNeverEarly) {
  for (int touches = 0; touches < 40; ++touches) {
    SCOPED_TRACE(touches);
    MemoryLog log;
    log.clean_above = touches % 2 == 0 ? 4 : 0;
    HostEngine host({}, nullptr, log.journal());
    host.run();
    const TaskId id = host.schedule(after(30s));
    for (int i = 0; i < touches; ++i) {
      host.advance(150ms);
      ASSERT_TRUE(host.engine->touch(id, after(30s)).status.ok());
      if (log.clean_above != 0) {
        // Others make the cleaner carry it on.
        ASSERT_TRUE(host.engine->cancel(host.schedule(after(1h))));
      }
    }
    const std::int64_t due_ns = host.engine->find(id)->deadline.time_since_epoch().count();
    const Restarted restarted(log, host.clock);
    const std::int64_t then_ns = restarted.engine->find(id)->deadline.time_since_epoch().count();
    EXPECT_GE(then_ns, due_ns);
    EXPECT_LE(then_ns, due_ns + (1s / 1ns));
  }
}

TEST(Touch, ARefusedTouchLeavesTheDeadlineBeforeIt) {
  Faults faults;
  HostEngine host({}, nullptr, std::make_unique<FaultJournal>(&faults));
  host.run();
  const TaskId once = host.schedule(after(10s));
  const TaskId twice = host.schedule(after(10s));
  ASSERT_TRUE(host.engine->touch(twice, after(12s)).status.ok());
  faults.answer(Code::kNoSpace);
  ASSERT_TRUE(host.engine->submit_touch(once, after(20s)).status.ok());
  const Change refused = host.engine->submit_touch(twice, after(20s));
  ASSERT_TRUE(host.engine->submit_touch(twice, after(20'500ms)).status.ok());
  host.engine->poll();
  EXPECT_EQ(host.engine->wait_durable(refused.lsn).code(), Code::kNoSpace);
  host.advance(10s);
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.started[0].id, once);
  host.advance(2s);
  EXPECT_EQ(host.started.size(), 2U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Touch, WhatIsRefusedAfterATouchComesBackToIt) {
  Faults faults;
  HostEngine host({}, nullptr, std::make_unique<FaultJournal>(&faults));
  host.run();
  const TaskId moved = host.schedule(after(10s));
  const TaskId cancelled = host.schedule(after(10s));
  const TaskId replaced = host.schedule(after(10s), "key");
  for (const TaskId id : {moved, cancelled, replaced}) {
    ASSERT_TRUE(host.engine->touch(id, after(20s)).status.ok());
  }
  faults.answer(Code::kNoSpace);
  ASSERT_TRUE(host.engine->submit_reschedule(moved, after(1s)).status.ok());
  ASSERT_TRUE(host.engine->submit_cancel(cancelled));
  ASSERT_TRUE(host.engine
                  ->submit({.type = "test",
                            .deadline = after(1s),
                            .key = "key",
                            .key_policy = KeyPolicy::kReplace})
                  .ok());
  host.engine->poll();
  host.advance(19'999ms);
  EXPECT_TRUE(host.started.empty());
  host.advance(1ms);
  EXPECT_EQ(host.started.size(), 3U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Touch, ATouchedTaskMovesWithItsGroup) {
  HostEngine host;
  host.run();
  const Result<TaskId> id =
      host.engine->schedule({.type = "test", .deadline = after(10s), .group = 7});
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(host.engine->touch(*id, after(20s)).status.ok());
  ASSERT_TRUE(host.engine->reschedule_group(7, after(5s)).status.ok());
  ASSERT_TRUE(host.engine->touch(*id, after(6s)).status.ok());
  host.engine->poll();
  host.engine->poll();
  host.advance(5'999ms);
  EXPECT_TRUE(host.started.empty());
  host.advance(1ms);
  EXPECT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

}  // namespace
}  // namespace countwheel::testing
