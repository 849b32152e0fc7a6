// Handles: a stale one answers false for ever, whoever lives in its slot now.
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/wheel.h>

#include "wheel_testing.h"

namespace countwheel {

struct TimingWheelPeer {
  static detail::WheelSlab& slab(TimingWheel& wheel) { return wheel.slab_; }
};

namespace testing {
namespace {

TEST(WheelHandle, TheDefaultNamesNone) {
  TimingWheel wheel({}, 0);
  EXPECT_FALSE(TimingWheel::Handle{});
  EXPECT_FALSE(wheel.cancel({}));
  EXPECT_TRUE(wheel.schedule(1, 2));
  EXPECT_FALSE(wheel.cancel({}));
  EXPECT_FALSE(wheel.reschedule({}, 1));
  EXPECT_FALSE(wheel.touch({}, 1));
  EXPECT_FALSE(wheel.deadline({}).has_value());
}

TEST(WheelHandle, GarbageNamesNone) {
  TimingWheel wheel({}, 0);
  wheel.schedule(kSecond, 0);
  for (const std::uint32_t index : {0U, 1U, 63U, 64U, 1'000'000U, 0xffff'ffffU}) {
    for (const std::uint32_t generation : {0U, 2U, 0x8000'0000U, 0xffff'ffffU}) {
      EXPECT_FALSE(wheel.cancel({index, generation}));
      EXPECT_FALSE(wheel.reschedule({index, generation}, 1));
    }
  }
  EXPECT_FALSE(wheel.cancel({1, 1}));  // The generation a free slot would be given next.
  EXPECT_EQ(wheel.size(), 1U);
}

TEST(WheelHandle, StaleAfterCancelAndAfterExpiry) {
  TimingWheel wheel({}, 0);
  std::vector<TimingWheel::Handle> stale;
  for (int round = 0; round < 200; ++round) {
    const std::int64_t now_ns = round * kSecond;
    const TimingWheel::Handle cancelled = wheel.schedule(now_ns + kHour, 1);
    const TimingWheel::Handle expired = wheel.schedule(now_ns + kMs, 2);
    EXPECT_EQ(wheel.value(expired), 2U);
    EXPECT_TRUE(wheel.cancel(cancelled));
    EXPECT_EQ(expire(wheel, now_ns + kMs).size(), 1U);
    stale.push_back(cancelled);
    stale.push_back(expired);
  }
  // Every slot has a tenant now.
  const std::size_t capacity = TimingWheelPeer::slab(wheel).capacity();
  for (std::size_t i = 0; i < capacity; ++i) {
    ASSERT_TRUE(wheel.schedule(kDay, i));
  }
  for (const TimingWheel::Handle handle : stale) {
    EXPECT_FALSE(wheel.cancel(handle));
    EXPECT_FALSE(wheel.reschedule(handle, 1));
    EXPECT_FALSE(wheel.deadline(handle).has_value());
  }
  EXPECT_EQ(wheel.size(), capacity);
}

TEST(WheelHandle, ASlotRetiresBeforeItsGenerationsRepeat) {
  TimingWheel wheel({}, 0);
  detail::WheelSlab& slab = TimingWheelPeer::slab(wheel);
  const TimingWheel::Handle old = wheel.schedule(kSecond, 1);
  // As if the slot had been used four thousand million times.
  slab.at(old.index).generation = detail::WheelSlab::kLastGeneration - 1;
  EXPECT_FALSE(wheel.cancel(old));
  const TimingWheel::Handle young{old.index, detail::WheelSlab::kLastGeneration - 1};
  EXPECT_TRUE(wheel.cancel(young));

  const std::size_t capacity = slab.capacity();
  std::set<std::uint32_t> indexes;
  TimingWheel::Handle last;
  for (std::size_t i = 0; i < capacity; ++i) {
    const TimingWheel::Handle handle = wheel.schedule(kDay, i);
    EXPECT_TRUE(indexes.insert(handle.index).second);
    if (handle.index == old.index) {
      last = handle;
    }
  }
  EXPECT_EQ(last.generation, detail::WheelSlab::kLastGeneration);
  EXPECT_TRUE(wheel.cancel(last));
  EXPECT_EQ(slab.retired_count(), 1U);
  EXPECT_FALSE(wheel.cancel(last));
  EXPECT_FALSE(wheel.cancel(young));
  for (std::size_t i = 0; i < 3 * capacity; ++i) {
    const TimingWheel::Handle handle = wheel.schedule(kDay, i);
    ASSERT_NE(handle.index, old.index);
    ASSERT_TRUE(wheel.cancel(handle));
  }
  EXPECT_FALSE(wheel.cancel(last));
  EXPECT_EQ(wheel.size(), capacity - 1);
  EXPECT_TRUE(is_intact(wheel));
}

// One timer at a time, again and again: a last-in first-out list would give out one slot for ever.
TEST(WheelHandle, SlotsAreTakenRoundRobin) {
  TimingWheel wheel({}, 0);
  wheel.reserve(10'000);
  const std::size_t capacity = TimingWheelPeer::slab(wheel).capacity();
  ASSERT_GE(capacity, 10'000U);
  std::uint32_t generation_max = 0;
  for (std::size_t i = 0; i < 10 * capacity; ++i) {
    const TimingWheel::Handle handle = wheel.schedule(kDay, i);
    generation_max = std::max(generation_max, handle.generation);
    ASSERT_TRUE(wheel.cancel(handle));
  }
  EXPECT_LE(generation_max, 11U);
}

TEST(WheelHandle, NeighboursInTimeAreNeighboursInMemory) {
  TimingWheel wheel({}, 0);
  std::vector<TimingWheel::Handle> handles;
  for (std::uint64_t i = 0; i < 6'400; ++i) {
    handles.push_back(wheel.schedule(kDay, i));
  }
  for (std::size_t i = 0; i < handles.size(); i += 3) {
    wheel.cancel(handles[i]);
  }
  std::size_t ascending = 0;
  std::uint32_t before = 0;
  for (std::uint64_t i = 0; i < 2'000; ++i) {
    const std::uint32_t index = wheel.schedule(kDay, i).index;
    ascending += index > before ? 1U : 0U;
    before = index;
  }
  EXPECT_GE(ascending, 1'990U);
}

}  // namespace
}  // namespace testing
}  // namespace countwheel
