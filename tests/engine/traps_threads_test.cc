// The mistakes of prototypes that need threads to show (traps_test has the others).
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "engine/due_ring.h"
#include "testing/engine_fixture.h"
#include "testing/fault_journal.h"
#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using detail::DueEntry;
using detail::DueRing;
using std::chrono::steady_clock;
using testing::eventually;
using testing::FaultJournal;
using testing::Faults;
using testing::kPatience;
using testing::ThreadedEngine;

void spin_for(std::chrono::nanoseconds time) {
  const auto until = steady_clock::now() + time;
  while (steady_clock::now() < until) {
    std::this_thread::yield();
  }
}

TEST(Traps, T3_AClaimIsNeverMoreThanWasPublished) {
  // Bursts smaller than a claim, and slow workers: what is claimed beyond the tail is lost.
  constexpr std::uint64_t kEntries = 20'000;
  DueRing ring;
  ring.open();
  std::vector<std::atomic<int>> seen(kEntries);
  std::atomic<std::uint64_t> claimed{0};
  std::vector<std::thread> workers;
  for (unsigned seed = 0; seed < 3; ++seed) {
    workers.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::array<DueEntry, DueRing::kClaimMax> claim;
      EXPECT_TRUE(eventually([&] {
        const std::size_t count = ring.claim(claim.size(), 2, claim.data());
        for (std::size_t i = 0; i < count; ++i) {
          EXPECT_EQ(claim[i].index, claim[i].sequence);  // not torn
          EXPECT_EQ(claim[i].deadline_ns, static_cast<std::int64_t>(claim[i].sequence) * 7);
          ++seen[claim[i].sequence];
        }
        claimed += count;
        if (count != 0 && random() % 64 == 0) {
          std::this_thread::yield();
        }
        return claimed == kEntries;
      }));
    });
  }
  std::mt19937 random(99);
  std::uint64_t next = 0;
  while (next < kEntries) {
    const std::uint64_t burst = std::min<std::uint64_t>(random() % 5 + 1, kEntries - next);
    for (std::uint64_t i = 0; i < burst; ++i) {
      const DueEntry entry{static_cast<std::uint32_t>(next),
                           ClockKind::kBoot,
                           {next},
                           static_cast<std::int64_t>(next) * 7,
                           next};
      ASSERT_TRUE(eventually([&] { return ring.stage(entry); }));
      ++next;
    }
    ring.publish();
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  for (std::uint64_t i = 0; i < kEntries; ++i) {
    ASSERT_EQ(seen[i], 1) << i;
  }
}

TEST(Traps, T4_AnIdleEngineStopsAtOnce) {
  for (const bool with_task : {false, true}) {
    Result<std::unique_ptr<Engine>> made = Engine::create({});  // on the machine's clock
    ASSERT_TRUE(made.ok());
    ASSERT_TRUE((*made)->start().ok());
    if (with_task) {
      ASSERT_TRUE((*made)->schedule({.type = "test", .deadline = after(1h)}).ok());
    }
    ASSERT_TRUE(eventually([&] { return (*made)->stats().steps > 0; }));
    spin_for(5ms);  // both threads asleep
    const auto start = steady_clock::now();
    EXPECT_TRUE((*made)->stop().ok());
    EXPECT_LT(steady_clock::now() - start, 10s);
  }
}

TEST(Traps, T5_AHeadThatIsNotDurableBlocksNobodyAndSpinsNobody) {
  Faults faults;
  ThreadedEngine threaded({}, std::make_unique<FaultJournal>(&faults));
  threaded.run();
  threaded.schedule(after(20ms), "durable");
  faults.hold();
  ASSERT_TRUE(threaded.engine->submit({.type = "test", .deadline = after(10ms), .key = "not yet"}));
  ASSERT_TRUE(eventually([&] { return faults.waiting(); }));
  const std::uint64_t steps = threaded.engine->stats().steps;
  threaded.clock.advance(15ms);
  threaded.clock.advance(15ms);
  ASSERT_TRUE(threaded.wait_starts(1));
  EXPECT_EQ(threaded.starts()[0].key, "durable");
  spin_for(20ms);
  EXPECT_LE(threaded.engine->stats().steps - steps, 20U);
  EXPECT_EQ(threaded.start_count(), 1U);
  faults.release();
  ASSERT_TRUE(threaded.wait_starts(2));
  EXPECT_EQ(threaded.starts()[1].key, "not yet");
}

TEST(Traps, T6_AnEngineWithNothingButSlackSleeps) {
  EngineOptions options;
  options.slack = 60s;
  ThreadedEngine threaded(options);
  threaded.run();
  for (const auto delay : {std::chrono::nanoseconds(24h), options.max_delay}) {
    threaded.schedule(after(delay));
    for (int i = 0; i < 1000; ++i) {
      threaded.clock.advance(1ms);
    }
    EXPECT_LE(threaded.engine->stats().steps, 20U);
  }
}

