// How the tick thread waits: what it is told to wait for, not how long that takes on a busy
// machine.
#include "engine/tick_thread.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <sched.h>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "engine/wake_latency.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using detail::make_tick_sleeper;
using detail::WakeLatency;

TEST(WakeLatency, SettlesWhereOneDelayInTenIsLonger) {
  const char* given = std::getenv("COUNTWHEEL_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  SCOPED_TRACE("COUNTWHEEL_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> delay_ns(1.0 / 20'000.0);
  WakeLatency latency(1'000'000);
  for (int i = 0; i < 20'000; ++i) {
    latency.add(static_cast<std::int64_t>(delay_ns(random)));
  }
  int longer = 0;
  constexpr int kLooks = 20'000;
  for (int i = 0; i < kLooks; ++i) {
    const auto delay = static_cast<std::int64_t>(delay_ns(random));
    longer += delay > latency.ns() ? 1 : 0;
    latency.add(delay);
  }
  EXPECT_GT(longer, kLooks / 20);
  EXPECT_LT(longer, kLooks / 5);
}

TEST(WakeLatency, StaysWithinWhatItMaySpin) {
  WakeLatency latency(50'000);
  for (int i = 0; i < 1'000; ++i) {
    latency.add(10'000'000);
  }
  EXPECT_EQ(latency.ns(), 50'000);
  WakeLatency none(0);
  none.add(10'000'000);
  EXPECT_EQ(none.ns(), 0);
}

class EveryWait : public ::testing::TestWithParam<Wait> {
 protected:
  static std::unique_ptr<Sleeper> sleeper() {
    return make_tick_sleeper(SystemClock::instance(), {.wait = GetParam()});
  }
  static Instant in(std::chrono::nanoseconds delay) {
    Instant until = SystemClock::instance().now();
    until.boot_ns += delay.count();
    until.wall_ns = kNever;
    return until;
  }
};

TEST_P(EveryWait, EndsNotBeforeItsTime) {
  const std::unique_ptr<Sleeper> sleeper = this->sleeper();
  for (const std::chrono::microseconds delay : {0us, 1us, 50us, 300us, 2000us}) {
    const Instant until = in(delay);
    // A sleeper may return a little early: its caller looks again.
    while (SystemClock::instance().now().boot_ns < until.boot_ns) {
      sleeper->wait(until);
    }
    EXPECT_GE(SystemClock::instance().now().boot_ns, until.boot_ns);
  }
}

TEST_P(EveryWait, EndsWhenWokenAlsoWithNothingToWaitFor) {
  const std::unique_ptr<Sleeper> sleeper = this->sleeper();
  for (int i = 0; i < 20; ++i) {
    std::thread waker([&] { sleeper->wake(); });
    sleeper->wait({kNever, kNever});
    waker.join();
  }
  // A wake that comes before the wait ends the wait.
  sleeper->wake();
  sleeper->wait({kNever, kNever});
}

TEST_P(EveryWait, AnEngineStartsTasksNeverEarly) {
  EngineOptions options;
  options.tick_thread.wait = GetParam();
  Result<std::unique_ptr<Engine>> made = Engine::create(options);
  ASSERT_TRUE(made.ok());
  Engine& engine = **made;
  std::atomic<int> started{0};
  std::atomic<int> early{0};
  ASSERT_TRUE(engine
                  .on("test",
                      [&](Delivery d) {
                        early += SystemClock::instance().now().wall_ns <
                                         d.deadline().time_since_epoch().count()
                                     ? 1
                                     : 0;
                        ++started;
                        EXPECT_TRUE(d.done().ok());
                      })
                  .ok());
  ASSERT_TRUE(engine.start().ok());
  constexpr int kTasks = 50;
  const WallTime now =
      std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now());
  for (int i = 0; i < kTasks; ++i) {
    ASSERT_TRUE(engine.submit({.type = "test", .deadline = at(now + i * 400us)}).ok());
  }
  while (started.load() < kTasks) {
    std::this_thread::yield();
  }
  EXPECT_EQ(early.load(), 0);
  EXPECT_TRUE(engine.stop().ok());
}

INSTANTIATE_TEST_SUITE_P(TickThread,
                         EveryWait,
                         ::testing::Values(Wait::kSleep, Wait::kHybrid, Wait::kSpin));

TEST(TickThread, WhatTheKernelRefusesIsReportedAndTheEngineRuns) {
  EngineOptions options;
  options.tick_thread.cpu = 1023;  // no machine of these tests has so many
  Result<std::unique_ptr<Engine>> made = Engine::create(options);
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE((*made)->start().ok());
  const std::string refused = (*made)->stats().tick_thread_refused;
  EXPECT_NE(refused.find("cpu 1023"), std::string::npos) << refused;
  EXPECT_TRUE((*made)->stop().ok());
}

TEST(TickThread, WhatItGetsIsNotReported) {
  EngineOptions options;
  options.tick_thread.cpu = sched_getcpu();
  Result<std::unique_ptr<Engine>> made = Engine::create(options);
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE((*made)->start().ok());
  EXPECT_EQ((*made)->stats().tick_thread_refused, "");
  EXPECT_TRUE((*made)->stop().ok());
}

TEST(TickThread, NonsenseIsRefusedByName) {
  const auto refusal = [](const TickThreadOptions& tick_thread) {
    EngineOptions options;
    options.tick_thread = tick_thread;
    const Result<std::unique_ptr<Engine>> made = Engine::create(options);
    return made.status().text();
  };
  EXPECT_EQ(refusal({.max_spin = 11ms}),
            "invalid_argument: EngineOptions::tick_thread.max_spin is 11000000 ns, allowed: 0 to "
            "10 ms");
  EXPECT_EQ(refusal({.realtime_priority = 100}),
            "invalid_argument: EngineOptions::tick_thread.realtime_priority is 100, allowed: 0 to "
            "99");
  EXPECT_EQ(refusal({.cpu = -2}),
            "invalid_argument: EngineOptions::tick_thread.cpu is -2, allowed: -1 to 1023");
}

}  // namespace
}  // namespace countwheel
