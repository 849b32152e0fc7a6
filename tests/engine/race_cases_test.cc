// Callers against the tick thread, the workers and the end: real threads, virtual time.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
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
using testing::HostEngine;
using testing::MemoryLog;
using testing::ThreadedEngine;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kShare = 10;  // Sanitizers slow this down about tenfold.
#else
constexpr int kShare = 1;
#endif

// Lets rounds of tasks expire while another thread cancels them at random phases.
class CancelRace {
 public:
  static constexpr int kPerRound = 500;

  explicit CancelRace(int rounds) : rounds_(rounds) {}

  void run() {
    start();
    std::thread canceller([this] { cancel_rounds(); });
    for (int round = 1; round <= rounds_; ++round) {
      ids_.clear();
      answers_.assign(kPerRound, Code::kOk);
      for (int i = 0; i < kPerRound; ++i) {
        ids_.push_back(threaded_.engine->submit({.type = "test", .deadline = after(10ms)})->id);
      }
      ASSERT_TRUE(threaded_.engine->flush().ok());
      // The one side begins when the other has got to a random place.
      const int phase = static_cast<int>(random_() % (kPerRound - 1)) + 1;
      cancels_ = 0;
      run_count_ = 0;
      runs_wanted_ = round % 2 == 0 ? phase : 0;
      round_ = round;  // the canceller begins
      if (round % 2 == 1) {
        ASSERT_TRUE(eventually([&] { return cancels_ >= phase; }));
      }
      threaded_.clock.advance(10ms);
      ASSERT_TRUE(eventually([&] { return cancelled_round_ == round; }));
      ASSERT_TRUE(threaded_.wait_idle());
      check();
    }
    canceller.join();
    EXPECT_EQ(violations_, 0);
    EXPECT_GT(wins_, 0U);
    EXPECT_GT(losses_, 0U);
    EXPECT_EQ(threaded_.engine->check_invariants(), "");
  }

 private:
  void start() {
    runs_ = std::make_unique<std::atomic<int>[]>(kPerRound);
    ASSERT_TRUE(threaded_.engine
                    ->on("test",
                         [this](Delivery d) {
                           const auto at = std::find(ids_.begin(), ids_.end(), d.id());
                           ++runs_[static_cast<std::size_t>(at - ids_.begin())];
                           ++run_count_;
                           EXPECT_TRUE(d.done().ok());
                         })
                    .ok());
    ASSERT_TRUE(threaded_.engine->start().ok());
  }
  void cancel_rounds() {
    for (int round = 1; round <= rounds_; ++round) {
      if (!eventually([&] { return round_ == round && run_count_ >= runs_wanted_; })) {
        return;
      }
      // From the far end: it meets the workers somewhere.
      for (int i = kPerRound - 1; i >= 0; --i) {
        const auto index = static_cast<std::size_t>(i);
        answers_[index] = threaded_.engine->submit_cancel(ids_[index]).status.code();
        ++cancels_;
      }
      cancelled_round_ = round;
    }
  }
  void check() {
    for (std::size_t i = 0; i < kPerRound; ++i) {
      const bool cancelled = answers_[i] == Code::kCancelled;
      const bool late = answers_[i] == Code::kTooLate || answers_[i] == Code::kNotFound;
      const int runs = runs_[i].exchange(0);
      violations_ += cancelled != (runs == 0) || late != (runs == 1) ? 1 : 0;
      ++(cancelled ? wins_ : losses_);
    }
  }

  const int rounds_;
  ThreadedEngine threaded_;
  std::mt19937 random_{30};
  std::vector<TaskId> ids_;
  std::vector<Code> answers_;
  std::unique_ptr<std::atomic<int>[]> runs_;
  std::atomic<int> round_{0};
  std::atomic<int> cancels_{0};
  std::atomic<int> run_count_{0};
  std::atomic<int> runs_wanted_{0};
  std::atomic<int> cancelled_round_{0};
  int violations_ = 0;
  std::uint64_t wins_ = 0;
  std::uint64_t losses_ = 0;
};