TEST(Traps, T7_CallersThatDoNotWaitPayForFewWakes) {
  ThreadedEngine threaded;
  threaded.run();
  constexpr int kCalls = 20'000;
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(threaded.engine->submit({.type = "test", .deadline = after(1h)}));
    if (i % 100 == 0) {
      spin_for(20us);
    }
  }
  EXPECT_TRUE(eventually([&] { return threaded.engine->stats().durable_lag == 0; }));
  EXPECT_LE(threaded.engine->stats().commit_wakes, static_cast<std::uint64_t>(kCalls / 10));
}

TEST(Traps, T7_ACallAfterALongSilenceIsCommittedAllTheSame) {
  ThreadedEngine threaded;
  threaded.run();
  for (int i = 0; i < 20; ++i) {
    spin_for(i % 2 == 0 ? 10ms : 1ms);  // asleep for good, and napping
    const Result<Submitted> task = threaded.engine->submit({.type = "test", .deadline = after(0s)});
    ASSERT_TRUE(task.ok());
    EXPECT_TRUE(threaded.wait_starts(static_cast<std::size_t>(i) + 1));
  }
}

TEST(Traps, T11_NoHandshakeBetweenTheThreadsLosesAWake) {
  // One task at a time, so that every thread is on its way to sleep when the next comes: caller and
  // commit thread, commit and tick thread, worker and ring, waiter and mark.
  ThreadedEngine threaded;
  threaded.run();
  std::mt19937 random(11);
  for (std::size_t i = 1; i <= 3000; ++i) {
    if (i % 16 == 0) {
      spin_for(std::chrono::microseconds(random() % 3000));
    } else {
      spin_for(std::chrono::microseconds(random() % 30));
    }
    if (i % 2 == 0) {
      threaded.schedule(after(0s));  // waits
    } else {
      ASSERT_TRUE(threaded.engine->submit({.type = "test", .deadline = after(0s)}));
    }
    ASSERT_TRUE(threaded.wait_starts(i)) << i;
  }
}

TEST(Traps, T13_ASlowHandlerHoldsBackItsOwnClaimOnly) {
  EngineOptions options;
  options.workers = 2;
  ThreadedEngine threaded(options);
  std::atomic<bool> open{false};
  std::atomic<int> runs{0};
  ASSERT_TRUE(threaded.engine
                  ->on("test",
                       [&](Delivery d) {
                         if (d.key() == "slow") {
                           EXPECT_TRUE(eventually([&] { return open.load(); }));
                         } else {
                           ++runs;
                         }
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  constexpr int kHerd = 2000;
  for (int i = 0; i < kHerd; ++i) {
    ASSERT_TRUE(threaded.engine->submit(
        {.type = "test", .deadline = after(1s), .key = i == 500 ? "slow" : ""}));
  }
  ASSERT_TRUE(threaded.engine->flush().ok());
  threaded.clock.advance(1s);
  constexpr int kHeldBack = static_cast<int>(DueRing::kClaimMax) - 1;
  EXPECT_TRUE(eventually([&] { return runs >= kHerd - 1 - kHeldBack; }));
  open = true;
  EXPECT_TRUE(threaded.wait_idle());
  EXPECT_EQ(runs, kHerd - 1);
}

TEST(Traps, T14_EachWaiterIsWokenByItsOwnBatch) {
  ThreadedEngine threaded;
  threaded.run();
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 200; ++i) {
        const Durability level = (caller + i) % 2 == 0 ? Durability::kDisk : Durability::kOs;
        TaskSpec spec{.type = "test", .deadline = after(1h)};
        spec.durability = level;
        const Result<Submitted> task = threaded.engine->submit(spec);
        ASSERT_TRUE(task.ok());
        ASSERT_TRUE(threaded.engine->wait_durable(task->lsn, level, kPatience).ok());
        // Not before its time: the mark has passed it.
        ASSERT_GE(threaded.engine->durable_lsn(level), task->lsn);
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(threaded.engine->stats().pending, 1600U);
}

TEST(Traps, T17_APoolWhoseThreadsAllWaitForTheLogGoesOn) {
  EngineOptions options;
  options.workers = 2;
  ThreadedEngine threaded(options);
  std::atomic<int> runs{0};
  constexpr int kChains = 20;
  constexpr int kLinks = 20;
  ASSERT_TRUE(threaded.engine
                  ->on("chain",
                       [&](Delivery d) {
                         const int link = std::stoi(std::string(d.payload()));
                         if (link < kLinks) {
                           // At `disk`: this worker waits for an fsync.
                           const std::string next = std::to_string(link + 1);
                           EXPECT_TRUE(threaded.engine->schedule(
                               {.type = "chain", .deadline = after(0s), .payload = next}));
                         }
                         ++runs;
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  for (int i = 0; i < kChains; ++i) {
    ASSERT_TRUE(threaded.engine->submit({.type = "chain", .deadline = after(0s), .payload = "1"}));
  }
  EXPECT_TRUE(eventually([&] { return runs == kChains * kLinks; }));
  EXPECT_TRUE(threaded.wait_idle());
}

}  // namespace
}  // namespace countwheel
