// The ring of stamps: many writers, one reader, and a writer that is killed.
#include "tools/drill/stamp_ring.h"

#include <atomic>
#include <memory>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace countwheel::drill {
namespace {

TEST(StampRing, NoStampOfManyThreadsIsLost) {
  constexpr std::uint32_t kThreads = 4;
  constexpr std::uint32_t kEach = 20'000;
  std::atomic<std::uint64_t> claimed{0};
  auto stamps = std::make_unique<Stamp[]>(kThreads * kEach);
  StampRing ring(&claimed, stamps.get(), kThreads * kEach);
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&ring, thread] {
      for (std::uint32_t i = 0; i < kEach; ++i) {
        ring.push(StampKind::kStart, i, static_cast<std::uint16_t>(thread), 0, i);
      }
    });
  }
  // The reader follows the writers and meets every thread's stamps in that thread's order.
  std::vector<std::uint32_t> next(kThreads, 0);
  for (std::uint64_t place = 0; place < kThreads * kEach;) {
    Stamp stamp;
    if (place >= ring.size() || !ring.read(place, &stamp)) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(stamp.order, next[stamp.life]);
    ASSERT_EQ(stamp.detail, stamp.order);
    ++next[stamp.life];
    ++place;
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(next, std::vector<std::uint32_t>(kThreads, kEach));
  EXPECT_FALSE(ring.overflowed());
}

TEST(StampRing, StampsCarryBothClocks) {
  std::atomic<std::uint64_t> claimed{0};
  Stamp stamps[2];
  StampRing ring(&claimed, stamps, 2);
  ring.push(StampKind::kEnd, 7, 3, 2, 99);
  ring.push(StampKind::kEnd, 8, 3);
  Stamp first;
  Stamp second;
  ASSERT_TRUE(ring.read(0, &first));
  ASSERT_TRUE(ring.read(1, &second));
  EXPECT_EQ(first.order, 7U);
  EXPECT_EQ(first.life, 3U);
  EXPECT_EQ(first.code, 2U);
  EXPECT_EQ(first.detail, 99U);
  EXPECT_GT(first.boot_ns, 0);
  EXPECT_GT(first.wall_ns, first.boot_ns);
  EXPECT_GE(second.boot_ns, first.boot_ns);
}

TEST(StampRing, MoreThanItsCapacityIsToldAndHarmsNothing) {
  std::atomic<std::uint64_t> claimed{0};
  Stamp stamps[3];
  StampRing ring(&claimed, stamps, 2);
  for (int i = 0; i < 5; ++i) {
    ring.push(StampKind::kStart, 0, 0);
  }
  EXPECT_EQ(ring.size(), 2U);
  EXPECT_TRUE(ring.overflowed());
  EXPECT_EQ(stamps[2].kind, StampKind::kNone);
}

TEST(StampRing, WhatAKilledProcessWroteIsThere) {
  constexpr std::uint64_t kCapacity = 1'000'000;
  struct Shared {
    std::atomic<std::uint64_t> claimed{0};
    Stamp stamps[kCapacity];
  };
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* shared = static_cast<Shared*>(memory);
  StampRing ring(&shared->claimed, shared->stamps, kCapacity);
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    for (std::uint32_t i = 0;; ++i) {
      ring.push(StampKind::kStart, i, 0);
    }
  }
  while (ring.size() < 1000) {
    std::this_thread::yield();
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  const std::uint64_t size = ring.size();
  EXPECT_GE(size, 1000U);
  // All but the place the writer had claimed when it was killed.
  std::uint64_t holes = 0;
  std::uint32_t expected = 0;
  for (std::uint64_t i = 0; i < size; ++i, ++expected) {
    Stamp stamp;
    if (ring.read(i, &stamp)) {
      ASSERT_EQ(stamp.order, expected);
    } else {
      ++holes;
    }
  }
  EXPECT_LE(holes, 1U);
  munmap(memory, sizeof(Shared));
}

TEST(StampRing, CapacityIsEnoughForEveryOrderInEveryLife) {
  EXPECT_GE(stamp_capacity(1000, 0), 7000U);
  EXPECT_GE(stamp_capacity(1000, 2), 17000U);
}

}  // namespace
}  // namespace countwheel::drill
