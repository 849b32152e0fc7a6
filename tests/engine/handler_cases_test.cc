// Handlers that hang, throw, re-arm themselves or come late, and what the engine makes of it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
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
using std::chrono::nanoseconds;
using testing::eventually;
using testing::GatedExecutor;
using testing::HostEngine;
using testing::MemoryLog;
using testing::Started;
using testing::ThreadedEngine;

TEST(EngineCases, B24_PendingIsCountedOnceWhenHandlersAndCancelsMeet) {
  EngineOptions options;
  options.workers = 1;
  options.max_pending_count = 11;
  ThreadedEngine threaded(options);
  std::atomic<int> runs{0};
  std::atomic<bool> open{false};
  ASSERT_TRUE(threaded.engine
                  ->on("test",
                       [&](Delivery d) {
                         ++runs;
                         EXPECT_TRUE(eventually([&] { return open.load(); }));
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  std::vector<TaskId> ids;
  for (int i = 0; i < 11; ++i) {
    ids.push_back(threaded.schedule(after(200ms)));
  }
  EXPECT_EQ(threaded.engine->schedule({.type = "test", .deadline = after(1s)}).code(),
            Code::kOverloaded);
  threaded.clock.advance(200ms);
  ASSERT_TRUE(eventually([&] { return runs == 1; }));
  threaded.clock.advance(1s);  // the first handler holds
  int cancelled = 0;
  int too_late = 0;
  for (const TaskId id : ids) {
    const Code code = threaded.engine->cancel(id).status.code();
    cancelled += code == Code::kCancelled ? 1 : 0;
    too_late += code == Code::kTooLate ? 1 : 0;
    EXPECT_LE(threaded.engine->stats().pending, 11U);
  }
  EXPECT_EQ(cancelled, 10);
  EXPECT_EQ(too_late, 1);
  EXPECT_EQ(threaded.engine->stats().pending, 1U);
  open = true;
  ASSERT_TRUE(threaded.wait_idle());
  EXPECT_EQ(runs + cancelled, 11);
  for (int i = 0; i < 11; ++i) {
    threaded.schedule(after(1h));
  }
  EXPECT_EQ(threaded.engine->schedule({.type = "test", .deadline = after(1h)}).code(),
            Code::kOverloaded);
  EXPECT_EQ(threaded.engine->check_invariants(), "");
}

TEST(EngineCases, B25_AHandlerThatHangsDoesNotStopTime) {
  EngineOptions options;
  options.workers = 2;
  ThreadedEngine threaded(options);
  std::atomic<bool> open{false};
  std::atomic<int> hanging{0};
  ASSERT_TRUE(threaded.engine
                  ->on("hangs",
                       [&](Delivery d) {
                         ++hanging;
                         EXPECT_TRUE(eventually([&] { return open.load(); }));
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  threaded.run();
  ASSERT_TRUE(threaded.engine->schedule({.type = "hangs", .deadline = after(0s)}));
  ASSERT_TRUE(eventually([&] { return hanging == 1; }));
  for (int i = 1; i <= 1000; ++i) {
    ASSERT_TRUE(threaded.engine->submit({.type = "test", .deadline = after(i * 10ms)}));
  }
  ASSERT_TRUE(threaded.engine->flush().ok());
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    threaded.clock.advance(10ms);
    ASSERT_TRUE(threaded.wait_handed_over(1 + i)) << i;
  }
  ASSERT_TRUE(threaded.wait_starts(1000));
  EXPECT_LE(nanoseconds(threaded.engine->stats().lateness_ns_max), 10ms);

  // Now the whole pool is blocked: time goes on, and what waits is counted.
  ASSERT_TRUE(threaded.engine->schedule({.type = "hangs", .deadline = after(0s)}));
  ASSERT_TRUE(eventually([&] { return hanging == 2; }));
  for (std::uint64_t i = 1; i <= 100; ++i) {
    threaded.schedule(after(10ms));
    threaded.clock.advance(10ms);
    ASSERT_TRUE(threaded.wait_handed_over(1002 + i)) << i;
    EXPECT_EQ(threaded.engine->stats().backlog, i);
    EXPECT_EQ(nanoseconds(threaded.engine->stats().oldest_overdue_ns), (i - 1) * 10ms);
  }
  open = true;
  ASSERT_TRUE(threaded.wait_idle());
  EXPECT_EQ(threaded.engine->stats().done, 1102U);
  EXPECT_EQ(threaded.engine->stats().backlog, 0U);
}

TEST(EngineCases, B27_ATaskThatArmsItselfWithoutDelayStarvesNobody) {
  EngineOptions options;
  options.wheel.precision = Precision::kTick;
  HostEngine host(options);
  int arming_runs = 0;
  ASSERT_TRUE(host.engine
                  ->on("arming",
                       [&](Delivery d) {
                         ++arming_runs;
                         EXPECT_TRUE(
                             host.engine->schedule({.type = "arming", .deadline = after(0s)}));
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  host.run();
  ASSERT_TRUE(host.engine->schedule({.type = "arming", .deadline = after(0s)}));
  host.schedule(after(50ms), "second");
  host.schedule(after(0s), "plain");
  host.advance_by_steps(100ms, 10ms);
  EXPECT_LE(arming_runs, 11);
  EXPECT_GE(arming_runs, 9);
  ASSERT_EQ(host.started.size(), 2U);
  EXPECT_EQ(host.started[0].key, "plain");
  EXPECT_LE(nanoseconds(host.started[0].boot_ns), 10ms);
  EXPECT_EQ(host.started[1].key, "second");
  EXPECT_EQ(nanoseconds(host.started[1].boot_ns), 50ms);
}

TEST(EngineCases, B27_InExactPrecisionOncePerStep) {
  HostEngine host;
  int runs = 0;
  ASSERT_TRUE(host.engine
                  ->on("arming",
                       [&](Delivery d) {
                         ++runs;
                         EXPECT_TRUE(
                             host.engine->schedule({.type = "arming", .deadline = after(0s)}));
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  ASSERT_TRUE(host.engine->schedule({.type = "arming", .deadline = after(0s)}));
  for (int steps = 1; steps <= 20; ++steps) {
    EXPECT_EQ(host.engine->poll(), 1U);
    EXPECT_EQ(runs, steps);
  }
}

TEST(EngineCases, B29_CancelWinsAfterExpiryWasQueued) {
  MemoryLog log;
  GatedExecutor gate;
  HostEngine host({}, &gate, log.journal());
  host.run();
  const TaskId id = host.schedule(after(100ms));
  EXPECT_EQ(host.advance(100ms), 1U);
  EXPECT_EQ(gate.waiting(), 1U);
  host.clock.advance(200ms);  // 300 ms
  EXPECT_EQ(host.engine->cancel(id).status.code(), Code::kCancelled);
  gate.open();
  host.engine->poll();
  gate.open();
  EXPECT_TRUE(host.started.empty());
  EXPECT_EQ(host.engine->find(id).code(), Code::kNotFound);
  EXPECT_EQ(host.engine->stats().cancelled, 1U);
  EXPECT_EQ(host.engine->stats().skipped, 1U);
  // Also in the log.
  ManualClock clock;
  InlineExecutor executor;
  EngineOptions options;
  options.drive = Drive::kHost;
  const std::unique_ptr<MemoryLog> image = log.killed();
  const Result<testing::Recovered> recovered = testing::recover(*image, options, &clock, &executor);
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered->summary.live, 0U);
}

TEST(EngineCases, B33_WhatHandlersThrowIsAFailedAttempt) {
  HostEngine host;
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(1s);
  std::set<std::string> done;
  std::vector<std::string> again;
  const auto handler = [&](Delivery d) {
    const std::string key(d.key());
    if (d.attempt() == 1) {
      if (key == "7") {
        throw std::runtime_error("seven");
      }
      if (key == "8") {
        throw 8;  // NOLINT: that it is no std::exception is the point.
      }
      if (key == "9") {
        throw std::bad_alloc();
      }
    } else {
      again.push_back(key);
    }
    done.insert(key);
    EXPECT_TRUE(d.done().ok());
  };
  ASSERT_TRUE(host.engine->on("throws", handler, policy).ok());
  ASSERT_TRUE(host.engine->start().ok());
  for (int i = 1; i <= 100; ++i) {
    ASSERT_TRUE(host.engine->schedule(
        {.type = "throws", .deadline = after(10ms), .key = std::to_string(i)}));
  }
  EXPECT_EQ(host.advance(10ms), 100U);
  EXPECT_EQ(done.size(), 97U);
  EXPECT_EQ(host.engine->stats().done, 97U);
  EXPECT_EQ(host.engine->stats().failed_attempts, 3U);
  const std::vector<std::pair<std::string, std::string>> errors = {
      {"7", "seven"}, {"8", "an exception that is no std::exception"}, {"9", "std::bad_alloc"}};
  for (const auto& [key, text] : errors) {
    const Result<TaskInfo> info = host.engine->find(key);
    ASSERT_TRUE(info.ok()) << key;
    EXPECT_EQ(info->failures, 1U);
    EXPECT_EQ(info->attempts, 1U);
    EXPECT_EQ(info->state, State::kScheduled);
    EXPECT_EQ(info->last_error, text);
  }
  EXPECT_EQ(host.advance(1s), 3U);
  EXPECT_EQ(again, (std::vector<std::string>{"7", "8", "9"}));
  EXPECT_EQ(host.engine->stats().done, 100U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

// What ran before and after a stop that does not wait.
class Stopped {
 public:
  static constexpr std::size_t kTasks = 10'000;

  void run_and_stop() {
    EngineOptions options;
    options.workers = 1;
    options.durability = Durability::kOs;
    ThreadedEngine threaded(options, log_.journal());
    std::atomic<std::size_t> starts{0};
    ASSERT_TRUE(threaded.engine
                    ->on("test",
                         [&](Delivery d) {
                           ids_.insert(d.id());
                           ++starts;
                           // A handler of some microseconds, so that the stop finds work left.
                           const auto until = std::chrono::steady_clock::now() + 5us;
                           while (std::chrono::steady_clock::now() < until) {
                           }
                           (void)d.done();
                         })
                    .ok());
    ASSERT_TRUE(threaded.engine->start().ok());
    for (std::size_t i = 0; i < kTasks; ++i) {
      ASSERT_TRUE(threaded.engine->submit({.type = "test", .deadline = after(1s)}));
    }
    ASSERT_TRUE(threaded.engine->flush(Durability::kOs).ok());
    threaded.clock.advance(1s);
    ASSERT_TRUE(threaded.wait_handed_over(kTasks));
    ASSERT_TRUE(eventually([&] { return starts > 20; }));
    const auto start = std::chrono::steady_clock::now();
    const Code code = threaded.engine->stop(0s).code();
    EXPECT_TRUE(code == Code::kOk || code == Code::kTimedOut);
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
    before_ = starts;
    threaded.engine.reset();
    EXPECT_LE(starts, before_ + 1);  // no handler starts after stop()
    before_ = starts;
  }

  void run_the_rest() {
    EngineOptions options;
    options.drive = Drive::kHost;
    ManualClock clock;
    clock.advance(1h);
    InlineExecutor executor;
    Result<testing::Recovered> recovered = testing::recover(log_, options, &clock, &executor);
    ASSERT_TRUE(recovered.ok());
    Engine& engine = *recovered->engine;
    std::size_t after = 0;
    ASSERT_TRUE(engine
                    .on("test",
                        [&](Delivery d) {
                          ++after;
                          // Those that never started have used no attempt.
                          EXPECT_EQ(d.attempt(), ids_.contains(d.id()) ? 2U : 1U);
                          ids_.insert(d.id());
                          EXPECT_TRUE(d.done().ok());
                        })
                    .ok());
    ASSERT_TRUE(engine.start().ok());
    while (engine.poll() != 0) {
    }
    EXPECT_LT(before_, kTasks);
    EXPECT_GE(before_ + after, kTasks);
    EXPECT_LE(before_ + after, kTasks + 1);  // one was running when the stop came
    EXPECT_EQ(ids_.size(), kTasks);
    EXPECT_EQ(engine.stats().pending, 0U);
  }

 private:
  MemoryLog log_;
  std::set<TaskId> ids_;  // started
  std::size_t before_ = 0;
};

TEST(EngineCases, B34_AStopThatDoesNotWaitLosesNothing) {
  Stopped stopped;
  stopped.run_and_stop();
  stopped.run_the_rest();
}

}  // namespace
}  // namespace countwheel
