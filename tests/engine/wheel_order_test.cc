// In which order, and when exactly: instants shared by many, precision, slack, clocks that step
// back, sinks that schedule.
#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/wheel.h>

#include "wheel_testing.h"

namespace countwheel::testing {
namespace {

std::vector<std::uint64_t> counted(std::uint64_t count) {
  std::vector<std::uint64_t> values(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    values[i] = i;
  }
  return values;
}

TEST(WheelOrder, OneInstantIsFirstInFirstOut) {
  TimingWheel wheel({}, 0);
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    wheel.schedule(30 * kSecond, i);
  }
  EXPECT_EQ(values_of(expire(wheel, 30 * kSecond)), counted(100'000));
}

TEST(WheelOrder, EarlyDrainingDoesNotBreakFirstInFirstOut) {
  // The first half lies in the next hour or second, partly drained; the second half goes straight
  // to the level below and gets there first.
  for (const std::int64_t deadline_ns : {5 * kHour + kSecond / 2, 20 * kSecond + 5 * kMs}) {
    TimingWheel wheel({}, 0);
    for (std::uint64_t i = 0; i < 5'000; ++i) {
      wheel.schedule(deadline_ns, i);
    }
    run_wakes(wheel, deadline_ns - 600 * kMs);
    for (std::uint64_t i = 5'000; i < 10'000; ++i) {
      wheel.schedule(deadline_ns, i);
      if (i % 100 == 0) {
        expire(wheel, deadline_ns - 600 * kMs + static_cast<std::int64_t>(i / 100) * kTick / 2);
      }
    }
    EXPECT_TRUE(is_intact(wheel));
    EXPECT_EQ(values_of(run_wakes(wheel, deadline_ns)), counted(10'000));
  }
}

TEST(WheelOrder, MovedToTheSameMomentGoesLast) {
  for (const std::int64_t opened_ns : {std::int64_t{0}, 5 * kSecond}) {
    TimingWheel wheel({}, 0);
    const TimingWheel::Handle first = wheel.schedule(5 * kSecond + 1, 1);
    wheel.schedule(5 * kSecond + 1, 2);
    wheel.schedule(5 * kSecond + 1, 3);
    expire(wheel, opened_ns);  // At 5 s the slot is open and sorted already.
    EXPECT_TRUE(wheel.reschedule(first, 5 * kSecond + 1));
    wheel.schedule(5 * kSecond + 1, 4);
    EXPECT_EQ(values_of(expire(wheel, 6 * kSecond)), (std::vector<std::uint64_t>{2, 3, 1, 4}));
  }
}

// Day orders share one deadline: a slot that is cancelled and used again, and a timer that goes
// away and comes back, leave two entries that both look right.
TEST(WheelOrder, RepeatedEntriesExpireOnce) {
  constexpr std::int64_t kClose = 8 * kHour;
  constexpr std::uint64_t kLastRound = 576;  // Nine rounds of 64 were cancelled.
  TimingWheel wheel({}, 0);
  wheel.reserve(64);
  std::vector<TimingWheel::Handle> handles;
  for (std::uint64_t round = 0; round < 10; ++round) {
    for (std::uint64_t i = 0; i < 64; ++i) {
      handles.push_back(wheel.schedule(kClose, round * 64 + i));
    }
    if (round < 9) {
      EXPECT_EQ(wheel.cancel_batch(handles), 64U);
      handles.clear();
    }
  }
  EXPECT_TRUE(wheel.reschedule(handles[5], kHour));
  EXPECT_TRUE(wheel.reschedule(handles[5], kClose));
  EXPECT_TRUE(wheel.reschedule(handles[6], kClose + kHour));
  EXPECT_TRUE(wheel.reschedule(handles[6], kClose));
  EXPECT_TRUE(is_intact(wheel));
  std::vector<std::uint64_t> expected;
  for (std::uint64_t i = 0; i < 64; ++i) {
    if (i != 5 && i != 6) {
      expected.push_back(kLastRound + i);
    }
  }
  expected.push_back(kLastRound + 5);
  expected.push_back(kLastRound + 6);
  EXPECT_EQ(values_of(run_wakes(wheel, kClose)), expected);
  EXPECT_EQ(wheel.size(), 0U);
  expire(wheel, 2 * kClose);
  EXPECT_EQ(wheel.counters().entry_count, 0U);
}

TEST(WheelOrder, ExactPrecisionIsInclusive) {
  TimingWheel wheel({}, 0);
  wheel.schedule(12'345'678, 1);
  EXPECT_EQ(wheel.next_wake(), 12'345'678);
  EXPECT_TRUE(expire(wheel, 12'345'677).empty());
  EXPECT_EQ(expire(wheel, 12'345'678).size(), 1U);
}

TEST(WheelOrder, TickPrecisionWaitsForTheBoundary) {
  TimingWheel wheel(tick_precision(), 0);
  wheel.schedule(12'345'678, 1);
  wheel.schedule(30 * kMs, 2);
  EXPECT_EQ(wheel.next_wake(), 20 * kMs);
  EXPECT_TRUE(expire(wheel, 20 * kMs - 1).empty());
  EXPECT_EQ(values_of(expire(wheel, 20 * kMs)), (std::vector<std::uint64_t>{1}));
  EXPECT_TRUE(expire(wheel, 30 * kMs - 1).empty());
  EXPECT_EQ(values_of(expire(wheel, 30 * kMs)), (std::vector<std::uint64_t>{2}));
}

TEST(WheelOrder, SlackLetsWakeUpsCoalesce) {
  TimingWheel wheel({}, 0);
  wheel.schedule(100 * kMs, 1, 50 * kMs);
  wheel.schedule(120 * kMs, 2, 50 * kMs);
  wheel.schedule(140 * kMs, 3, 50 * kMs);
  wheel.schedule(200 * kMs, 4, 50 * kMs);
  EXPECT_EQ(wheel.next_deadline(), 100 * kMs);
  EXPECT_EQ(wheel.next_wake(), 150 * kMs);
  EXPECT_EQ(values_of(expire(wheel, 150 * kMs)), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(wheel.next_wake(), 250 * kMs);
}

TEST(WheelOrder, ATimerWithoutSlackIsNotHeldBackByOthers) {
  TimingWheel wheel({}, 0);
  wheel.schedule(100 * kMs, 1, kSecond);
  wheel.schedule(130 * kMs, 2);
  EXPECT_EQ(wheel.next_wake(), 130 * kMs);
  EXPECT_EQ(values_of(expire(wheel, 130 * kMs)), (std::vector<std::uint64_t>{1, 2}));
}

TEST(WheelOrder, ClockStepsBackAndNothingIsEarlyOrTwice) {
  TimingWheel wheel({}, 0);
  wheel.schedule(10 * kSecond, 1);
  wheel.schedule(20 * kSecond, 2);
  EXPECT_EQ(expire(wheel, 10 * kSecond).size(), 1U);
  // An hour back; new timers lie before the cursor.
  const std::int64_t back_ns = 10 * kSecond - kHour;
  wheel.schedule(back_ns + 5 * kSecond, 3);
  wheel.schedule(back_ns + 2 * kSecond, 4);
  EXPECT_TRUE(expire(wheel, back_ns).empty());
  EXPECT_EQ(wheel.next_deadline(), back_ns + 2 * kSecond);
  EXPECT_TRUE(expire(wheel, back_ns + 2 * kSecond - 1).empty());
  EXPECT_EQ(values_of(expire(wheel, back_ns + 2 * kSecond)), (std::vector<std::uint64_t>{4}));
  EXPECT_EQ(values_of(expire(wheel, back_ns + kMs * 7000)), (std::vector<std::uint64_t>{3}));
  EXPECT_TRUE(is_intact(wheel));
  EXPECT_TRUE(expire(wheel, 20 * kSecond - 1).empty());
  EXPECT_EQ(values_of(expire(wheel, 20 * kSecond)), (std::vector<std::uint64_t>{2}));
}

TEST(WheelOrder, OverdueBurstIsInOrder) {
  // What recovery does: everything is overdue, nothing in order.
  TimingWheel wheel({}, kDay);
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    wheel.schedule(static_cast<std::int64_t>(i * 7'919 % 20'000) * kSecond / 1000, i);
  }
  for (std::uint64_t i = 0; i < 20; ++i) {
    wheel.schedule(static_cast<std::int64_t>(i) * kSecond / 1000, 20'000 + i);
  }
  const std::vector<Expiry> fired = expire(wheel, kDay);
  ASSERT_EQ(fired.size(), 20'020U);
  EXPECT_TRUE(std::is_sorted(fired.begin(), fired.end(), [](const Expiry& a, const Expiry& b) {
    return a.deadline_ns != b.deadline_ns ? a.deadline_ns < b.deadline_ns : a.value < b.value;
  }));
}

TEST(WheelOrder, SchedulingInTheSinkForNowWaitsForTheNextAdvance) {
  TimingWheel wheel({}, 0);
  wheel.schedule(kSecond, 0);
  std::uint64_t runs = 0;
  const auto again = [&](std::span<const TimingWheel::Expired> batch) {
    for (const TimingWheel::Expired& expired : batch) {
      ++runs;
      wheel.schedule(expired.deadline_ns, expired.value + 1);
    }
  };
  AdvanceResult result = wheel.advance(kSecond, again);
  EXPECT_EQ(result.handed_over, 1U);
  EXPECT_TRUE(result.more_due);
  EXPECT_LE(wheel.next_wake(), kSecond);
  result = wheel.advance(kSecond, again);
  EXPECT_EQ(result.handed_over, 1U);
  EXPECT_EQ(runs, 2U);
  EXPECT_TRUE(is_intact(wheel));
}

TEST(WheelOrder, LimitIsKeptAndMoreDueIsSaid) {
  TimingWheel wheel({}, 0);
  for (std::uint64_t i = 0; i < 2'000; ++i) {
    wheel.schedule(kSecond + static_cast<std::int64_t>(i) * kMs, i);
  }
  std::vector<std::uint64_t> values;
  std::size_t batch_max = 0;
  AdvanceResult result;
  std::size_t calls = 0;
  do {
    result = wheel.advance(
        10 * kSecond,
        [&](std::span<const TimingWheel::Expired> batch) {
          batch_max = std::max(batch_max, batch.size());
          for (const TimingWheel::Expired& expired : batch) {
            values.push_back(expired.value);
          }
        },
        300);
    EXPECT_LE(result.handed_over, 300U);
    EXPECT_TRUE(is_intact(wheel));
    ++calls;
  } while (result.more_due);
  EXPECT_EQ(values, counted(2'000));
  EXPECT_EQ(calls, 7U);
  EXPECT_LE(batch_max, 512U);
  EXPECT_EQ(wheel
                .advance(
                    10 * kSecond, [](auto) {}, 0)
                .handed_over,
            0U);
}

TEST(WheelOrder, CancelDuringTheSinkReachesLaterBatches) {
  TimingWheel wheel({}, 0);
  std::vector<TimingWheel::Handle> handles;
  for (std::uint64_t i = 0; i < 2'000; ++i) {
    handles.push_back(wheel.schedule(kSecond, i));
  }
  std::vector<bool> cancelled(handles.size(), false);
  std::vector<bool> expired(handles.size(), false);
  wheel.advance(kSecond, [&](std::span<const TimingWheel::Expired> batch) {
    for (const TimingWheel::Expired& timer : batch) {
      expired[timer.value] = true;
      const std::size_t other = handles.size() - 1 - timer.value;
      cancelled[other] = wheel.cancel(handles[other]) || cancelled[other];
    }
  });
  for (std::size_t i = 0; i < handles.size(); ++i) {
    EXPECT_NE(cancelled[i], expired[i]) << i;
  }
  EXPECT_TRUE(is_intact(wheel));
}

TEST(WheelOrder, DeadlinesAtTheEndOfTime) {
  constexpr std::int64_t kFirst = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  TimingWheel wheel({}, 0);
  wheel.schedule(kLast, 3);
  wheel.schedule(kLast - 1, 2);
  wheel.schedule(kFirst, 1);
  EXPECT_EQ(values_of(expire(wheel, 0)), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(values_of(expire(wheel, kLast - 1)), (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(values_of(expire(wheel, kLast)), (std::vector<std::uint64_t>{3}));
  EXPECT_TRUE(is_intact(wheel));

  TimingWheel early({}, kFirst);
  early.schedule(kFirst + kHour, 1);
  early.schedule(0, 2);
  EXPECT_EQ(values_of(expire(early, 0)), (std::vector<std::uint64_t>{1, 2}));
}

TEST(WheelOrder, BlockHeightsInsteadOfNanoseconds) {
  WheelOptions options;
  options.tick_ns = 1;
  TimingWheel wheel(options, 800'000);
  wheel.schedule(800'001, 1);
  wheel.schedule(1'000'000, 2);
  wheel.schedule(90'000'000'000, 3);
  EXPECT_EQ(wheel.next_deadline(), 800'001);
  EXPECT_EQ(values_of(expire(wheel, 999'999)), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(values_of(expire(wheel, 1'000'000)), (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(values_of(expire(wheel, 90'000'000'000)), (std::vector<std::uint64_t>{3}));
}

// A slot is sorted digit by digit of its offsets, which have as many as the tick is long.
TEST(WheelOrder, ACrowdedSlotIsSortedWhateverTheTick) {
  std::mt19937_64 random(wheel_seed(17));
  for (const std::int64_t tick_ns : {2L, 255L, 65'537L, 10'000'000L, 40'000'000L}) {
    for (const std::size_t count : {39U, 40U, 41U, 1'000U, 9'000U}) {
      WheelOptions options;
      options.tick_ns = tick_ns;
      TimingWheel wheel(options, 0);
      std::vector<std::pair<std::int64_t, std::uint64_t>> expected;
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto offset = static_cast<std::int64_t>(random() % static_cast<unsigned>(tick_ns));
        expected.emplace_back(100 * tick_ns + offset, i);
        wheel.schedule(expected.back().first, i);
      }
      std::sort(expected.begin(), expected.end());
      const std::vector<Expiry> expired = expire(wheel, 101 * tick_ns);
      ASSERT_EQ(expired.size(), count);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(expired[i].deadline_ns, expected[i].first) << tick_ns << " " << count;
        ASSERT_EQ(expired[i].value, expected[i].second) << tick_ns << " " << count;
      }
    }
  }
}

// The wheel without values: the same life, told by handles alone.
TEST(WheelOrder, AnIndexWheelKeepsOrderAndRefusesStaleHandles) {
  IndexWheel wheel({}, 0);
  std::mt19937_64 random(wheel_seed(18));
  std::vector<std::pair<std::int64_t, IndexWheel::Handle>> timers;
  for (int i = 0; i < 5'000; ++i) {
    const auto deadline_ns = static_cast<std::int64_t>(random() % (2 * kHour));
    timers.emplace_back(deadline_ns, wheel.schedule(deadline_ns));
  }
  for (std::size_t i = 0; i < timers.size(); i += 3) {
    const bool earlier = i % 2 == 0;
    timers[i].first += earlier ? -timers[i].first / 2 : kSecond;
    ASSERT_TRUE(wheel.reschedule(timers[i].second, timers[i].first));
    ASSERT_EQ(wheel.deadline(timers[i].second), timers[i].first);
    ASSERT_TRUE(wheel.cancel(timers[i + 1].second));
    ASSERT_FALSE(wheel.cancel(timers[i + 1].second));
    timers[i + 1].first = -1;
  }
  std::string why;
  EXPECT_TRUE(wheel.check_invariants(&why)) << why;
  std::erase_if(timers, [](const auto& timer) { return timer.first < 0; });
  std::int64_t before_ns = 0;
  std::size_t count = 0;
  wheel.advance(3 * kHour, [&](std::span<const IndexWheel::Expired> batch) {
    for (const IndexWheel::Expired& expired : batch) {
      EXPECT_LE(before_ns, expired.deadline_ns);
      before_ns = expired.deadline_ns;
      count +=
          std::count(
              timers.begin(), timers.end(), std::pair(expired.deadline_ns, expired.handle)) == 1
              ? 1U
              : 0U;
      EXPECT_FALSE(wheel.cancel(expired.handle));
    }
  });
  EXPECT_EQ(count, timers.size());
  EXPECT_EQ(wheel.size(), 0U);
}

}  // namespace
}  // namespace countwheel::testing
