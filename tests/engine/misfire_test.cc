// What fell due while no process had the log.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/memory_log.h"
#include "testing/restarted.h"

namespace countwheel::testing {
namespace {

using namespace std::chrono_literals;

// 100 tasks, one a minute, and a process that is away from the first to the last of them.
class Away {
 public:
  explicit Away(TypePolicy policy) {
    HostEngine before({}, nullptr, log_.journal());
    before.run();
    for (int i = 1; i <= 100; ++i) {
      before.schedule(after(i * 1min), std::to_string(i));
    }
    restarted_ = std::make_unique<Restarted>(log_, before.clock, 100min);
    EXPECT_EQ(restarted_->summary.overdue, 100U);
    clock = &restarted_->clock;
    engine = std::move(restarted_->engine);
    EXPECT_TRUE(engine
                    ->on(
                        "test",
                        [this](Delivery d) {
                          started.emplace_back(std::stoi(std::string(d.key())),
                                               clock->now().boot_ns - began_ns);
                          EXPECT_TRUE(d.done().ok());
                        },
                        policy)
                    .ok());
    began_ns = clock->now().boot_ns;
    EXPECT_TRUE(engine->start().ok());
    engine->poll();
  }

 private:
  MemoryLog log_;
  std::unique_ptr<Restarted> restarted_;

 public:
  ManualClock* clock = nullptr;
  std::int64_t began_ns = 0;
  std::vector<std::pair<int, std::int64_t>> started;  // key, ns since the start
  std::unique_ptr<Engine> engine;
};

TEST(Misfire, ByDefaultAllRunAtOnceInOrder) {
  const Away away({});
  ASSERT_EQ(away.started.size(), 100U);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(away.started[static_cast<std::size_t>(i)].first, i + 1);
  }
}

TEST(Misfire, ThoseThatAreOlderAreDropped) {
  TypePolicy policy;
  policy.misfire = MisfirePolicy::drop(30min);
  const Away away(policy);
  ASSERT_EQ(away.started.size(), 31U);
  EXPECT_EQ(away.started.front().first, 70);
  EXPECT_EQ(away.engine->stats().cancelled, 69U);
  EXPECT_EQ(away.engine->stats().pending, 0U);
}

TEST(Misfire, ThoseThatAreOlderAreBuried) {
  TypePolicy policy;
  policy.misfire = MisfirePolicy::bury(30min);
  const Away away(policy);
  EXPECT_EQ(away.started.size(), 31U);
  EXPECT_EQ(away.engine->stats().dead, 69U);
  const std::vector<TaskInfo> letters = away.engine->dead_letters(TaskId{}, 1);
  ASSERT_EQ(letters.size(), 1U);
  EXPECT_EQ(letters[0].dead_reason, DeadReason::kMissed);
  EXPECT_EQ(to_string(DeadReason::kMissed), "missed");
}

TEST(Misfire, ThoseThatAreSpreadStartEvenlyAndNobodyWaitsBehindThem) {
  TypePolicy policy;
  policy.misfire = MisfirePolicy::spread(100s);
  Away away(policy);
  EXPECT_EQ(away.started.size(), 1U);
  EXPECT_EQ(away.engine->stats().backlog, 99U);
  EXPECT_EQ(away.engine->next_wake().boot_ns, away.began_ns + (1s / 1ns));
  ASSERT_TRUE(
      away.engine->schedule({.type = "test", .deadline = after(500ms), .key = "1000"}).ok());
  ASSERT_TRUE(away.engine->cancel("50"));
  for (int i = 0; i < 200; ++i) {
    away.clock->advance(500ms);
    away.engine->poll();
  }
  ASSERT_EQ(away.started.size(), 100U);
  EXPECT_EQ(away.started[1], (std::pair<int, std::int64_t>{1000, 500ms / 1ns}));
  for (std::size_t i = 2; i < away.started.size(); ++i) {
    const int key = away.started[i].first;
    EXPECT_GT(key, away.started[i - 2].first % 1000);
    EXPECT_EQ(away.started[i].second, (key - 1) * (1s / 1ns));
  }
  EXPECT_EQ(away.engine->stats().pending, 0U);
}

TEST(Misfire, WhatIsScheduledIntoThePastWasNotMissed) {
  TypePolicy policy;
  policy.misfire = MisfirePolicy::drop(0s);
  HostEngine host;
  host.run(policy);
  host.schedule(after(-1h));
  host.advance(1s);
  EXPECT_EQ(host.started.size(), 1U);
  policy.misfire = MisfirePolicy::drop(-1s);
  EXPECT_EQ(host.engine
                ->on(
                    "x", [](Delivery) {}, policy)
                .code(),
            Code::kOutOfRange);
}

}  // namespace
}  // namespace countwheel::testing
