// Between the tick thread and the handlers: per-type queues, what the rings cannot take, and how
// many deliveries may be in flight.
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "engine/due_ring.h"
#include "testing/engine_fixture.h"
#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::GatedExecutor;
using testing::HostEngine;
using testing::ThreadedEngine;

TEST(TypeQueues, OneTypeDoesNotStarveAnother) {
  GatedExecutor gate;
  HostEngine host({}, &gate);
  std::vector<std::string> starts;
  for (const char* type : {"crowd", "other"}) {
    ASSERT_TRUE(host.engine
                    ->on(type,
                         [&](Delivery d) {
                           starts.emplace_back(d.type());
                           EXPECT_TRUE(d.done().ok());
                         })
                    .ok());
  }
  ASSERT_TRUE(host.engine->start().ok());
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(host.engine->submit({.type = "crowd", .deadline = after(1s)}));
  }
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(host.engine->submit({.type = "other", .deadline = after(2s)}));
  }
  EXPECT_EQ(host.advance(2s), 10'010U);
  gate.open();
  while (host.engine->stats().pending != 0) {
    host.engine->poll();
    gate.open();
  }
  ASSERT_EQ(starts.size(), 10'010U);
  // The types take turns in claims of 8 at most, however long the queue of one is.
  std::size_t last_other = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    last_other = starts[i] == "other" ? i : last_other;
  }
  EXPECT_LE(last_other, 10U + 10U * detail::DueRing::kClaimMax);
}

TEST(TypeQueues, MoreThanTheRingHoldsWaitsBehindItInOrder) {
  constexpr std::size_t kTasks = 5 * detail::DueRing::kCapacity;
  GatedExecutor gate;
  HostEngine host({}, &gate);
  host.run();
  for (std::size_t i = 0; i < kTasks; ++i) {
    ASSERT_TRUE(
        host.engine->submit({.type = "test", .deadline = after(1s), .key = std::to_string(i)}));
  }
  EXPECT_EQ(host.advance(1s), kTasks);
  EXPECT_EQ(host.engine->stats().backlog, kTasks);
  EXPECT_EQ(host.engine->stats().pending, kTasks);
  // What waits in the ring and behind it can still be cancelled and moved.
  EXPECT_EQ(host.engine->cancel("0").status.code(), Code::kCancelled);
  EXPECT_EQ(host.engine->cancel(std::to_string(kTasks - 1)).status.code(), Code::kCancelled);
  EXPECT_EQ(host.engine->reschedule(std::to_string(kTasks - 2), after(1h)).status.code(),
            Code::kOk);
  while (host.engine->stats().backlog != 0) {
    gate.open();
    host.engine->poll();
  }
  ASSERT_EQ(host.started.size(), kTasks - 3);
  for (std::size_t i = 0; i < host.started.size(); ++i) {
    ASSERT_EQ(host.started[i].key, std::to_string(i + 1));
  }
  EXPECT_EQ(host.engine->stats().skipped, 3U);
  EXPECT_EQ(host.engine->stats().pending, 1U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(TypeQueues, AnInlineHostRunsAHerdInOnePoll) {
  constexpr std::size_t kTasks = 3 * detail::DueRing::kCapacity;
  HostEngine host;
  host.run();
  for (std::size_t i = 0; i < kTasks; ++i) {
    ASSERT_TRUE(host.engine->submit({.type = "test", .deadline = after(1s)}));
  }
  EXPECT_EQ(host.advance(1s), kTasks);
  EXPECT_EQ(host.started.size(), kTasks);
  EXPECT_EQ(host.engine->stats().backlog, 0U);
}

TEST(InFlightLimit, NoHandlerStartsWithoutACellAndEachAnswerLetsOneStart) {
  constexpr std::size_t kCells = 8;
  HostEngine host({}, nullptr, std::make_unique<NullJournal>(kCells));
  std::vector<Delivery> kept;
  ASSERT_TRUE(host.engine->on("test", [&](Delivery d) { kept.push_back(std::move(d)); }).ok());
  ASSERT_TRUE(host.engine->start().ok());
  for (int i = 0; i < 20; ++i) {
    host.schedule(after(0s));
  }
  for (int i = 0; i < 5; ++i) {
    host.advance(1s);
  }
  EXPECT_EQ(kept.size(), kCells);
  EXPECT_EQ(host.engine->stats().running, kCells);
  EXPECT_EQ(host.engine->stats().backlog, 20 - kCells);
  for (std::size_t answered = 1; answered <= 20 - kCells; ++answered) {
    EXPECT_TRUE(kept[answered - 1].done().ok());
    host.engine->poll();
    host.engine->poll();
    EXPECT_EQ(kept.size(), kCells + answered);
  }
  for (std::size_t i = 20 - kCells; i < 20; ++i) {
    EXPECT_TRUE(kept[i].done().ok());
  }
  host.engine->poll();
  EXPECT_EQ(host.engine->stats().done, 20U);
  EXPECT_EQ(host.engine->stats().running, 0U);
}

TEST(InFlightLimit, ThreadsShareFewCells) {
  EngineOptions options;
  options.workers = 4;
  ThreadedEngine threaded(options, std::make_unique<NullJournal>(3));
  threaded.run();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(threaded.engine->submit({.type = "test", .deadline = after(1ms * (i % 50))}));
  }
  ASSERT_TRUE(threaded.engine->flush().ok());
  for (int i = 0; i < 50; ++i) {
    threaded.clock.advance(1ms);
    std::this_thread::yield();
  }
  EXPECT_TRUE(threaded.wait_idle());
  EXPECT_EQ(threaded.start_count(), 2000U);
}

TEST(InFlightLimit, EveryCellIsGivenBack) {
  HostEngine host({}, nullptr, std::make_unique<NullJournal>(4));
  int starts = 0;
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(0s);
  policy.retry.max_attempts = 2;
  ASSERT_TRUE(host.engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        switch (++starts % 4) {
                          case 0:
                            EXPECT_TRUE(d.done().ok());
                            break;
                          case 1:
                            EXPECT_TRUE(d.fail("no").ok());
                            break;
                          case 2:
                            throw std::runtime_error("thrown");
                          default:
                            break;  // dropped
                        }
                      },
                      policy)
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  for (int i = 0; i < 1000; ++i) {
    host.schedule(after(0s));
    host.engine->poll();
    host.engine->poll();
  }
  for (int i = 0; i < 10; ++i) {
    host.engine->poll();
  }
  const Stats stats = host.engine->stats();
  EXPECT_EQ(stats.pending, 0U);
  EXPECT_EQ(stats.done + stats.dead, 1000U);
  EXPECT_EQ(stats.running, 0U);
}

TEST(Backlog, ASaturatedPoolLeavesTasksQueuedAndTheTickThreadFree) {
  GatedExecutor gate;
  HostEngine host({}, &gate);
  host.run();
  for (int i = 1; i <= 100; ++i) {
    host.schedule(after(1s * i));
  }
  for (std::uint64_t i = 1; i <= 100; ++i) {
    EXPECT_EQ(host.advance(1s), 1U);
    EXPECT_EQ(host.engine->stats().backlog, i);
    EXPECT_EQ(std::chrono::nanoseconds(host.engine->stats().oldest_overdue_ns), (i - 1) * 1s);
  }
  EXPECT_EQ(gate.waiting(), 1U);  // one piece of work, not one for each task
  gate.open();
  EXPECT_EQ(host.started.size(), 100U);
  EXPECT_EQ(host.engine->stats().oldest_overdue_ns, 0);
}

}  // namespace
}  // namespace countwheel
