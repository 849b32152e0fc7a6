// The bounded cascade, by an exact counter of moved entries: no clock, so it holds on a busy box.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/wheel.h>

#include "testing/naive_wheel.h"
#include "wheel_testing.h"

namespace countwheel::testing {
namespace {

constexpr std::uint64_t kMillion = 1'000'000;

TEST(WheelCascade, AMillionInOneHourMove64ATick) {
  TimingWheel wheel({}, 0);
  NaiveWheel naive;
  wheel.reserve(kMillion);
  std::mt19937_64 random(1);
  constexpr std::int64_t kHourTicks = kHour / kTick;
  for (std::uint64_t i = 0; i < kMillion; ++i) {
    const std::int64_t deadline_ns =
        3 * kHour + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(kHour - kTick));
    wheel.schedule(deadline_ns, i);
    naive.schedule(static_cast<std::uint64_t>((deadline_ns + kTick - 1) / kTick));
  }
  std::uint64_t expired = 0;
  std::uint64_t naive_expired = 0;
  for (std::int64_t tick = 1; tick <= 4 * kHourTicks; ++tick) {
    expired +=
        wheel.advance(tick * kTick, [](std::span<const TimingWheel::Expired>) {}).handed_over;
    naive_expired += naive.advance();
  }
  EXPECT_EQ(expired, kMillion);
  EXPECT_EQ(naive_expired, kMillion);
  EXPECT_LE(wheel.counters().moved_in_advance_max, 64U);
  EXPECT_EQ(wheel.counters().cascade_forced, 0U);
  EXPECT_EQ(naive.moved_in_advance_max(), kMillion);
}

TEST(WheelCascade, TwoFullHoursShareOneBudget) {
  // While the first half moves from seconds to ticks, the second moves from hours to seconds.
  TimingWheel wheel({}, 0);
  std::mt19937_64 random(2);
  for (std::uint64_t i = 0; i < kMillion; ++i) {
    wheel.schedule(
        3 * kHour + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * kHour)), i);
  }
  std::uint64_t expired = 0;
  for (std::int64_t now_ns = 0; now_ns <= 5 * kHour; now_ns += kTick) {
    expired += wheel.advance(now_ns, [](std::span<const TimingWheel::Expired>) {}).handed_over;
  }
  EXPECT_EQ(expired, kMillion);
  EXPECT_LE(wheel.counters().moved_in_advance_max, 64U);
  EXPECT_EQ(wheel.counters().cascade_forced, 0U);
}

TEST(WheelCascade, ASecondWithAMillionMovesAHundredthATick) {
  TimingWheel wheel({}, 0);
  std::mt19937_64 random(3);
  for (std::uint64_t i = 0; i < kMillion; ++i) {
    wheel.schedule(
        100 * kSecond + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(kSecond)),
        i);
  }
  EXPECT_EQ(run_ticks(wheel, 0, 101 * kSecond).size(), kMillion);
  EXPECT_LE(wheel.counters().moved_in_advance_max, kMillion / 100 + 64);
  EXPECT_EQ(wheel.counters().cascade_forced, 0U);
}

TEST(WheelCascade, TheFirstSecondOfAnHourHoldsAllOfIt) {
  // The worst place: all must pass both borders within a few seconds.
  constexpr std::uint64_t kCount = 200'000;
  TimingWheel wheel({}, 0);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    wheel.schedule(5 * kHour + static_cast<std::int64_t>(i) * 1000, i);
  }
  const std::vector<Expiry> fired = run_ticks(wheel, 0, 5 * kHour + kSecond);
  EXPECT_EQ(fired.size(), kCount);
  EXPECT_LE(wheel.counters().moved_in_advance_max, kCount / 100 + 64);
  EXPECT_EQ(wheel.counters().cascade_forced, 0U);
  EXPECT_TRUE(std::is_sorted(fired.begin(), fired.end(), [](const Expiry& a, const Expiry& b) {
    return a.deadline_ns < b.deadline_ns;
  }));
}

