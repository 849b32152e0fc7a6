// What clocks do to an engine: they stall, step, sleep with the machine and wake it too early. On
// the host's drive, and on the engine's own threads where the sleep is the point.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"
#include "testing/shim_clock.h"
#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::EarlyClock;
using testing::eventually;
using testing::HostEngine;
using testing::StalledClock;
using testing::Started;
using testing::ThreadedEngine;

TEST(ClockCases, B15_ADelayCountsFromTheCallNotFromTheLastTick) {
  HostEngine host;
  host.run();
  host.engine->poll();
  host.clock.advance(5s);  // Nobody polls: the tick thread is held up.
  host.schedule(after(5s));
  EXPECT_EQ(host.engine->poll(), 0U);
  host.advance_by_steps(5s - 10ms, 10ms);
  EXPECT_TRUE(host.started.empty());
  host.advance(10ms);
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_GE(nanoseconds(host.started[0].boot_ns), 10'000ms);
  EXPECT_LE(nanoseconds(host.started[0].boot_ns), 10'010ms);
}

TEST(ClockCases, B15_ATickThreadThatIsHeldUpRunsNothingEarly) {
  StalledClock clock;
  ThreadedEngine threaded({}, nullptr, &clock);
  threaded.run();
  threaded.schedule(after(1h));
  clock.hold();
  threaded.schedule(after(1ms));  // Wakes it into the stall.
  ASSERT_TRUE(eventually([&] { return clock.holding(); }));
  clock.manual.advance(5s);
  threaded.schedule(after(5s), "late call");
  clock.release();
  ASSERT_TRUE(threaded.wait_starts(1));
  clock.manual.advance(5s - 1ns);
  EXPECT_EQ(threaded.engine->stats().handed_over, 1U);
  clock.manual.advance(1ns);  // 10.000 s
  ASSERT_TRUE(threaded.wait_starts(2));
  EXPECT_EQ(threaded.starts()[1].key, "late call");
  EXPECT_EQ(threaded.starts()[1].lateness, 0ns);
}

TEST(ClockCases, B16_StepsOfTheWallMoveOnlyWhatFollowsTheWall) {
  HostEngine host;
  host.run();
  const std::int64_t wall_start = host.clock.now().wall_ns;
  // The wall starts at 09:00:00Z; this is 09:02:00Z.
  host.schedule(at(WallTime(nanoseconds(wall_start) + 120s)), "wall");
  for (int fires = 0; fires < 24; ++fires) {
    host.schedule(after(5s), "boot");
    host.advance_by_steps(5s, 10ms);
    if (fires + 1 == 12) {
      host.clock.step_wall(-1h);  // at 60 s
      host.engine->poll();
    }
  }
  EXPECT_EQ(host.started.size(), 24U);
  for (std::size_t i = 0; i < host.started.size(); ++i) {
    EXPECT_EQ(host.started[i].key, "boot");
    EXPECT_EQ(nanoseconds(host.started[i].boot_ns), 5s * (i + 1));
  }
  host.clock.step_wall(1h);  // at 120 s
  EXPECT_EQ(host.engine->poll(), 1U);
  ASSERT_EQ(host.started.size(), 25U);
  EXPECT_EQ(host.started[24].key, "wall");
  EXPECT_EQ(nanoseconds(host.started[24].boot_ns), 120s);
  EXPECT_EQ(host.started[24].lateness, 0ns);
  host.advance_by_steps(2h, 1s);
  EXPECT_EQ(host.started.size(), 25U);
  const Stats stats = host.engine->stats();
  EXPECT_EQ(stats.clock_steps_back, 1U);
  EXPECT_EQ(stats.clock_steps_forward, 1U);
}

TEST(ClockCases, B16_AStepOfTheWallEndsTheSleep) {
  ThreadedEngine threaded;
  threaded.run();
  const WallTime in_two_hours(nanoseconds(threaded.clock.now().wall_ns) + 2h);
  threaded.schedule(at(in_two_hours), "wall");
  threaded.schedule(after(2h), "boot");
  threaded.clock.step_wall(2h);
  ASSERT_TRUE(threaded.wait_starts(1));
  EXPECT_EQ(threaded.starts()[0].key, "wall");
  threaded.clock.step_wall(-3h);
  threaded.clock.advance(2h);
  ASSERT_TRUE(threaded.wait_starts(2));
  EXPECT_EQ(threaded.starts()[1].key, "boot");
  EXPECT_TRUE(threaded.wait_idle());
  EXPECT_EQ(threaded.start_count(), 2U);
}

TEST(ClockCases, B17_ABootClockThatStepsBackIsHeldAndCounted) {
  HostEngine host;
  const std::int64_t wall = host.clock.now().wall_ns;
  host.run();
  for (const auto deadline : {100ms, 105ms, 110ms}) {
    host.schedule(after(deadline));
  }
  std::size_t runs = 0;
  const std::vector<std::pair<nanoseconds, std::size_t>> feed = {
      {100ms, 1}, {99ms, 1}, {105ms, 2}, {95ms, 2}, {110ms, 3}};
  for (const auto& [boot, expected] : feed) {
    host.clock.set({wall + boot.count(), boot.count()});
    runs += host.engine->poll();
    EXPECT_EQ(runs, expected) << boot.count();
    EXPECT_EQ(host.started.size(), expected) << boot.count();
  }
  EXPECT_EQ(host.engine->stats().clock_backsteps, 2U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(ClockCases, B18_AfterASuspendANewShortTaskWakesTheThread) {
  ThreadedEngine threaded;
  threaded.run();
  threaded.schedule(after(1h), "old");
  // Both clocks jump and the sleeping thread is not told.
  threaded.clock.suspend(2h);
  threaded.schedule(after(50ms), "new");
  ASSERT_TRUE(threaded.wait_starts(1));
  EXPECT_EQ(threaded.starts()[0].key, "old");
  EXPECT_EQ(threaded.starts()[0].lateness, 1h);
  threaded.clock.advance(50ms);
  ASSERT_TRUE(threaded.wait_starts(2));
  EXPECT_EQ(threaded.starts()[1].key, "new");
  EXPECT_EQ(nanoseconds(threaded.starts()[1].boot_ns), 2h + 50ms);
}

TEST(ClockCases, B19_AStallIsCaughtUpInOnePass) {
  HostEngine host;
  host.run();
  for (int i = 1; i <= 600; ++i) {
    host.schedule(after(i * 100ms - 100ms));  // the first is due as the stall begins
  }
  EXPECT_EQ(host.advance(60s), 600U);
  ASSERT_EQ(host.started.size(), 600U);
  EXPECT_TRUE(std::is_sorted(
      host.started.begin(), host.started.end(), [](const Started& a, const Started& b) {
        return a.lateness > b.lateness;
      }));
  EXPECT_EQ(nanoseconds(host.engine->stats().lateness_ns_max), 60s);
}

TEST(ClockCases, B19_TheThreadCatchesUpWithoutSleepingThroughTheStall) {
  StalledClock clock;
  ThreadedEngine threaded({}, nullptr, &clock);
  threaded.run();
  clock.hold();
  for (int i = 1; i <= 600; ++i) {
    ASSERT_TRUE(threaded.engine->submit({.type = "test", .deadline = after(i * 100ms)}));
  }
  ASSERT_TRUE(threaded.engine->flush().ok());
  clock.manual.advance(60s);
  ASSERT_TRUE(eventually([&] { return clock.holding(); }));
  const std::uint64_t steps = threaded.engine->stats().steps;
  clock.release();
  ASSERT_TRUE(threaded.wait_idle());
  const Stats stats = threaded.engine->stats();
  EXPECT_LE(stats.steps - steps, 10U);
  EXPECT_EQ(stats.handed_over, 600U);
  EXPECT_GE(nanoseconds(stats.lateness_ns_max), 60s - 100ms - 10ms);
  EXPECT_LE(nanoseconds(stats.lateness_ns_max), 60s + 10ms);
}

// 1,000 tasks, 10 ms apart, on a thread that always wakes 0.3 ms too early.
void expect_early_wakes_are_harmless(Precision precision) {
  EarlyClock clock;
  EngineOptions options;
  options.wheel.precision = precision;
  ThreadedEngine threaded(options, nullptr, &clock);
  ASSERT_TRUE(threaded.engine->on("test", [](Delivery d) { EXPECT_TRUE(d.done().ok()); }).ok());
  for (int i = 1; i <= 1000; ++i) {
    ASSERT_TRUE(threaded.engine->submit({.type = "test", .deadline = after(i * 10ms)}));
  }
  ASSERT_TRUE(threaded.engine->flush().ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  ASSERT_TRUE(threaded.wait_idle());
  const Stats stats = threaded.engine->stats();
  EXPECT_EQ(stats.done, 1000U);
  EXPECT_LE(nanoseconds(stats.lateness_ns_max), 10ms);
  // After an early wake the thread sleeps again for what is left, never for a whole period more.
  for (const std::int64_t planned_ns : clock.planned_ns()) {
    EXPECT_LE(nanoseconds(planned_ns), 10ms);
  }
}

TEST(ClockCases, B20_WakingTooEarlyIsSleptOutExact) {
  expect_early_wakes_are_harmless(Precision::kExact);
}
TEST(ClockCases, B20_WakingTooEarlyIsSleptOutTick) {
  expect_early_wakes_are_harmless(Precision::kTick);
}

TEST(ClockCases, B21_AnIdleThreadDoesNotWake) {
  // Tickless, and pinned here: <= 10 wake-ups while 10 s pass, empty or with a task in 10 years.
  for (const bool with_task : {false, true}) {
    ThreadedEngine threaded;
    threaded.run();
    if (with_task) {
      threaded.schedule(after(std::chrono::years(10)));
    }
    for (int i = 0; i < 1000; ++i) {
      threaded.clock.advance(10ms);
    }
    EXPECT_LE(threaded.engine->stats().steps, 10U);
    EXPECT_LE(threaded.engine->stats().spurious_wakes, 10U);
  }
}

class AmsterdamTime : public ::testing::Test {
 protected:
  AmsterdamTime() {
    setenv("TZ", "Europe/Amsterdam", 1);
    tzset();
  }
  ~AmsterdamTime() override {
    unsetenv("TZ");
    tzset();
  }
};

TEST_F(AmsterdamTime, B23_SummerTimeShiftsNothing) {
  using std::chrono::sys_days;
  using namespace std::chrono;
  // The nights in which the clocks of Amsterdam are set, and the moment: 01:00:00Z.
  for (const sys_days day : {sys_days(2026y / March / 29), sys_days(2026y / October / 25)}) {
    HostEngine host;
    host.run();
    const WallTime change = WallTime(day) + 1h;
    const std::vector<WallTime> deadlines = {change - 10ms, change, change + 10ms};
    for (const WallTime deadline : deadlines) {
      host.schedule(at(deadline));
    }
    const nanoseconds until = change - 1s - WallTime(nanoseconds(host.clock.now().wall_ns));
    EXPECT_EQ(host.advance(until), 0U);
    host.advance_by_steps(2s, 1ms);
    ASSERT_EQ(host.started.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(WallTime(nanoseconds(host.started[i].wall_ns)), deadlines[i]);
    }
  }
}

TEST(WallSteps, BackBetweenHandOverAndStartIsNeverEarly) {
  testing::GatedExecutor gate;
  HostEngine host({}, &gate);
  host.run();
  const WallTime deadline(nanoseconds(host.clock.now().wall_ns) + 1s);
  host.schedule(at(deadline));
  EXPECT_EQ(host.advance(1s), 1U);
  host.clock.step_wall(-10s);
  gate.open();  // The worker looks at the clock again.
  EXPECT_TRUE(host.started.empty());
  EXPECT_EQ(host.engine->poll(), 0U);
  EXPECT_EQ(host.advance(10s - 1ns), 0U);
  EXPECT_EQ(host.advance(1ns), 1U);
  gate.open();
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_EQ(WallTime(nanoseconds(host.started[0].wall_ns)), deadline);
  host.advance(1h);
  gate.open();
  EXPECT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(WallSteps, ForwardIsCaughtUpInOrder) {
  HostEngine host;
  host.run();
  const WallTime now(nanoseconds(host.clock.now().wall_ns));
  for (const auto delay : {3h, 1h, 2h}) {
    host.schedule(at(now + delay), std::to_string(delay.count()));
  }
  host.schedule(after(1h), "boot");
  host.engine->poll();
  host.clock.step_wall(4h);
  EXPECT_EQ(host.engine->poll(), 3U);
  ASSERT_EQ(host.started.size(), 3U);
  EXPECT_EQ(host.started[0].key, "1");
  EXPECT_EQ(host.started[1].key, "2");
  EXPECT_EQ(host.started[2].key, "3");
  EXPECT_EQ(host.engine->stats().clock_steps_forward, 1U);
}

}  // namespace
}  // namespace countwheel
