// Four callers and the threads of the engine on the clock of the machine, doing anything to
// anything. What happened is kept as a history and checked afterwards.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::eventually;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kCallsPerThread = 3000;
#else
constexpr int kCallsPerThread = 20'000;
#endif

// One generation of one task, as its callers and handlers saw it.
struct History {
  std::int64_t not_before_ns = 0;  // start of the last successful (re)schedule + its delay
  bool fails_once = false;
  bool cancelled = false;
  int upserts = 0;
  std::vector<std::int64_t> starts_ns;
  std::vector<std::uint32_t> attempts;
};

class Stress {
 public:
  explicit Stress(std::uint64_t seed) : seed_(seed) {
    EngineOptions options;
    options.workers = 3;
    Result<std::unique_ptr<Engine>> made = Engine::create(options);
    EXPECT_TRUE(made.ok());
    engine_ = std::move(*made);
    TypePolicy policy;
    policy.retry = RetryPolicy::fixed(1ms);
    EXPECT_TRUE(engine_
                    ->on(
                        "test", [this](Delivery d) { handle(std::move(d)); }, policy)
                    .ok());
    EXPECT_TRUE(engine_->start().ok());
  }

  void run() {
    std::vector<std::thread> callers;
    for (unsigned i = 0; i < 4; ++i) {
      callers.emplace_back([this, i] { call(i); });
    }
    for (std::thread& caller : callers) {
      caller.join();
    }
    EXPECT_TRUE(eventually([&] { return engine_->stats().pending == 0; }));
  }

  void check() {
    const Stats stats = engine_->stats();
    EXPECT_EQ(stats.scheduled, stats.done + stats.cancelled + stats.dead + stats.replaced);
    std::uint64_t ran = 0;
    std::uint64_t cancelled = 0;
    std::uint64_t upserts = 0;
    for (const auto& [id, history] : histories_) {
      SCOPED_TRACE("task " + std::to_string(id));
      ASSERT_EQ(history.cancelled, history.starts_ns.empty());  // I1, I2
      cancelled += history.cancelled ? 1U : 0U;
      upserts += static_cast<std::uint64_t>(history.upserts);
      ran += history.starts_ns.empty() ? 0U : 1U;
      if (history.starts_ns.empty()) {
        continue;
      }
      ASSERT_EQ(history.starts_ns.size(), history.fails_once ? 2U : 1U);  // I8
      ASSERT_GE(history.starts_ns.front(), history.not_before_ns);        // I5, I11
      for (std::size_t i = 0; i < history.attempts.size(); ++i) {
        ASSERT_EQ(history.attempts[i], i + 1);  // I7
      }
    }
    EXPECT_EQ(stats.done, ran);
    EXPECT_EQ(stats.cancelled, cancelled);
    EXPECT_EQ(stats.replaced, upserts);
    EXPECT_GT(cancelled, 0U);
    EXPECT_GT(upserts, 0U);
    EXPECT_EQ(early_, 0);
    EXPECT_EQ(engine_->check_invariants(), "");
    EXPECT_TRUE(engine_->stop().ok());
  }

 private:
  static std::int64_t boot_now_ns() { return SystemClock::instance().now().boot_ns; }

  void handle(Delivery delivery) {
    early_ += delivery.lateness() < 0ns ? 1 : 0;
    bool fail = false;
    {
      const std::lock_guard lock(mutex_);
      History& history = histories_[delivery.id().value];
      history.starts_ns.push_back(boot_now_ns());
      history.attempts.push_back(delivery.attempt());
      fail = delivery.payload() == "fails" && delivery.attempt() == 1;
      history.fails_once |= fail;
    }
    EXPECT_TRUE((fail ? delivery.fail("once") : delivery.done()).ok());
  }

  void note_deadline(TaskId id, std::int64_t not_before_ns, bool upsert) {
    const std::lock_guard lock(mutex_);
    History& history = histories_[id.value];
    history.not_before_ns = not_before_ns;
    history.upserts += upsert ? 1 : 0;
  }

  // Keys belong to one caller, so that it knows the last word on each; ids are any caller's.
  void call(unsigned caller) {
    std::mt19937_64 random(seed_ + caller);
    std::vector<TaskId> mine;
    for (int i = 0; i < kCallsPerThread; ++i) {
      const std::string key = std::to_string(caller) + "-" + std::to_string(random() % 50);
      const std::chrono::microseconds delay(random() % 5000);
      const std::int64_t not_before_ns = boot_now_ns() + std::chrono::nanoseconds(delay).count();
      TaskSpec spec{.type = "test", .deadline = after(delay)};
      spec.key = random() % 2 == 0 ? std::string_view(key) : std::string_view();
      // Nobody touches a task between its failure and its second attempt: its history is simple.
      spec.payload = spec.key.empty() && random() % 5 == 0 ? "fails" : "";
      spec.key_policy = random() % 2 == 0 ? KeyPolicy::kReplace : KeyPolicy::kReject;
      const std::uint64_t what = random() % 10;
      if (what < 6) {
        schedule(spec, not_before_ns, random() % 100 == 0, &mine);
      } else if (!mine.empty() && what < 8) {
        cancel(mine[random() % mine.size()]);
      } else if (!mine.empty()) {
        const TaskId id = mine[random() % mine.size()];
        if (engine_->submit_reschedule(id, after(delay))) {
          note_deadline(id, not_before_ns, false);
        }
      }
      if (mine.size() > 200) {
        mine.erase(mine.begin(), mine.begin() + 100);
      }
    }
  }
  void schedule(const TaskSpec& spec,
                std::int64_t not_before_ns,
                bool waits,
                std::vector<TaskId>* mine) {
    const Result<Submitted> submitted = engine_->submit(spec);
    if (!submitted.ok()) {
      EXPECT_EQ(submitted.code(), Code::kExists) << submitted.status().text();
      return;
    }
    note_deadline(submitted->id, not_before_ns, submitted->replaced);
    if (spec.payload.empty()) {
      mine->push_back(submitted->id);
    }
    if (waits) {
      EXPECT_TRUE(engine_->wait_durable(submitted->lsn).ok());
    }
  }
  void cancel(TaskId id) {
    const Code code = engine_->submit_cancel(id).status.code();
    if (code == Code::kCancelled) {
      const std::lock_guard lock(mutex_);
      EXPECT_FALSE(histories_[id.value].cancelled);
      histories_[id.value].cancelled = true;
    } else {
      EXPECT_TRUE(code == Code::kTooLate || code == Code::kNotFound);
    }
  }

  const std::uint64_t seed_;
  std::atomic<int> early_{0};
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, History> histories_;  // guarded by mutex_
  std::unique_ptr<Engine> engine_;
};

TEST(Stress, AnythingToAnythingAtOnce) {
  const char* given = std::getenv("COUNTWHEEL_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("COUNTWHEEL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Stress stress(seed);
  stress.run();
  stress.check();
}

}  // namespace
}  // namespace countwheel
