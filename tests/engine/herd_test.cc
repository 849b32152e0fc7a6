// A million tasks due at one instant, with callers in between.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using testing::eventually;
using testing::ThreadedEngine;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint32_t kHerd = 100'000;  // Sanitizers slow this down about tenfold.
#else
constexpr std::uint32_t kHerd = 1'000'000;
#endif
constexpr std::uint32_t kNone = 0xffffffff;

// Each task of the herd is its number in the payload.
class Herd {
 public:
  void run() {
    schedule();
    threaded_.clock.advance(1s);
    std::vector<std::thread> callers;
    for (unsigned i = 0; i < 4; ++i) {
      callers.emplace_back([this, i] { cancel(i); });
    }
    EXPECT_TRUE(eventually([&] { return threaded_.engine->stats().handed_over >= kHerd / 2; }));
    threaded_.clock.advance(10ms);
    EXPECT_TRUE(eventually([&] { return threaded_.engine->stats().pending == 0; }, 300s));
    stop_ = true;
    for (std::thread& caller : callers) {
      caller.join();
    }
  }

  void check() {
    std::uint32_t done = 0;
    std::uint32_t cancelled = 0;
    for (std::uint32_t i = 0; i < kHerd; ++i) {
      done += runs_[i] == 1 ? 1U : 0U;
      cancelled += cancelled_[i] ? 1U : 0U;
      ASSERT_EQ(runs_[i] + (cancelled_[i] ? 1 : 0), 1) << i;
    }
    EXPECT_EQ(done + cancelled, kHerd);
    EXPECT_GT(cancelled, 0U);
    EXPECT_EQ(late_runs_, 100U);
    // What is due at 1.010 s is handed over behind what is due at 1.000 s.
    EXPECT_GT(~late_sequence_min_, herd_sequence_max_);
    // Bounded batches: callers are not held up. The limit is 10 ms on a quiet machine.
    ASSERT_FALSE(took_.empty());
    std::sort(took_.begin(), took_.end());
    EXPECT_LE(took_[took_.size() * 99 / 100], 10 * 10ms);
    EXPECT_EQ(threaded_.engine->check_invariants(), "");
  }

 private:
  void schedule() {
    runs_ = std::make_unique<std::atomic<std::uint8_t>[]>(kHerd);
    cancelled_ = std::make_unique<std::atomic<bool>[]>(kHerd);
    ids_.resize(kHerd);
    ASSERT_TRUE(threaded_.engine->on("herd", [this](Delivery d) { handle(std::move(d)); }).ok());
    ASSERT_TRUE(threaded_.engine->start().ok());
    for (std::uint32_t i = 0; i < kHerd; ++i) {
      submit(i, after(1s), &ids_[i]);
    }
    for (int i = 0; i < 100; ++i) {
      submit(kNone, after(1010ms), nullptr);
    }
    ASSERT_TRUE(threaded_.engine->flush().ok());
  }
  void submit(std::uint32_t number, Deadline deadline, TaskId* id) {
    const std::string_view payload(reinterpret_cast<const char*>(&number), sizeof number);
    for (;;) {
      const Result<Submitted> submitted =
          threaded_.engine->submit({.type = "herd", .deadline = deadline, .payload = payload});
      if (submitted.ok()) {
        if (id != nullptr) {
          *id = submitted->id;
        }
        return;
      }
      ASSERT_EQ(submitted.code(), Code::kOverloaded);  // The commit thread is behind.
      std::this_thread::yield();
    }
  }
  void handle(Delivery delivery) {
    std::uint32_t number = 0;
    ASSERT_EQ(delivery.payload().size(), sizeof number);
    std::memcpy(&number, delivery.payload().data(), sizeof number);
    if (number == kNone) {
      ++late_runs_;
      raise(&late_sequence_min_, ~delivery.sequence());
    } else {
      ++runs_[number];
      raise(&herd_sequence_max_, delivery.sequence());
    }
    EXPECT_TRUE(delivery.done().ok());
  }
  static void raise(std::atomic<std::uint64_t>* value, std::uint64_t to) {
    std::uint64_t seen = *value;
    while (seen < to && !value->compare_exchange_weak(seen, to)) {
    }
  }
  // Cancels at random what has not started, and times each call.
  void cancel(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<steady_clock::duration> took;
    while (!stop_) {
      const auto number = static_cast<std::uint32_t>(random() % kHerd);
      const auto start = steady_clock::now();
      const Change change = threaded_.engine->submit_cancel(ids_[number]);
      took.push_back(steady_clock::now() - start);
      if (change.status.code() == Code::kCancelled) {
        EXPECT_FALSE(cancelled_[number].exchange(true));
      }
      std::this_thread::yield();
    }
    const std::lock_guard lock(mutex_);
    took_.insert(took_.end(), took.begin(), took.end());
  }

  ThreadedEngine threaded_;
  std::vector<TaskId> ids_;
  std::unique_ptr<std::atomic<std::uint8_t>[]> runs_;
  std::unique_ptr<std::atomic<bool>[]> cancelled_;
  std::atomic<std::uint64_t> late_runs_{0};
  std::atomic<std::uint64_t> herd_sequence_max_{0};
  std::atomic<std::uint64_t> late_sequence_min_{0};  // complemented
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::vector<steady_clock::duration> took_;  // guarded by mutex_
};

TEST(EngineCases, B26_AMillionAtOneInstant) {
  const auto herd = std::make_unique<Herd>();
  herd->run();
  herd->check();
}

}  // namespace
}  // namespace countwheel
