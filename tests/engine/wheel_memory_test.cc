// What a timer weighs, that dead entries do not gather, and that nothing allocates after reserve().
// This program counts every call of malloc and its relatives.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/wheel.h>

#include "wheel_testing.h"

namespace {

std::atomic<std::uint64_t> allocation_count{0};

}  // namespace

// The sanitizers bring allocators of their own; there the count stays 0 and proves nothing.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) noexcept {
  ++allocation_count;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  ++allocation_count;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  ++allocation_count;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  ++allocation_count;
  return __libc_memalign(alignment, bytes);
}
}
constexpr bool kCounts = true;
#else
constexpr bool kCounts = false;
#endif

namespace countwheel::testing {
namespace {

TEST(WheelMemory, TheCounterCounts) {
  const std::uint64_t before = allocation_count;
  std::vector<int> numbers;
  numbers.reserve(1000);
  EXPECT_EQ(allocation_count - before, kCounts ? 1U : 0U);
}

TEST(WheelMemory, NothingAllocatesAfterReserve) {
  constexpr std::size_t kCount = 100'000;
  TimingWheel wheel({}, 0);
  wheel.reserve(kCount);
  std::vector<TimingWheel::Handle> handles(kCount);
  std::mt19937_64 random(wheel_seed(1));
  const auto delay = [&]() {
    const auto bits = static_cast<int>(random() % 28);
    return static_cast<std::int64_t>(random() % (std::uint64_t{1} << (20 + bits)));
  };
  std::int64_t now_ns = 0;
  std::uint64_t expired = 0;
  const std::uint64_t before = allocation_count;
  for (std::uint64_t i = 0; i < 3'000'000; ++i) {
    TimingWheel::Handle& handle = handles[random() % kCount];
    switch (random() % 4) {
      case 0:
        wheel.reschedule(handle, now_ns + delay());
        break;
      case 1:
        wheel.cancel(handle);
        break;
      default:
        wheel.cancel(handle);
        handle = wheel.schedule(now_ns + delay(), i);
    }
    if (i % 64 == 0) {
      now_ns += kMs;
      expired += wheel.advance(now_ns, [](std::span<const TimingWheel::Expired>) {}).handed_over;
      wheel.next_wake();
    }
  }
  // All at one instant, out of order: sorted in memory that was reserved too.
  for (TimingWheel::Handle& handle : handles) {
    if (!wheel.reschedule(handle, now_ns + kHour)) {
      handle = wheel.schedule(now_ns + kHour, 0);
    }
  }
  expired +=
      wheel.advance(now_ns + kHour, [](std::span<const TimingWheel::Expired>) {}).handed_over;
  EXPECT_EQ(allocation_count - before, 0U);
  EXPECT_GT(expired, kCount);
  EXPECT_EQ(wheel.size(), 0U);
}

TEST(WheelMemory, AMillionTimersTake42BytesEach) {
  constexpr std::size_t kCount = 1'000'000;
  TimingWheel wheel({}, 0);
  wheel.reserve(kCount);
  std::mt19937_64 random(2);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    wheel.schedule(
        5 * kSecond + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(7 * kDay)),
        i);
  }
  // The rings themselves, 0.2 MB, are part of it.
  EXPECT_LE(static_cast<double>(wheel.touched_bytes()) / kCount, 42.0);
}

TEST(WheelMemory, AMillionIndexesTake30BytesEach) {
  constexpr std::size_t kCount = 1'000'000;
  IndexWheel wheel({}, 0);
  wheel.reserve(kCount);
  std::mt19937_64 random(2);
  for (std::uint64_t i = 0; i < kCount; ++i) {
    wheel.schedule(5 * kSecond +
                   static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(7 * kDay)));
  }
  EXPECT_LE(static_cast<double>(wheel.touched_bytes()) / kCount, 30.0);
}