TEST(WheelCascade, TicklessHostSleepsUntilTheDrainMustStart) {
  TimingWheel wheel({}, 0);
  for (std::uint64_t i = 0; i < kMillion; ++i) {
    wheel.schedule(10 * kHour + static_cast<std::int64_t>(i) * (kHour / 1'000'000), i);
  }
  // A million at 64 a tick are 156 s; a 64th more is for those that move twice.
  const std::int64_t drain_ns = wheel.next_wake();
  EXPECT_GE(drain_ns, 10 * kHour - 160 * kSecond);
  EXPECT_LE(drain_ns, 10 * kHour - 156 * kSecond);
  std::uint64_t wakes = 0;
  EXPECT_TRUE(run_wakes(wheel, 10 * kHour - 1, &wakes).empty());
  EXPECT_LE(wakes, 16'100U);
  EXPECT_LE(wheel.counters().moved_in_advance_max, 64U);
  EXPECT_EQ(wheel.counters().cascade_forced, 0U);
  EXPECT_TRUE(is_intact(wheel));
}

TEST(WheelCascade, ALoneLongTimerCostsAHandfulOfWakes) {
  TimingWheel wheel({}, 0);
  const std::int64_t deadline_ns = 10 * kDay + 12'345'678'901'234;
  wheel.schedule(deadline_ns, 1);
  std::uint64_t wakes = 0;
  const std::vector<Expiry> fired = run_wakes(wheel, 20 * kDay, &wakes);
  EXPECT_EQ(fired, (std::vector<Expiry>{{1, deadline_ns, deadline_ns}}));
  EXPECT_LE(wakes, 4U);
}

TEST(WheelCascade, JumpPastTheBorderPaysAtOnceAndIsCounted) {
  TimingWheel wheel({}, 0);
  for (std::uint64_t i = 0; i < 10'000; ++i) {
    wheel.schedule(10 * kHour + kSecond + static_cast<std::int64_t>(i) * 100'000'000, i);
  }
  EXPECT_TRUE(expire(wheel, 10 * kHour + kTick).empty());
  EXPECT_EQ(wheel.counters().cascade_forced, 10'000U);
  EXPECT_TRUE(is_intact(wheel));
  EXPECT_EQ(expire(wheel, 11 * kHour).size(), 10'000U);
}

TEST(WheelCascade, LaterRoundsStayWhereTheyAre) {
  // Timers one and two turns of the ring ahead share the slot of the hour that is drained.
  constexpr std::int64_t kTurn = 1024 * kHour;
  TimingWheel wheel({}, 0);
  for (std::uint64_t i = 0; i < 3'000; ++i) {
    wheel.schedule(5 * kHour + static_cast<std::int64_t>(i / 3) * kSecond +
                       static_cast<std::int64_t>(i % 3) * kTurn,
                   i % 3);
  }
  for (std::int64_t turn = 0; turn < 3; ++turn) {
    const std::vector<Expiry> fired = run_wakes(wheel, turn * kTurn + 6 * kHour);
    EXPECT_EQ(fired.size(), 1'000U);
    for (const Expiry& expiry : fired) {
      EXPECT_EQ(expiry.value, static_cast<std::uint64_t>(turn));
      EXPECT_EQ(expiry.now_ns, expiry.deadline_ns);
    }
    EXPECT_TRUE(is_intact(wheel));
  }
}

TEST(WheelCascade, ABurstOfNewTimersDoesNotSpeedUpTheDrain) {
  // The hour is being drained when 100,000 short timers arrive in one tick.
  TimingWheel wheel({}, 0);
  for (std::uint64_t i = 0; i < kMillion; ++i) {
    wheel.schedule(10 * kHour + static_cast<std::int64_t>(i) * (kHour / 1'000'000), i);
  }
  std::int64_t now_ns = 10 * kHour - 120 * kSecond;
  run_wakes(wheel, now_ns);
  const std::uint64_t moved_before = wheel.counters().moved_in_advance_max;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    wheel.schedule(now_ns + 600 * kSecond + static_cast<std::int64_t>(i), i);
  }
  run_ticks(wheel, now_ns, 10 * kHour - kTick);
  EXPECT_LE(moved_before, 64U);
  EXPECT_LE(wheel.counters().moved_in_advance_max, 64U);
  EXPECT_EQ(wheel.counters().cascade_forced, 0U);
}

}  // namespace
}  // namespace countwheel::testing
