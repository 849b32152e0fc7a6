// The tick thread allocates nothing in steady state. This program counts every
// call of malloc and its relatives, by the name of the thread.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <thread>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "engine/task_table.h"
#include "testing/threaded_engine.h"

namespace {

std::atomic<std::uint64_t> tick_allocations{0};
std::atomic<std::uint64_t> all_allocations{0};

// Whether this thread is called "cw-tick". Asked anew until it has a name of its own.
bool in_tick_thread() {
  thread_local int known = 0;  // 1: it is, 2: it is another
  if (known == 0) {
    char name[16] = {};
    prctl(PR_GET_NAME, name, 0UL, 0UL, 0UL);
    if (std::strncmp(name, "cw-", 3) == 0) {
      known = std::strcmp(name, "cw-tick") == 0 ? 1 : 2;
    }
  }
  return known == 1;
}

[[maybe_unused]] void count_allocation() {
  ++all_allocations;
  tick_allocations += in_tick_thread() ? 1 : 0;
}

}  // namespace

// The sanitizers bring allocators of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) noexcept {
  count_allocation();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  count_allocation();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  count_allocation();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? 12 : 0;  // ENOMEM
}
}
constexpr bool kCounts = true;
#else
constexpr bool kCounts = false;
#endif

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::ThreadedEngine;

TEST(SteadyState, TheTickThreadAllocatesNothing) {
  EngineOptions options;
  options.reserve_count = 10'000;
  ThreadedEngine threaded(options);
  std::atomic<std::uint64_t> runs{0};
  ASSERT_TRUE(threaded.engine
                  ->on("test",
                       [&](Delivery d) {
                         EXPECT_TRUE(d.done().ok());
                         ++runs;
                       })
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  std::uint64_t expected = 0;
  const auto rounds = [&](int count) {
    for (int round = 0; round < count; ++round) {
      for (int i = 0; i < 200; ++i) {
        const Result<Submitted> task =
            threaded.engine->submit({.type = "test", .deadline = after(1ms * (i % 10))});
        ASSERT_TRUE(task.ok());
        if (i % 5 == 0 && threaded.engine->submit_cancel(task->id)) {
          continue;
        }
        ++expected;
      }
      threaded.clock.advance(10ms);
      ASSERT_TRUE(eventually([&] { return runs == expected; }));
    }
  };
  rounds(300);  // Everything finds its size; the wheel turns more than once.
  const std::uint64_t before = tick_allocations;
  const std::uint64_t all_before = all_allocations;
  rounds(1000);
  EXPECT_EQ(tick_allocations - before, 0U);
  if (kCounts) {
    EXPECT_GT(before, 0U);  // It is the right thread: warming up took some.
    EXPECT_GT(all_allocations, all_before);
  }
}

std::int64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

// Page faults of taking 100,000 slots of a table with this room.
std::int64_t faults_of_allocating(std::size_t reserve_count) {
  detail::TaskTable table;
  EXPECT_TRUE(table.reserve(reserve_count));
  const std::int64_t before = page_faults();
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    EXPECT_TRUE(table.allocate(i % detail::kShards).has_value());
  }
  return page_faults() - before;
}

TEST(SteadyState, AReservedTableTakesNoPageLater) {
  if (!kCounts) {
    GTEST_SKIP() << "the sanitizers touch pages of their own";
  }
  // 6.4 MB: 1,600 pages, or few where the kernel makes them huge.
  EXPECT_LT(faults_of_allocating(100'000), faults_of_allocating(0) / 4 + 4);
}

TEST(SteadyState, RoomForMoreTasksThanAreAllowedIsRefused) {
  EngineOptions options;
  options.max_pending_count = 1000;
  options.reserve_count = 1001;
  const Status status = validate(options);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.text().find("reserve_count"), std::string::npos) << status.text();
}

}  // namespace
}  // namespace countwheel