TEST(EngineCases, B30_WhatCancelAnswersIsWhatHappens) {
  // 100,000 races in all.
  CancelRace race(100'000 / CancelRace::kPerRound / kShare);
  race.run();
}

TEST(EngineCases, B31_AnEarlierTaskWakesTheThreadThatSleepsForALaterOne) {
  ThreadedEngine threaded;
  std::atomic<std::uint64_t> runs{0};
  std::atomic<std::int64_t> lateness_max{0};
  ASSERT_TRUE(threaded.engine
                  ->on("test",
                       [&](Delivery d) {
                         lateness_max = std::max(lateness_max.load(), d.lateness().count());
                         EXPECT_TRUE(d.done().ok());
                         ++runs;
                       })
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  threaded.schedule(after(24h * 30));
  std::mt19937 random(31);
  for (std::uint64_t i = 1; i <= 10'000 / kShare; ++i) {
    // A random phase of the tick thread's way to sleep.
    for (auto spin = static_cast<std::uint32_t>(random() % 2000); spin > 0; --spin) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    threaded.schedule(after(20ms));
    threaded.clock.advance(20ms);
    ASSERT_TRUE(eventually([&] { return runs == i; })) << i;
  }
  // Exact under the manual clock; the bound of the real one is 2 ticks.
  EXPECT_EQ(lateness_max, 0);
}

TEST(EngineCases, B31_FiftySecondsThenThree) {
  ThreadedEngine threaded;
  threaded.run();
  threaded.schedule(after(50s), "50 s");
  threaded.schedule(after(3s), "3 s");
  threaded.clock.advance(3s);
  ASSERT_TRUE(threaded.wait_starts(1));
  EXPECT_EQ(threaded.starts()[0].key, "3 s");
  EXPECT_EQ(nanoseconds(threaded.starts()[0].boot_ns), 3s);
  threaded.clock.advance(47s);
  ASSERT_TRUE(threaded.wait_starts(2));
  EXPECT_EQ(nanoseconds(threaded.starts()[1].boot_ns), 50s);
}

// A tick thread by hand: it polls when next_wake() says so.
std::uint64_t drive_to(HostEngine& host, nanoseconds until) {
  std::uint64_t polls = 0;
  for (;;) {
    const nanoseconds wake(host.engine->next_wake().boot_ns);
    const nanoseconds now(host.clock.now().boot_ns);
    if (wake > until) {
      host.clock.advance(until - now);
      return polls;
    }
    host.clock.advance(std::max<nanoseconds>(wake - now, 0ns));
    host.engine->poll();
    ++polls;
  }
}

TEST(EngineCases, B32_AHeadMovedLaterCostsAtMostOneWake) {
  HostEngine host;
  host.run();
  nanoseconds start{0};
  for (std::uint64_t moves = 1; moves <= 200; ++moves) {
    const TaskId id = host.schedule(after(100ms));
    drive_to(host, start + 50ms);
    EXPECT_EQ(host.engine->reschedule(id, after(10s - 50ms)).status.code(), Code::kOk);
    drive_to(host, start + 10s - 1ns);
    EXPECT_EQ(host.started.size(), moves - 1);
    drive_to(host, start + 10s);
    EXPECT_EQ(host.started.size(), moves);
    EXPECT_LE(host.engine->stats().spurious_wakes, moves);
    start += 10s;
  }
}

// Eight threads at full speed while the engine is stopped under them.
class StopUnderLoad {
 public:
  explicit StopUnderLoad(MemoryLog* log)
      : threaded_({}, log == nullptr ? nullptr : log->journal()) {}

  void run() {
    threaded_.run();
    std::vector<std::thread> callers;
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([this, i] { call(i); });
    }
    EXPECT_TRUE(eventually([&] { return acknowledged_ > 400; }));
    EXPECT_TRUE(threaded_.engine->stop().ok());
    for (std::thread& caller : callers) {
      caller.join();
    }
    Engine& engine = *threaded_.engine;
    EXPECT_EQ(engine.schedule({.type = "test", .deadline = after(1h)}).code(), Code::kStopped);
    EXPECT_EQ(engine.submit({.type = "test", .deadline = after(1h)}).code(), Code::kStopped);
    EXPECT_EQ(engine.cancel("0-0").status.code(), Code::kStopped);
    EXPECT_EQ(engine.reschedule("0-0", after(2h)).status.code(), Code::kStopped);
    EXPECT_EQ(engine.on("late", [](Delivery) {}).code(), Code::kStopped);
    EXPECT_EQ(engine.start().code(), Code::kStopped);
    EXPECT_TRUE(engine.stop().ok());
    EXPECT_EQ(engine.check_invariants(), "");
  }

  // What is pending at the end, by key, and what was acknowledged.
  std::set<std::string> pending() const {
    std::set<std::string> keys;
    for (const TaskInfo& task : threaded_.engine->list({}, 1'000'000)) {
      keys.insert(task.key);
    }
    return keys;
  }
  const std::set<std::string>& scheduled() const { return scheduled_; }
  const std::set<std::string>& cancelled() const { return cancelled_; }

 private:
  void call(int caller) {
    for (int i = 0;; ++i) {
      const std::string key = std::to_string(caller) + "-" + std::to_string(i);
      const Result<TaskId> id =
          threaded_.engine->schedule({.type = "test", .deadline = after(1h), .key = key});
      if (!id.ok()) {
        EXPECT_EQ(id.code(), Code::kStopped);
        return;
      }
      ++acknowledged_;
      {
        const std::lock_guard lock(mutex_);
        scheduled_.insert(key);
      }
      if (i % 3 == 0) {
        const Change change = threaded_.engine->cancel(*id);
        if (change.status.code() == Code::kStopped) {
          return;
        }
        EXPECT_EQ(change.status.code(), Code::kCancelled);
        const std::lock_guard lock(mutex_);
        cancelled_.insert(key);
      }
    }
  }

  ThreadedEngine threaded_;
  std::atomic<int> acknowledged_{0};
  std::mutex mutex_;
  std::set<std::string> scheduled_;  // acknowledged; guarded by mutex_
  std::set<std::string> cancelled_;  // acknowledged; guarded by mutex_
};

TEST(EngineCases, B35_WhatWasAcknowledgedDuringAStopIsInTheLog) {
  MemoryLog log;
  StopUnderLoad load(&log);
  load.run();
  // A durable engine: pending stays pending, in the log.
  ManualClock clock;
  InlineExecutor executor;
  EngineOptions options;
  options.drive = Drive::kHost;
  const std::unique_ptr<MemoryLog> image = log.killed();
  const Result<testing::Recovered> recovered = testing::recover(*image, options, &clock, &executor);
  ASSERT_TRUE(recovered.ok());
  std::set<std::string> found;
  for (const TaskInfo& task : recovered->engine->list({}, 1'000'000)) {
    found.insert(task.key);
  }
  for (const std::string& key : load.scheduled()) {
    EXPECT_NE(found.contains(key), load.cancelled().contains(key)) << key;
  }
}

TEST(EngineCases, B35_AnEngineInMemoryGivesWhatIsPendingToTheCaller) {
  StopUnderLoad load(nullptr);
  load.run();
  const std::set<std::string> pending = load.pending();
  for (const std::string& key : load.scheduled()) {
    EXPECT_NE(pending.contains(key), load.cancelled().contains(key)) << key;
  }
}

}  // namespace
}  // namespace countwheel
