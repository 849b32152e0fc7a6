// Groups from several threads at once, on a real clock: sessions that come, trade and go.
#include <array>
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
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/threaded_engine.h"

namespace countwheel::testing {
namespace {

using namespace std::chrono_literals;

constexpr unsigned kSessions = 3;
constexpr int kRounds = 30;
constexpr int kOrders = 120;

class Sessions {
 public:
  explicit Sessions(std::uint64_t seed) : seed_(seed) {
    engine_ = std::move(*Engine::create({}));
    EXPECT_TRUE(engine_->on("test", [this](Delivery d) { handle(std::move(d)); }).ok());
    EXPECT_TRUE(engine_->start().ok());
  }

  void run() {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kSessions; ++i) {
      threads.emplace_back([this, i] { trade(i); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_TRUE(eventually([&] { return engine_->stats().pending == 0; }));
    const Stats stats = engine_->stats();
    EXPECT_EQ(stats.scheduled, stats.done + stats.cancelled + stats.replaced);
    EXPECT_EQ(stats.done, starts_.load());
    EXPECT_EQ(late_starts_.load(), 0U);
    EXPECT_GT(stats.cancelled, 0U);
    EXPECT_GT(stats.done, 0U);
    EXPECT_EQ(engine_->check_invariants(), "");
    EXPECT_TRUE(engine_->stop().ok());
  }

 private:
  // A handler of a round that is over, to which nothing was scheduled since, must not start.
  void handle(Delivery delivery) {
    const std::size_t round = std::stoul(std::string(delivery.payload()));
    late_starts_ += over_[round].load() ? 1U : 0U;
    ++starts_;
    EXPECT_TRUE(delivery.done().ok());
  }

  void trade(unsigned session) {
    std::mt19937_64 random(seed_ + session);
    for (int i = 0; i < kRounds; ++i) {
      const std::size_t round = session * kRounds + static_cast<std::size_t>(i);
      const std::uint64_t group = session + 1;
      const std::string payload = std::to_string(round);
      std::vector<TaskId> orders;
      for (int order = 0; order < kOrders; ++order) {
        const std::string key = payload + "-" + std::to_string(random() % 100);
        const Result<Submitted> submitted =
            engine_->submit({.type = "test",
                             .deadline = after(std::chrono::microseconds(random() % 4000)),
                             .key = random() % 2 == 0 ? std::string_view(key) : std::string_view(),
                             .payload = payload,
                             .key_policy = KeyPolicy::kReplace,
                             .group = group});
        ASSERT_TRUE(submitted.ok()) << submitted.status().text();
        orders.push_back(submitted->id);
        if (random() % 8 == 0) {
          const TaskId id = orders[random() % orders.size()];
          (void)engine_->submit_reschedule(id, after(std::chrono::microseconds(random() % 4000)));
        }
        if (random() % 4 == 0) {
          const TaskId id = orders[random() % orders.size()];
          (void)engine_->submit_touch(id, after(std::chrono::microseconds(random() % 6000)));
        }
        if (random() % 8 == 0) {
          (void)engine_->submit_cancel(orders[random() % orders.size()]);
        }
        if (random() % 40 == 0) {
          (void)engine_->submit_reschedule_group(group, after(500us));
        }
      }
      if (random() % 4 == 0) {
        EXPECT_TRUE(engine_->pause_group(group).ok());
        EXPECT_TRUE(engine_->resume_group(group).ok());
      }
      if (random() % 4 == 0) {
        (void)engine_->submit_expire_group(group);
      }
      const GroupChange change = engine_->cancel_group(group);
      EXPECT_TRUE(change.status.ok() || change.status.code() == Code::kNotFound);
      // Those that ran when the call came are its members until they have ended.
      EXPECT_TRUE(eventually([&] { return engine_->group_count(group) == 0; }));
      over_[round].store(true);
    }
  }

  const std::uint64_t seed_;
  std::array<std::atomic<bool>, std::size_t{kSessions}* kRounds> over_ = {};
  std::atomic<std::uint64_t> starts_{0};
  std::atomic<std::uint64_t> late_starts_{0};
  std::unique_ptr<Engine> engine_;
};

TEST(GroupThreads, NothingOfAClosedSessionStarts) {
  const char* given = std::getenv("COUNTWHEEL_SEED");
  const std::uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("COUNTWHEEL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  Sessions sessions(seed);
  sessions.run();
}

}  // namespace
}  // namespace countwheel::testing
