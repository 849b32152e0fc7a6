// Bug reports about other people's wheels, as scenarios: what is handed over when. Those about
// moving, cancelling and storage are in wheel_moves_test.cc. Precision is `tick`, as the reports
// count in ticks of 10 ms; F(d) is the first tick not before d.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <pthread.h>
#include <span>
#include <time.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/wheel.h>

#include "wheel_testing.h"

namespace countwheel::testing {
namespace {

std::int64_t first_tick(std::int64_t deadline_ns) {
  return (deadline_ns + kTick - 1) / kTick * kTick;
}

TEST(WheelCases, B01_PeriodicTimerDoesNotDrift) {
  TimingWheel wheel(tick_precision(), 0);
  std::vector<std::int64_t> fired_at;
  wheel.schedule(10 * kSecond, 0);
  for (std::int64_t now_ns = 0; now_ns <= 123 * kSecond; now_ns += kTick) {
    wheel.advance(now_ns, [&](std::span<const TimingWheel::Expired> batch) {
      for (const TimingWheel::Expired& expired : batch) {
        fired_at.push_back(now_ns);
        wheel.schedule(expired.deadline_ns + 10 * kSecond, 0);
      }
    });
  }
  ASSERT_EQ(fired_at.size(), 12U);
  for (std::size_t i = 0; i < fired_at.size(); ++i) {
    EXPECT_EQ(fired_at[i], static_cast<std::int64_t>(i + 1) * 10 * kSecond);
  }
  EXPECT_EQ(wheel.size(), 1U);
  EXPECT_EQ(wheel.next_deadline(), 130 * kSecond);
  EXPECT_TRUE(is_intact(wheel));
}

TEST(WheelCases, B02_DelayOfAWholeTurn) {
  // The turns of the levels: 1 s, 2.56 s, 1 h, 8192 s, 1024 h.
  constexpr std::int64_t kTop = 1024 * kHour;
  const std::vector<std::int64_t> delays = {1 * kSecond,
                                            2 * kSecond,
                                            256 * kTick,
                                            3600 * kSecond,
                                            7200 * kSecond,
                                            8192 * kSecond,
                                            kTop,
                                            2 * kTop};
  TimingWheel wheel(tick_precision(), 0);
  std::vector<std::int64_t> deadlines;
  for (const std::int64_t now_ns : {std::int64_t{0}, 990 * kMs, 995 * kMs}) {
    EXPECT_TRUE(expire(wheel, now_ns).empty());
    for (const std::int64_t delay_ns : delays) {
      wheel.schedule(now_ns + delay_ns, deadlines.size());
      deadlines.push_back(now_ns + delay_ns);
    }
    EXPECT_TRUE(expire(wheel, now_ns).empty());
  }
  std::vector<std::int64_t> sorted = deadlines;
  std::sort(sorted.begin(), sorted.end());
  for (const std::int64_t deadline_ns : sorted) {
    EXPECT_TRUE(expire(wheel, first_tick(deadline_ns) - kTick).empty()) << deadline_ns;
    for (const Expiry& expiry : expire(wheel, first_tick(deadline_ns))) {
      EXPECT_EQ(first_tick(expiry.deadline_ns), first_tick(deadline_ns));
      EXPECT_EQ(expiry.deadline_ns, deadlines[expiry.value]);
    }
    ASSERT_TRUE(is_intact(wheel));
  }
  EXPECT_EQ(wheel.size(), 0U);
}

TEST(WheelCases, B03_DeadlineBetweenTicks) {
  TimingWheel wheel(tick_precision(), 0);
  wheel.schedule(12 * kMs, 1);
  wheel.schedule(110 * kMs, 2);
  std::vector<Expiry> fired;
  for (std::int64_t step = 0; step < 10'000; ++step) {
    const std::vector<Expiry> expiries = expire(wheel, step * 18 * kMs);
    fired.insert(fired.end(), expiries.begin(), expiries.end());
  }
  ASSERT_EQ(fired.size(), 2U);
  EXPECT_EQ(fired[0], (Expiry{1, 12 * kMs, 36 * kMs}));  // 18 ms is before the tick at 20.
  EXPECT_EQ(fired[1], (Expiry{2, 110 * kMs, 126 * kMs}));
}

TEST(WheelCases, B04_OneAdvanceOverAMinute) {
  TimingWheel wheel(tick_precision(), 0);
  for (const std::int64_t delay_ms : {1500, 30, 61'000, 250, 990}) {
    wheel.schedule(delay_ms * kMs, static_cast<std::uint64_t>(delay_ms));
  }
  const std::vector<Expiry> fired = expire(wheel, 62 * kSecond);
  EXPECT_EQ(values_of(fired), (std::vector<std::uint64_t>{30, 250, 990, 1500, 61'000}));
  std::vector<std::int64_t> lateness_ms;
  for (const Expiry& expiry : fired) {
    lateness_ms.push_back((expiry.now_ns - expiry.deadline_ns) / kMs);
  }
  EXPECT_EQ(lateness_ms, (std::vector<std::int64_t>{61'970, 61'750, 61'010, 60'500, 1'000}));
}

TEST(WheelCases, B05_LongerThanTheWheel) {
  TimingWheel wheel(tick_precision(), 0);
  const std::vector<std::int64_t> deadlines = {
      7 * kDay + kHour, 30 * kDay, 400 * kDay, 3'652 * kDay};
  for (const std::int64_t deadline_ns : deadlines) {
    wheel.schedule(deadline_ns, 0);
  }
  for (const std::int64_t deadline_ns : deadlines) {
    EXPECT_EQ(expire(wheel, deadline_ns - kTick).size(), 0U);
    EXPECT_TRUE(is_intact(wheel));
    EXPECT_EQ(expire(wheel, deadline_ns).size(), 1U);
  }
  EXPECT_EQ(wheel.size(), 0U);
}

TEST(WheelCases, B06_DelaysBeyond32Bits) {
  constexpr std::int64_t kTwo31 = std::int64_t{1} << 31;
  constexpr std::int64_t kTwo32 = std::int64_t{1} << 32;
  TimingWheel wheel(tick_precision(), 0);
  const std::vector<std::int64_t> delays_ms = {
      kTwo31 - 1, kTwo31, kTwo31 + 1, kTwo32 - 1, kTwo32, kTwo32 + 5'000, kTwo31 * 10};
  EXPECT_EQ(kTwo31 * kTick, 248 * kDay + 13 * kHour + 13 * 60 * kSecond + 56'480 * kMs);
  for (const std::int64_t delay_ms : delays_ms) {
    wheel.schedule(delay_ms * kMs, static_cast<std::uint64_t>(delay_ms));
  }
  std::size_t fired = 0;
  for (const std::int64_t delay_ms : delays_ms) {
    const std::int64_t tick_ns = first_tick(delay_ms * kMs);
    for (const Expiry& expiry : expire(wheel, tick_ns - kTick)) {
      ADD_FAILURE() << expiry.value << " expired early";
    }
    for (const Expiry& expiry : expire(wheel, tick_ns)) {
      EXPECT_EQ(first_tick(expiry.deadline_ns), tick_ns);
      ++fired;
    }
  }
  EXPECT_EQ(fired, delays_ms.size());
}

TEST(WheelCases, B06_TickCountersBeyond32Bits) {
  for (const std::int64_t border : {std::int64_t{1} << 31, std::int64_t{1} << 32}) {
    const std::int64_t start_ns = (border - 5) * kTick;
    TimingWheel wheel(tick_precision(), start_ns);
    wheel.schedule(start_ns + 30 * kMs, 30);
    wheel.schedule(start_ns + kSecond, 1000);
    const std::vector<Expiry> fired = run_ticks(wheel, start_ns, start_ns + 2 * kSecond);
    ASSERT_EQ(fired.size(), 2U);
    EXPECT_EQ(fired[0].now_ns, start_ns + 30 * kMs);
    EXPECT_EQ(fired[1].now_ns, start_ns + kSecond);
    EXPECT_TRUE(is_intact(wheel));
  }
}

// Of this thread: what others do on the machine does not count.
std::chrono::nanoseconds processor_time() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// 15 days in a thread with a small stack.
struct HugeStep {
  std::vector<Expiry> fired;
  std::chrono::nanoseconds elapsed{};
};

void* take_huge_step(void* argument) {
  auto& result = *static_cast<HugeStep*>(argument);
  TimingWheel wheel(tick_precision(), 0);
  wheel.schedule(10 * kDay, 2);
  wheel.schedule(15 * kDay, 3);
  wheel.schedule(kSecond, 1);
  const std::chrono::nanoseconds before = processor_time();
  result.fired = expire(wheel, 15 * kDay);
  result.elapsed = processor_time() - before;
  return nullptr;
}

TEST(WheelCases, B08_HugeClockStep) {
  HugeStep result;
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, 256 * 1024), 0);
  pthread_t thread = {};
  ASSERT_EQ(pthread_create(&thread, &attributes, take_huge_step, &result), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
  EXPECT_EQ(values_of(result.fired), (std::vector<std::uint64_t>{1, 2, 3}));
  // It takes microseconds; a wheel that goes tick by tick needs 129.6 M turns.
  EXPECT_LT(result.elapsed, std::chrono::milliseconds(100));
}

TEST(WheelCases, B12_TicksDoNotWalkWhatIsNotDue) {
  constexpr std::uint64_t kFarCount = 1'000'000;
  constexpr std::uint64_t kNearCount = 10'000;
  TimingWheel wheel(tick_precision(), 0);
  wheel.reserve(kFarCount + kNearCount);
  for (std::uint64_t i = 0; i < kFarCount; ++i) {
    wheel.schedule(static_cast<std::int64_t>(1 + i % 1000) * kHour + 5 * kMs, i);
  }
  for (std::uint64_t i = 0; i < kNearCount; ++i) {
    wheel.schedule(200 * kMs, i);
  }
  for (std::int64_t now_ns = kTick; now_ns <= kSecond; now_ns += kTick) {
    const std::uint64_t visited_before = wheel.counters().visited;
    EXPECT_EQ(expire(wheel, now_ns).size(), now_ns == 200 * kMs ? kNearCount : 0U);
    const WheelCounters counters = wheel.counters();
    EXPECT_EQ(counters.visited - visited_before, now_ns == 200 * kMs ? kNearCount : 0U);
    EXPECT_LE(counters.moved_in_last_advance, 64U);
  }
}

std::chrono::nanoseconds time_idle_ticks(TimingWheel& wheel, std::int64_t from_ns) {
  std::vector<std::chrono::nanoseconds> runs;
  for (int run = 0; run < 3; ++run) {
    const std::chrono::nanoseconds before = processor_time();
    for (int tick = 0; tick < 20'000; ++tick) {
      from_ns += kTick;
      wheel.advance(from_ns, [](std::span<const TimingWheel::Expired>) {});
    }
    runs.push_back(processor_time() - before);
  }
  std::sort(runs.begin(), runs.end());
  return runs[1];
}

TEST(WheelCases, B12_IdleTickCostsTheSameWithAMillionPending) {
  TimingWheel empty(tick_precision(), 0);
  TimingWheel full(tick_precision(), 0);
  full.reserve(1'000'000);
  for (std::int64_t i = 0; i < 1'000'000; ++i) {
    full.schedule((2 + i % 1000) * kHour + 5 * kMs, 0);
  }
  // The bound is 3x; a tick takes a nanosecond, and the constant is an interrupt or two.
  EXPECT_LE(time_idle_ticks(full, 0),
            3 * time_idle_ticks(empty, 0) + std::chrono::microseconds(500));
}

}  // namespace
}  // namespace countwheel::testing
