// What holds handlers back: pauses and limits of concurrency. And who may move whom: policies for a
// key that is taken, and moves that depend on the deadline.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"
#include "testing/memory_log.h"
#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::HostEngine;
using testing::MemoryLog;
using testing::ThreadedEngine;

TEST(Pause, WhatFallsDueWaitsAndCanBeCancelled) {
  HostEngine host;
  host.run();
  ASSERT_TRUE(host.engine->pause().ok());
  std::vector<TaskId> ids;
  for (int i = 0; i < 10; ++i) {
    ids.push_back(host.schedule(after(1s)));
  }
  host.advance_by_steps(10s, 1s);
  EXPECT_TRUE(host.started.empty());
  EXPECT_EQ(host.engine->stats().backlog, 10U);
  EXPECT_TRUE(host.engine->cancel(ids[3]));
  ASSERT_TRUE(host.engine->resume().ok());
  host.engine->poll();
  ASSERT_EQ(host.started.size(), 9U);
  EXPECT_EQ(host.started[0].id, ids[0]);
  EXPECT_EQ(host.started[0].lateness, 9s);
  EXPECT_EQ(host.started[3].id, ids[4]);
}

TEST(Pause, OfOneTypeLeavesTheOthers) {
  HostEngine host;
  host.run();
  int others = 0;
  ASSERT_TRUE(host.engine
                  ->on("other",
                       [&](Delivery d) {
                         ++others;
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(host.engine->pause("test").ok());
  host.schedule(after(1s));
  ASSERT_TRUE(host.engine->schedule({.type = "other", .deadline = after(1s)}).ok());
  host.advance(1s);
  EXPECT_EQ(others, 1);
  EXPECT_TRUE(host.started.empty());
  // A pause of everything and one of a type are two.
  ASSERT_TRUE(host.engine->pause().ok());
  ASSERT_TRUE(host.engine->resume("test").ok());
  host.advance(1s);
  EXPECT_TRUE(host.started.empty());
  ASSERT_TRUE(host.engine->resume().ok());
  host.advance(1s);
  EXPECT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.engine->pause("nobody").code(), Code::kNotFound);
}

TEST(Pause, BeforeTheStartNothingRunsUntilItIsLifted) {
  ThreadedEngine threaded;
  ASSERT_TRUE(threaded.engine->pause().ok());
  threaded.run();
  for (int i = 0; i < 100; ++i) {
    threaded.schedule(after(0s));
  }
  ASSERT_TRUE(threaded.wait_handed_over(100));
  EXPECT_EQ(threaded.start_count(), 0U);
  ASSERT_TRUE(threaded.engine->resume().ok());
  EXPECT_TRUE(threaded.wait_starts(100));
}

// Counts how many handlers run at a time.
struct Gauge {
  void enter() {
    const int count = ++now;
    int seen = most.load();
    while (count > seen && !most.compare_exchange_weak(seen, count)) {
    }
  }
  std::atomic<int> now{0};
  std::atomic<int> most{0};
};

TEST(MaxConcurrent, IsNotExceededAndNothingIsForgotten) {
  EngineOptions options;
  options.workers = 4;
  ThreadedEngine threaded(options);
  Gauge limited;
  std::atomic<int> runs{0};
  TypePolicy policy;
  policy.max_concurrent = 2;
  ASSERT_TRUE(threaded.engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        limited.enter();
                        for (int i = 0; i < 3; ++i) {
                          std::this_thread::yield();
                        }
                        --limited.now;
                        EXPECT_TRUE(d.done().ok());
                        ++runs;
                      },
                      policy)
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(threaded.engine->submit({.type = "test", .deadline = after(1ms * (i % 7))}).ok());
  }
  threaded.clock.advance(10ms);
  ASSERT_TRUE(eventually([&] { return runs == 500; }));
  EXPECT_LE(limited.most, 2);
}

