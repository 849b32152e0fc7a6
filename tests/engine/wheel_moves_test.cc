// Cancelling and moving, at the worst moments: bug reports about other people's wheels and our own
// promises about lazy moves.
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/wheel.h>

#include "wheel_testing.h"

namespace countwheel::testing {
namespace {

TEST(WheelCases, B09_SinkTouchesItsOwnInstant) {
  TimingWheel wheel(tick_precision(), 0);
  const TimingWheel::Handle a = wheel.schedule(kSecond, 'a');
  const TimingWheel::Handle b = wheel.schedule(kSecond, 'b');
  const TimingWheel::Handle c = wheel.schedule(kSecond, 'c');
  EXPECT_TRUE(wheel.deadline(a).has_value());
  bool cancelled = true;
  bool moved = true;
  std::map<std::uint64_t, std::vector<std::int64_t>> runs;
  for (std::int64_t now_ns = 0; now_ns <= 7 * kSecond; now_ns += kTick) {
    wheel.advance(now_ns, [&](std::span<const TimingWheel::Expired> batch) {
      for (const TimingWheel::Expired& expired : batch) {
        runs[expired.value].push_back(now_ns);
        if (expired.value == 'a') {
          cancelled = wheel.cancel(b);
          moved = wheel.reschedule(c, 6 * kSecond);
        }
      }
    });
    ASSERT_TRUE(is_intact(wheel));
  }
  // All three are in the batch of A: they have expired, and neither call may say otherwise.
  EXPECT_FALSE(cancelled);
  EXPECT_FALSE(moved);
  EXPECT_EQ(runs['a'], (std::vector<std::int64_t>{kSecond}));
  EXPECT_EQ(runs['b'], (std::vector<std::int64_t>{kSecond}));
  EXPECT_EQ(runs['c'], (std::vector<std::int64_t>{kSecond}));
  EXPECT_EQ(wheel.size(), 0U);
}

TEST(WheelCases, B09_SinkTouchesTheNextBatchOfItsInstant) {
  // With a limit of one, B and C are due but not handed over yet: both calls are accepted.
  TimingWheel wheel(tick_precision(), 0);
  wheel.schedule(kSecond, 'a');
  const TimingWheel::Handle b = wheel.schedule(kSecond, 'b');
  const TimingWheel::Handle c = wheel.schedule(kSecond, 'c');
  EXPECT_EQ(values_of(expire(wheel, kSecond, 1)), (std::vector<std::uint64_t>{'a'}));
  EXPECT_TRUE(wheel.cancel(b));
  EXPECT_TRUE(wheel.reschedule(c, 6 * kSecond));
  EXPECT_TRUE(is_intact(wheel));
  const std::vector<Expiry> fired = run_ticks(wheel, kSecond, 7 * kSecond);
  EXPECT_EQ(fired, (std::vector<Expiry>{{'c', 6 * kSecond, 6 * kSecond}}));
}

TEST(WheelCases, B10_OverdueThenMovedToTheFuture) {
  TimingWheel wheel(tick_precision(), 0);
  const TimingWheel::Handle handle = wheel.schedule(-kSecond, 0);
  EXPECT_TRUE(wheel.reschedule(handle, 5 * kSecond));
  EXPECT_TRUE(run_ticks(wheel, 0, 2 * kSecond).empty());
  EXPECT_TRUE(wheel.cancel(handle));
  for (std::uint64_t i = 1; i <= 1'000; ++i) {
    wheel.schedule(3 * kSecond, i);
  }
  const std::vector<Expiry> fired = expire(wheel, 10 * kSecond);
  EXPECT_EQ(fired.size(), 1'000U);
  for (const Expiry& expiry : fired) {
    EXPECT_NE(expiry.value, 0U);
  }
  EXPECT_TRUE(is_intact(wheel));
}

TEST(WheelCases, B11_NextWakeFollowsEveryMove) {
  TimingWheel wheel(tick_precision(), 0);
  const TimingWheel::Handle x = wheel.schedule(200 * kMs, 'x');
  const TimingWheel::Handle y = wheel.schedule(250 * kMs, 'y');
  EXPECT_TRUE(expire(wheel, 0).empty());
  EXPECT_EQ(wheel.next_wake(), 200 * kMs);
  EXPECT_TRUE(wheel.reschedule(x, 300 * kMs));
  EXPECT_EQ(wheel.next_wake(), 250 * kMs);
  EXPECT_TRUE(wheel.reschedule(y, 350 * kMs));
  EXPECT_EQ(wheel.next_wake(), 300 * kMs);
  EXPECT_TRUE(wheel.reschedule(x, 400 * kMs));
  EXPECT_EQ(wheel.next_wake(), 350 * kMs);
  EXPECT_TRUE(wheel.reschedule(y, 5 * kMs));
  EXPECT_EQ(wheel.next_wake(), 10 * kMs);
  EXPECT_EQ(run_ticks(wheel, 0, kSecond),
            (std::vector<Expiry>{{'y', 5 * kMs, 10 * kMs}, {'x', 400 * kMs, 400 * kMs}}));
}

TEST(WheelCases, B13_CancelOfALongTimerAtAnyAge) {
  constexpr std::int64_t kLong = 10 * kDay;
  // In the advance that moves it from the hours to the seconds: the last ticks before its hour.
  for (const std::int64_t age_ns : {std::int64_t{0},
                                    3 * kDay,
                                    kLong - kTick,
                                    kLong - 500 * kMs,
                                    kLong - 2 * kSecond,
                                    kLong - kHour,
                                    kLong - kHour - kTick}) {
    TimingWheel wheel(tick_precision(), 0);
    // Off the border of its hour, so that it passes through all three levels.
    const std::int64_t deadline_ns = kLong + 30 * 60 * kSecond;
    const TimingWheel::Handle handle = wheel.schedule(deadline_ns, 0);
    const std::int64_t cancelled_at = age_ns == 0 ? 0 : age_ns + 30 * 60 * kSecond;
    EXPECT_TRUE(run_wakes(wheel, cancelled_at).empty());
    EXPECT_TRUE(expire(wheel, cancelled_at).empty());
    EXPECT_TRUE(wheel.cancel(handle));
    EXPECT_EQ(wheel.size(), 0U);
    EXPECT_TRUE(expire(wheel, deadline_ns + kDay).empty());
    EXPECT_TRUE(is_intact(wheel));
  }
}

TEST(WheelCases, B13_CancelInTheAdvanceThatMovesIt) {
  TimingWheel wheel(tick_precision(), 0);
  const TimingWheel::Handle handle = wheel.schedule(10 * kDay + kSecond, 1);
  wheel.schedule(10 * kDay - kTick, 2);  // The tick in which the next hour is drained.
  bool cancelled = false;
  wheel.advance(10 * kDay - 2 * kTick, [](std::span<const TimingWheel::Expired>) {});
  wheel.advance(10 * kDay - kTick, [&](std::span<const TimingWheel::Expired> batch) {
    EXPECT_EQ(batch.size(), 1U);
    cancelled = wheel.cancel(handle);
  });
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(wheel.size(), 0U);
  EXPECT_TRUE(run_ticks(wheel, 10 * kDay, 10 * kDay + 2 * kSecond).empty());
}

TEST(WheelCases, B14_OneTimerMovedAMillionTimes) {
  TimingWheel wheel(tick_precision(), 0);
  const TimingWheel::Handle heartbeat = wheel.schedule(kSecond, 'h');
  std::int64_t now_ns = 0;
  std::uint64_t others = 0;
  const std::size_t bytes_before = wheel.touched_bytes();
  for (std::int64_t i = 1; i <= 1'000'000; ++i) {
    now_ns = i * 100'000;  // 100 s in all: 100 moves a tick, and one of the others a tick.
    ASSERT_TRUE(wheel.reschedule(heartbeat, now_ns + kSecond));
    if (i % 100 == 0) {
      wheel.schedule(now_ns + 50 * kMs, 'o');
      for (const Expiry& expiry : expire(wheel, now_ns)) {
        ASSERT_EQ(expiry.value, 'o');
        ASSERT_EQ(expiry.now_ns, expiry.deadline_ns);
        ++others;
      }
      ASSERT_LE(wheel.counters().entry_count, wheel.size() + 1);
    }
  }
  EXPECT_EQ(others, 10'000U - 5U);
  EXPECT_EQ(wheel.size(), 1U + 5U);
  EXPECT_LT(wheel.touched_bytes() - bytes_before, 1U << 20);
  const std::vector<Expiry> rest = run_ticks(wheel, now_ns, now_ns + 2 * kSecond);
  ASSERT_EQ(rest.size(), 6U);
  EXPECT_EQ(rest.back(), (Expiry{'h', now_ns + kSecond, now_ns + kSecond}));
}

TEST(WheelMoves, LaterThenEarlierThenLater) {
  TimingWheel wheel({}, 0);
  const TimingWheel::Handle handle = wheel.schedule(5 * kSecond, 1);
  EXPECT_TRUE(wheel.reschedule(handle, 3 * kHour));
  EXPECT_TRUE(wheel.reschedule(handle, 2 * kSecond));
  EXPECT_TRUE(wheel.reschedule(handle, 7 * kSecond));
  EXPECT_TRUE(is_intact(wheel));
  EXPECT_TRUE(expire(wheel, 7 * kSecond - 1).empty());
  EXPECT_EQ(expire(wheel, 7 * kSecond).size(), 1U);
  EXPECT_TRUE(expire(wheel, 4 * kHour).empty());
  EXPECT_FALSE(wheel.reschedule(handle, kDay));
}

TEST(WheelMoves, TouchNeverMovesEarlier) {
  TimingWheel wheel({}, 0);
  const TimingWheel::Handle handle = wheel.schedule(5 * kSecond, 1);
  EXPECT_TRUE(wheel.touch(handle, kSecond));
  EXPECT_EQ(wheel.deadline(handle), 5 * kSecond);
  EXPECT_TRUE(wheel.touch(handle, 6 * kSecond));
  EXPECT_EQ(wheel.deadline(handle), 6 * kSecond);
  EXPECT_EQ(expire(wheel, 6 * kSecond).size(), 1U);
  EXPECT_FALSE(wheel.touch(handle, 7 * kSecond));
}

TEST(WheelMoves, BatchesAnswerForEachHandle) {
  TimingWheel wheel({}, 0);
  std::vector<TimingWheel::Handle> handles;
  std::vector<TimingWheel::Move> moves;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    handles.push_back(wheel.schedule(kSecond, i));
    moves.push_back({handles.back(), 2 * kSecond});
  }
  handles.resize(500);
  handles.push_back({});
  handles.push_back({0xffff'ffff, 1});
  handles.push_back(handles.front());
  EXPECT_EQ(wheel.cancel_batch(handles), 500U);
  EXPECT_EQ(wheel.reschedule_batch(moves), 500U);
  EXPECT_TRUE(expire(wheel, kSecond).empty());
  EXPECT_EQ(expire(wheel, 2 * kSecond).size(), 500U);
}

}  // namespace
}  // namespace countwheel::testing