TEST(WheelMemory, DeadEntriesNeverOutnumberTheLiving) {
  // Order flow: nearly everything is cancelled long before its hour.
  constexpr std::size_t kLive = 50'000;
  TimingWheel wheel({}, 0);
  std::vector<TimingWheel::Handle> handles(kLive);
  std::mt19937_64 random(wheel_seed(3));
  std::int64_t now_ns = 0;
  for (std::uint64_t i = 0; i < 4'000'000; ++i) {
    TimingWheel::Handle& handle = handles[random() % kLive];
    wheel.cancel(handle);
    handle = wheel.schedule(
        now_ns + kSecond + static_cast<std::int64_t>(random() % (std::uint64_t{1} << 47)), i);
    if (i % 1000 == 0) {
      now_ns += 100'000;
      wheel.advance(now_ns, [](std::span<const TimingWheel::Expired>) {});
      const WheelCounters counters = wheel.counters();
      ASSERT_LE(counters.dead_count, wheel.size() + 64 * 1024) << "after " << i;
    }
  }
  EXPECT_TRUE(is_intact(wheel));
  EXPECT_GT(wheel.counters().compacted, 1'000'000U);
}

TEST(WheelMemory, ABurstOfCancelsIsCompactedInSmallShares) {
  TimingWheel wheel({}, 0);
  std::vector<TimingWheel::Handle> handles;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    handles.push_back(wheel.schedule(kDay + static_cast<std::int64_t>(i) * 1'000'000, i));
  }
  std::int64_t now_ns = kTick;
  wheel.schedule(now_ns, 0);
  EXPECT_EQ(expire(wheel, now_ns).size(), 1U);
  EXPECT_EQ(wheel.cancel_batch(handles), handles.size());
  std::uint64_t compacted = 0;
  for (int i = 0; i < 400; ++i) {
    now_ns += kHour / 10'000;
    wheel.advance(now_ns, [](std::span<const TimingWheel::Expired>) {});
    const std::uint64_t share = wheel.counters().compacted - compacted;
    compacted += share;
    ASSERT_LE(share, 4'096U + 64U + 4U);
  }
  EXPECT_LE(wheel.counters().dead_count, 64U * 1024U);
  EXPECT_TRUE(is_intact(wheel));
  wheel.compact(1'000'000);
  EXPECT_LE(wheel.counters().entry_count, 64U);
  EXPECT_TRUE(is_intact(wheel));
}

// Ten thousand connections, each heard of every 100 ms for a simulated hour, with 30 s to live.
TEST(WheelMemory, HeartbeatsLeaveNoTrail) {
  constexpr std::size_t kCount = 1'000;
  TimingWheel wheel({}, 0);
  std::vector<TimingWheel::Handle> handles;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    handles.push_back(wheel.schedule(30 * kSecond, i));
  }
  for (std::int64_t now_ns = 0; now_ns <= kHour; now_ns += 100 * kMs) {
    for (const TimingWheel::Handle handle : handles) {
      wheel.touch(handle, now_ns + 30 * kSecond);
    }
    ASSERT_EQ(wheel.advance(now_ns, [](std::span<const TimingWheel::Expired>) {}).handed_over, 0U);
    ASSERT_EQ(wheel.counters().entry_count, kCount);
  }
  EXPECT_TRUE(is_intact(wheel));
}

TEST(WheelMemory, ClockSetBackForADayGathersNothing) {
  // Every new timer lies before the cursor and goes to the heap; most are cancelled.
  TimingWheel wheel({}, kDay);
  std::int64_t now_ns = 0;
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const TimingWheel::Handle handle = wheel.schedule(now_ns + kHour, i);
    if (i % 100 != 0) {
      EXPECT_TRUE(wheel.cancel(handle));
    }
    if (i % 50 == 0) {
      now_ns += kMs;
      wheel.advance(now_ns, [](std::span<const TimingWheel::Expired>) {});
    }
  }
  EXPECT_LE(wheel.counters().entry_count, 2 * wheel.size() + 64 * 1024);
  EXPECT_TRUE(is_intact(wheel));
  EXPECT_EQ(run_wakes(wheel, 2 * kHour).size(), 2'000U);
}

}  // namespace
}  // namespace countwheel::testing