TEST(MaxConcurrent, OneOrdersTheEffectsOfAType) {
  EngineOptions options;
  options.workers = 4;
  ThreadedEngine threaded(options);
  std::vector<int> effects;  // by one handler at a time: no lock
  std::atomic<int> runs{0};
  TypePolicy policy;
  policy.max_concurrent = 1;
  ASSERT_TRUE(threaded.engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        std::this_thread::yield();
                        effects.push_back(std::stoi(std::string(d.payload())));
                        EXPECT_TRUE(d.done().ok());
                        ++runs;
                      },
                      policy)
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  for (int i = 0; i < 300; ++i) {
    const std::string payload = std::to_string(299 - i);
    ASSERT_TRUE(
        threaded.engine
            ->submit({.type = "test", .deadline = after(10ms - 1us * i), .payload = payload})
            .ok());
  }
  ASSERT_TRUE(threaded.engine->flush().ok());
  threaded.clock.advance(20ms);
  ASSERT_TRUE(eventually([&] { return runs == 300; }));
  EXPECT_TRUE(std::is_sorted(effects.begin(), effects.end()));
}

// The answer comes from elsewhere: no worker is there to go on.
TEST(MaxConcurrent, AnAnswerFromElsewhereLetsTheNextOneStart) {
  ThreadedEngine threaded;
  std::mutex mutex;
  std::vector<Delivery> kept;
  TypePolicy policy;
  policy.max_concurrent = 1;
  ASSERT_TRUE(threaded.engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        const std::lock_guard lock(mutex);
                        kept.push_back(std::move(d));
                      },
                      policy)
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  for (int i = 0; i < 20; ++i) {
    threaded.schedule(after(0s));
  }
  for (std::size_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(eventually([&] {
      const std::lock_guard lock(mutex);
      return kept.size() == i + 1;
    }));
    EXPECT_EQ(threaded.engine->stats().running, 1U);
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(kept.back().done().ok());
  }
  EXPECT_TRUE(threaded.wait_idle());
}

TEST(MaxConcurrent, AHandlerThatHangsGivesItsPlaceUpWithItsLease) {
  HostEngine host;
  std::vector<Delivery> kept;
  TypePolicy policy;
  policy.max_concurrent = 1;
  policy.lease = 1s;
  policy.retry = RetryPolicy::fixed(1h);
  ASSERT_TRUE(host.engine
                  ->on(
                      "test", [&](Delivery d) { kept.push_back(std::move(d)); }, policy)
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  host.schedule(after(0s), "first");
  host.schedule(after(0s), "second");
  host.engine->poll();
  EXPECT_EQ(kept.size(), 1U);
  host.advance_by_steps(1200ms, 100ms);
  EXPECT_EQ(kept.size(), 2U);
  for (Delivery& delivery : kept) {
    (void)delivery.done();
  }
}

TEST(MaxPerSecond, SpreadsWhatIsDueAtOnce) {
  HostEngine host;
  TypePolicy policy;
  policy.max_per_second = 10;
  policy.burst = 3;
  host.run(policy);
  std::vector<TaskId> ids;
  for (int i = 0; i < 13; ++i) {
    ids.push_back(host.schedule(after(1s)));
  }
  host.advance(1s);
  EXPECT_EQ(host.started.size(), 3U);
  EXPECT_TRUE(host.engine->cancel(ids[5]));  // costs no start
  // It says when it wants to be called.
  EXPECT_EQ(host.engine->next_wake().boot_ns - host.clock.now().boot_ns, 100'000'000);
  host.advance_by_steps(450ms, 50ms);
  EXPECT_EQ(host.started.size(), 7U);
  host.advance_by_steps(10s, 50ms);
  ASSERT_EQ(host.started.size(), 12U);
  for (std::size_t i = 3; i < 12; ++i) {
    EXPECT_GE(host.started[i].boot_ns - host.started[i - 3].boot_ns, 100'000'000) << i;
  }
  // A quiet time fills the bucket to the burst and no further.
  for (int i = 0; i < 10; ++i) {
    host.schedule(after(0s));
  }
  host.engine->poll();
  EXPECT_EQ(host.started.size(), 15U);
}

TEST(MaxPerSecond, TheTickThreadComesBackForWhatWaits) {
  ThreadedEngine threaded;
  TypePolicy policy;
  policy.max_per_second = 1000;
  threaded.run(policy);
  for (int i = 0; i < 50; ++i) {
    threaded.schedule(after(0s));
  }
  ASSERT_TRUE(eventually([&] {
    threaded.clock.advance(1ms);
    return threaded.start_count() == 50;
  }));
  std::vector<testing::Started> starts = threaded.starts();
  EXPECT_GE(starts.back().boot_ns - starts.front().boot_ns, 49'000'000);
}

TEST(MaxPerSecond, NonsenseIsRefusedByName) {
  HostEngine host;
  for (const double rate : {-1.0, 2e6, std::numeric_limits<double>::quiet_NaN()}) {
    TypePolicy policy;
    policy.max_per_second = rate;
    const Status status = host.engine->on(
        "test", [](Delivery) {}, policy);
    EXPECT_EQ(status.code(), Code::kOutOfRange) << rate;
    EXPECT_NE(status.text().find("max_per_second"), std::string::npos);
  }
  TypePolicy policy;
  policy.burst = 0;
  EXPECT_EQ(host.engine
                ->on(
                    "test", [](Delivery) {}, policy)
                .code(),
            Code::kOutOfRange);
}

TEST(KeyPolicyKeep, AnswersWithTheTaskThatIsThere) {
  MemoryLog log;
  HostEngine host({}, nullptr, log.journal());
  host.run();
  const TaskId first = host.schedule(after(10s), "key", "first");
  const TaskSpec again{.type = "test",
                       .deadline = after(1s),
                       .key = "key",
                       .payload = "second",
                       .key_policy = KeyPolicy::kKeep};
  const Result<Submitted> kept = host.engine->submit(again);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->id, first);
  EXPECT_TRUE(kept->kept);
  EXPECT_TRUE(host.engine->wait_durable(kept->lsn).ok());
  EXPECT_EQ(*host.engine->schedule(again), first);
  host.advance(1s);
  EXPECT_TRUE(host.started.empty());
  host.advance(9s);
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.started[0].payload, "first");
  // Nobody has the key any more: it is a schedule like any other.
  const Result<Submitted> fresh = host.engine->submit(again);
  ASSERT_TRUE(fresh.ok());
  EXPECT_FALSE(fresh->kept);
  EXPECT_NE(fresh->id, first);
}

