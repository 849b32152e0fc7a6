// The fire rule through the whole engine: in tick precision a task with deadline D is handed over
// at the first tick boundary that is not before D, whatever level of the wheel it passed through.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <pthread.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::HostEngine;
using testing::Started;

EngineOptions tick_precision() {
  EngineOptions options;
  options.wheel.precision = Precision::kTick;
  return options;
}

// F(D): the tick boundary at which a deadline is due.
nanoseconds boundary(nanoseconds deadline) {
  return (deadline + 10ms - 1ns) / 10ms * 10ms;
}

void advance_to(HostEngine& host, nanoseconds boot) {
  host.clock.advance(boot - nanoseconds(host.clock.now().boot_ns));
  host.engine->poll();
}

TEST(TickCases, B01_ATaskThatArmsItsSuccessorDoesNotDrift) {
  HostEngine host(tick_precision());
  std::vector<nanoseconds> fires;
  ASSERT_TRUE(host.engine
                  ->on("chain",
                       [&](Delivery d) {
                         fires.push_back(nanoseconds(host.clock.now().boot_ns));
                         const Deadline next = at(d.deadline() + 10s);
                         EXPECT_TRUE(host.engine->schedule({.type = "chain", .deadline = next}));
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  ASSERT_TRUE(host.engine->schedule({.type = "chain", .deadline = after(10s)}));
  host.advance_by_steps(123s, 10ms);
  std::vector<nanoseconds> expected;
  for (int i = 1; i <= 12; ++i) {
    expected.push_back(i * 10s);
  }
  EXPECT_EQ(fires, expected);
  EXPECT_EQ(host.engine->stats().pending, 1U);
  const std::vector<TaskInfo> left = host.engine->list({}, 10);
  ASSERT_EQ(left.size(), 1U);
  const auto start = nanoseconds(host.clock.now().wall_ns - host.clock.now().boot_ns);
  EXPECT_EQ(left[0].deadline.time_since_epoch() - start, 130s);
}

TEST(TickCases, B02_DelaysOfWholeTurnsAreNeitherEarlyNorATurnLate) {
  HostEngine host(tick_precision());
  host.run();
  constexpr nanoseconds kTop = 1024h;
  std::map<nanoseconds, std::size_t> expected;
  for (const nanoseconds now : {nanoseconds(0), nanoseconds(990ms), nanoseconds(995ms)}) {
    advance_to(host, now);
    for (const nanoseconds delay : {nanoseconds(1s),
                                    nanoseconds(2s),
                                    nanoseconds(3600s),
                                    nanoseconds(7200s),
                                    kTop,
                                    2 * kTop}) {
      host.schedule(after(delay));
      ++expected[boundary(now + delay)];
    }
    host.engine->poll();
    EXPECT_TRUE(host.started.empty());
  }
  std::size_t total = 0;
  for (const auto& [moment, count] : expected) {
    advance_to(host, moment - 1ns);
    EXPECT_EQ(host.started.size(), total) << moment.count();
    advance_to(host, moment);
    total += count;
    EXPECT_EQ(host.started.size(), total) << moment.count();
  }
  EXPECT_EQ(total, 18U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(TickCases, B03_DeadlinesOffTheTickRunWithStepsThatAreNoDivisor) {
  HostEngine host(tick_precision());
  host.run();
  host.schedule(after(12ms), "first");
  host.schedule(after(110ms), "second");
  for (int i = 0; i < 10'000; ++i) {
    host.advance(18ms);
  }
  ASSERT_EQ(host.started.size(), 2U);
  EXPECT_EQ(host.started[0].key, "first");
  EXPECT_EQ(nanoseconds(host.started[0].boot_ns), 36ms);  // the first step that reaches 20 ms
  EXPECT_EQ(host.started[1].key, "second");
  EXPECT_EQ(nanoseconds(host.started[1].boot_ns), 126ms);
}

TEST(TickCases, B04_OneStepOverAMinuteHandsOverAllInOrder) {
  HostEngine host(tick_precision());
  host.run();
  for (const auto delay : {1500ms, 30ms, 61'000ms, 250ms, 990ms}) {
    host.schedule(after(delay));
  }
  EXPECT_EQ(host.advance(62s), 5U);
  std::vector<nanoseconds> lateness;
  for (const Started& start : host.started) {
    lateness.push_back(start.lateness);
  }
  EXPECT_EQ(lateness, (std::vector<nanoseconds>{61'970ms, 61'750ms, 61'010ms, 60'500ms, 1'000ms}));
  EXPECT_EQ(nanoseconds(host.engine->stats().lateness_ns_max), 61'970ms);
}

TEST(TickCases, B05_LongerThanTheWheel) {
  HostEngine host(tick_precision());
  host.run();
  const std::vector<nanoseconds> delays = {
      24h * 7 + 1h, 24h * 30, 24h * 400, std::chrono::years(10)};
  for (const nanoseconds delay : delays) {
    host.schedule(after(delay));
  }
  std::size_t runs = 0;
  for (const nanoseconds delay : delays) {
    advance_to(host, delay - 10ms);
    EXPECT_EQ(host.started.size(), runs) << delay.count();
    advance_to(host, delay);
    EXPECT_EQ(host.started.size(), ++runs) << delay.count();
  }
  EXPECT_EQ(host.engine->stats().pending, 0U);
}

struct HugeStep {
  HostEngine* host = nullptr;
  std::chrono::steady_clock::duration took{};
};

void* huge_step(void* argument) {
  auto* step = static_cast<HugeStep*>(argument);
  const auto start = std::chrono::steady_clock::now();
  step->host->advance(24h * 15);
  step->took = std::chrono::steady_clock::now() - start;
  return nullptr;
}

TEST(TickCases, B08_AHugeStepNeedsNeitherTimeNorStack) {
  HostEngine host(tick_precision());
  host.run();
  for (const nanoseconds delay : {nanoseconds(1s), nanoseconds(24h * 10), nanoseconds(24h * 15)}) {
    host.schedule(after(delay));
  }
  HugeStep step;
  step.host = &host;
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &attributes, &huge_step, &step), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  ASSERT_EQ(host.started.size(), 3U);
  EXPECT_TRUE(std::is_sorted(
      host.started.begin(), host.started.end(), [](const Started& a, const Started& b) {
        return a.lateness > b.lateness;
      }));
  EXPECT_LT(step.took, 10 * 100ms);  // the limit is 100 ms on a quiet machine
}

TEST(TickCases, B09_AHandlerTouchesTasksOfItsOwnInstant) {
  HostEngine host(tick_precision());
  Change cancelled;
  Change moved;
  ASSERT_TRUE(host.engine
                  ->on("first",
                       [&](Delivery d) {
                         cancelled = host.engine->cancel("B");
                         moved = host.engine->reschedule("C", after(5s));
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  host.run();
  ASSERT_TRUE(host.engine->schedule({.type = "first", .deadline = after(1s), .key = "A"}));
  host.schedule(after(1s), "B");
  host.schedule(after(1s), "C");
  host.advance_by_steps(10s, 10ms);
  // Their handlers had not started: both calls win.
  EXPECT_EQ(cancelled.status.code(), Code::kCancelled);
  EXPECT_EQ(moved.status.code(), Code::kOk);
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.started[0].key, "C");
  EXPECT_EQ(nanoseconds(host.started[0].boot_ns), 6s);
  const Stats stats = host.engine->stats();
  EXPECT_EQ(stats.skipped, 2U);
  EXPECT_EQ(stats.cancelled, 1U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(TickCases, B10_OverdueThenMovedToTheFutureIsForgottenWhenCancelled) {
  HostEngine host(tick_precision());
  host.run();
  advance_to(host, 5ms);
  const TaskId id = host.schedule(after(-1s));
  EXPECT_EQ(host.engine->reschedule(id, after(5s)).status.code(), Code::kOk);
  advance_to(host, 2s);
  EXPECT_EQ(host.engine->cancel(id).status.code(), Code::kCancelled);
  std::vector<TaskId> fresh;
  for (int i = 0; i < 1000; ++i) {
    fresh.push_back(host.schedule(after(1ms * (i % 100))));
  }
  host.advance_by_steps(10s, 10ms);
  EXPECT_EQ(host.started.size(), 1000U);
  for (const Started& start : host.started) {
    EXPECT_NE(start.id, id);
    EXPECT_LE(start.lateness, 10ms);
  }
  EXPECT_EQ(host.engine->stats().pending, 0U);
}

TEST(TickCases, B11_NextWakeFollowsEveryMove) {
  HostEngine host(tick_precision());
  host.run();
  const auto wake = [&] { return nanoseconds(host.engine->next_wake().boot_ns); };
  const TaskId x = host.schedule(after(200ms));
  const TaskId y = host.schedule(after(250ms));
  host.engine->poll();
  EXPECT_EQ(wake(), 200ms);
  const auto move = [&](TaskId id, nanoseconds to) {
    EXPECT_EQ(host.engine->reschedule(id, after(to)).status.code(), Code::kOk);
    EXPECT_EQ(wake(), 0ms);  // The wheel must hear of it first: poll at once.
    EXPECT_EQ(host.engine->poll(), 0U);
  };
  move(x, 300ms);
  EXPECT_EQ(wake(), 250ms);
  move(y, 350ms);
  EXPECT_EQ(wake(), 300ms);
  move(x, 400ms);
  EXPECT_EQ(wake(), 350ms);
  move(y, 5ms);
  EXPECT_EQ(wake(), 10ms);
  host.advance_by_steps(1s, 10ms);
  ASSERT_EQ(host.started.size(), 2U);
  EXPECT_EQ(host.started[0].id, y);
  EXPECT_EQ(nanoseconds(host.started[0].boot_ns), 10ms);
  EXPECT_EQ(host.started[1].id, x);
  EXPECT_EQ(nanoseconds(host.started[1].boot_ns), 400ms);
  EXPECT_EQ(host.engine->next_wake().boot_ns, kNever);
}

TEST(TickCases, B11_WhatWasOnlySubmittedAsksForAPollAtOnce) {
  HostEngine host;
  host.run();
  host.engine->poll();
  EXPECT_EQ(host.engine->next_wake(), (Instant{kNever, kNever}));
  ASSERT_TRUE(host.engine->submit({.type = "test", .deadline = after(1h)}));
  EXPECT_LE(host.engine->next_wake().boot_ns, host.clock.now().boot_ns);
  host.engine->poll();
  // A little earlier: the wheel has its own work to do on the way.
  EXPECT_LE(nanoseconds(host.engine->next_wake().boot_ns), 1h);
  EXPECT_GE(nanoseconds(host.engine->next_wake().boot_ns), 1h - 1s);
}

TEST(TickCases, B13_ALongTaskIsCancelledAtAnyAge) {
  constexpr nanoseconds kLife = 24h * 10;
  for (const nanoseconds age :
       {nanoseconds(0), nanoseconds(24h * 3), kLife - 1h, kLife - 500ms, kLife - 10ms}) {
    HostEngine host(tick_precision());
    ASSERT_TRUE(host.engine
                    ->on("cancels",
                         [&](Delivery d) {
                           EXPECT_EQ(host.engine->cancel("long").status.code(), Code::kCancelled);
                           EXPECT_TRUE(d.done().ok());
                         })
                    .ok());
    host.run();
    host.schedule(after(kLife), "long");
    // In the very step that reaches its age: at kLife - 1h the one that moves it between levels.
    ASSERT_TRUE(host.engine->schedule({.type = "cancels", .deadline = after(age)}));
    advance_to(host, age);
    EXPECT_EQ(host.engine->stats().cancelled, 1U) << age.count();
    EXPECT_EQ(host.engine->stats().pending, 0U) << age.count();
    advance_to(host, kLife + 1h);
    EXPECT_TRUE(host.started.empty());
    EXPECT_EQ(host.engine->check_invariants(), "");
  }
}

}  // namespace
}  // namespace countwheel
