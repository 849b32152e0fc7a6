// What stats() adds up to, and how its histograms round.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::HostEngine;

void expect_conserved(const Engine& engine) {
  const Stats stats = engine.stats();
  ASSERT_EQ(stats.scheduled,
            stats.done + stats.cancelled + stats.dead + stats.replaced + stats.pending);
  // A term that went below zero would be huge.
  for (const std::uint64_t term : {stats.done,
                                   stats.cancelled,
                                   stats.dead,
                                   stats.replaced,
                                   stats.pending,
                                   stats.running,
                                   stats.pending_bytes,
                                   stats.backlog,
                                   stats.parked,
                                   stats.durable_lag}) {
    ASSERT_LT(term, std::uint64_t{1} << 40);
  }
}

// A host whose handlers answer at random, or later.
class RandomHistory {
 public:
  explicit RandomHistory(std::uint64_t seed) : random_(seed) {
    TypePolicy policy;
    policy.retry = RetryPolicy::fixed(1s);
    policy.retry.max_attempts = 2;
    EXPECT_TRUE(host_.engine
                    ->on(
                        "test", [this](Delivery d) { handle(std::move(d)); }, policy)
                    .ok());
    EXPECT_TRUE(host_.engine->start().ok());
  }

  Engine& engine() { return *host_.engine; }

  void do_something() {
    const std::string key = "k" + std::to_string(random_() % 20);
    const Deadline deadline = after(1ms * (random_() % 5000));
    TaskSpec spec{.type = "test", .deadline = deadline, .key = key};
    if (random_() % 4 == 0) {
      spec.key = {};
    }
    switch (random_() % 8) {
      case 0:
      case 1:
        (void)engine().submit(spec);
        break;
      case 2:
        spec.key_policy = KeyPolicy::kReplace;
        (void)engine().submit(spec);
        break;
      case 3:
        (void)engine().submit_cancel(key);
        break;
      case 4:
        (void)engine().submit_reschedule(key, deadline);
        break;
      case 5:
        answer_late();
        break;
      default:
        host_.advance(1ms * (random_() % 500));
        break;
    }
  }
  void end_all() {
    for (int i = 0; i < 100; ++i) {
      kept_.clear();
      host_.advance(10s);
    }
  }

 private:
  void handle(Delivery delivery) {
    switch (random_() % 5) {
      case 0:
        (void)delivery.done();
        break;
      case 1:
        (void)delivery.fail("no");
        break;
      case 2:
        (void)delivery.retry(2s);
        break;
      case 3:
        kept_.push_back(std::move(delivery));
        break;
      default:
        break;  // dropped
    }
  }
  void answer_late() {
    if (!kept_.empty()) {
      (void)(random_() % 2 == 0 ? kept_.back().done() : kept_.back().fail("later"));
      kept_.pop_back();
    }
  }

  std::mt19937_64 random_;
  HostEngine host_;
  std::vector<Delivery> kept_;
};

TEST(Conservation, HoldsAfterEveryCallOfALongHistory) {
  const char* given = std::getenv("COUNTWHEEL_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 30;
  SCOPED_TRACE("COUNTWHEEL_SEED=" + std::to_string(seed));
  RandomHistory history(seed);
  for (int i = 0; i < 5000; ++i) {
    history.do_something();
    ASSERT_NO_FATAL_FAILURE(expect_conserved(history.engine())) << i;
    if (i % 50 == 0) {
      ASSERT_EQ(history.engine().check_invariants(), "") << i;
    }
  }
  history.end_all();
  const Stats stats = history.engine().stats();
  EXPECT_EQ(stats.pending, 0U);
  EXPECT_EQ(stats.pending_bytes, 0U);
  EXPECT_EQ(stats.running, 0U);
  EXPECT_GT(stats.done, 0U);
  EXPECT_GT(stats.dead, 0U);
  EXPECT_GT(stats.cancelled, 0U);
  EXPECT_GT(stats.replaced, 0U);
  expect_conserved(history.engine());
  EXPECT_EQ(history.engine().check_invariants(), "");
}

TEST(Conservation, CountsOfTheHandOver) {
  HostEngine host;
  host.run();
  for (int i = 0; i < 10; ++i) {
    host.schedule(after(1ms * i));
  }
  host.advance(9ms);
  const Stats stats = host.engine->stats();
  EXPECT_EQ(stats.handed_over, 10U);
  EXPECT_EQ(stats.started, 10U);
  EXPECT_EQ(stats.lateness_ns.count(), 10U);
  EXPECT_EQ(stats.lateness_ns_max, 9'000'000);
  EXPECT_EQ(stats.lateness_ns.max(), 9'000'000U);
  EXPECT_EQ(stats.pending, 0U);
}

TEST(Conservation, CountsOfTheGroupCommit) {
  HostEngine host;
  host.run();
  ASSERT_TRUE(host.engine->flush().ok());
  const Stats before = host.engine->stats();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(host.engine->submit({.type = "test", .deadline = after(1h)}));
  }
  EXPECT_EQ(host.engine->stats().durable_lag, 100U);
  ASSERT_TRUE(host.engine->flush().ok());
  const Stats after_commit = host.engine->stats();
  EXPECT_EQ(after_commit.durable_lag, 0U);
  EXPECT_EQ(after_commit.ops - before.ops, 100U);
  EXPECT_EQ(after_commit.commits - before.commits, 1U);
  EXPECT_EQ(after_commit.batch_ops.count() - before.batch_ops.count(), 1U);
  EXPECT_EQ(after_commit.batch_ops.max(), 100U);
  EXPECT_EQ(after_commit.written_lsn, after_commit.next_lsn - 1);
  EXPECT_EQ(after_commit.synced_lsn, after_commit.written_lsn);
  EXPECT_GT(after_commit.sync_ns.count(), 0U);
}

TEST(Histogram, QuantilesAreWithinAnEighth) {
  Histogram histogram;
  EXPECT_EQ(histogram.quantile(0.5), 0U);
  for (std::uint64_t value = 1; value <= 100'000; ++value) {
    histogram.add(value);
  }
  EXPECT_EQ(histogram.count(), 100'000U);
  EXPECT_EQ(histogram.max(), 100'000U);
  for (const double q : {0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const double exact = q * 100'000;
    EXPECT_GE(static_cast<double>(histogram.quantile(q)), exact * 0.999) << q;
    EXPECT_LE(static_cast<double>(histogram.quantile(q)), exact * 1.126) << q;
  }
}

TEST(Histogram, TakesTheWholeRangeAndMerges) {
  Histogram one;
  one.add(0);
  one.add(~std::uint64_t{0});
  EXPECT_EQ(one.count(), 2U);
  EXPECT_EQ(one.max(), ~std::uint64_t{0});
  Histogram other;
  other.add(1000, 98);
  other.merge(one);
  EXPECT_EQ(other.count(), 100U);
  EXPECT_EQ(other.max(), ~std::uint64_t{0});
  EXPECT_GE(other.quantile(0.5), 1000U);
  EXPECT_LE(other.quantile(0.5), 1125U);
  EXPECT_EQ(other.quantile(0.001), 0U);
}

}  // namespace
}  // namespace countwheel