TEST(RescheduleIf, MovesOnlyWhatStillHasTheDeadline) {
  HostEngine host;
  host.run();
  const TaskId id = host.schedule(after(10s), "key");
  const WallTime seen = host.engine->find(id)->deadline;
  const Change moved = host.engine->reschedule_if(id, seen, after(20s));
  EXPECT_EQ(moved.status.code(), Code::kOk);
  EXPECT_EQ(moved.deadline, seen);
  const Change late = host.engine->reschedule_if("key", seen, after(1s));
  EXPECT_EQ(late.status.code(), Code::kChanged);
  EXPECT_EQ(late.deadline, seen + 10s);  // what it has instead
  EXPECT_FALSE(late);
  EXPECT_EQ(host.engine->reschedule_if("nobody", seen, after(1s)).status.code(), Code::kNotFound);
  host.advance(19s);
  EXPECT_TRUE(host.started.empty());
  host.advance(1s);
  EXPECT_EQ(host.started.size(), 1U);
}

TEST(RescheduleIf, OfManyThatSawTheSameDeadlineOneMovesIt) {
  ThreadedEngine threaded;
  threaded.run();
  for (int round = 0; round < 50; ++round) {
    const TaskId id = threaded.schedule(after(1h));
    const WallTime seen = threaded.engine->find(id)->deadline;
    std::atomic<int> moved{0};
    std::vector<std::thread> callers;
    for (int i = 1; i <= 4; ++i) {
      callers.emplace_back([&, i] {
        moved += threaded.engine->reschedule_if(id, seen, after(1h + 1s * i)) ? 1 : 0;
      });
    }
    for (std::thread& caller : callers) {
      caller.join();
    }
    EXPECT_EQ(moved, 1);
  }
}

}  // namespace
}  // namespace countwheel
