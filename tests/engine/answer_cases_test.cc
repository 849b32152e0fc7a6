// What an answer does to its own task, and what it leaves alone: the other tasks of the claim, a
// cancel that came too late, and the gauges.
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
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
using testing::eventually;
using testing::HostEngine;
using testing::MemoryLog;
using testing::ThreadedEngine;

constexpr std::size_t kBatch = 32;
constexpr std::size_t kFailing = 17;

enum class Failure { kFail, kThrow, kDrop };

// Counts the starts of each of the 32; the first of number 17 fails.
class Batch {
 public:
  explicit Batch(Failure failure) : failure_(failure) {}

  void handle(Delivery delivery) {
    const std::size_t number = std::stoul(std::string(delivery.payload()));
    {
      const std::lock_guard lock(mutex_);
      ++starts_.at(number);
    }
    if (number != kFailing || delivery.attempt() > 1) {
      EXPECT_TRUE(delivery.done().ok());
    } else if (failure_ == Failure::kFail) {
      EXPECT_TRUE(delivery.fail("not now").ok());
    } else if (failure_ == Failure::kThrow) {
      throw std::runtime_error("not now");
    }
  }
  void schedule(Engine& engine) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      const std::string payload = std::to_string(i);
      EXPECT_TRUE(
          engine.schedule({.type = "test", .deadline = after(1s), .payload = payload}).ok());
    }
  }
  static TypePolicy policy() {
    TypePolicy policy;
    policy.retry = RetryPolicy::fixed(10ms);
    return policy;
  }
  std::array<int, kBatch> starts() const {
    const std::lock_guard lock(mutex_);
    return starts_;
  }
  // Each once, number 17 so often.
  static std::array<int, kBatch> once_but(int failing) {
    std::array<int, kBatch> starts;
    starts.fill(1);
    starts[kFailing] = failing;
    return starts;
  }

 private:
  const Failure failure_;
  mutable std::mutex mutex_;
  std::array<int, kBatch> starts_ = {};  // guarded by mutex_
};

// 32 are handed over at once and #17 fails: the other 31 run exactly once, #17 again within 2
// ticks.
TEST(RecoveryCases, B58_OneFailureDoesNotRepeatTheOthers) {
  for (const Failure failure : {Failure::kFail, Failure::kThrow, Failure::kDrop}) {
    MemoryLog log;
    HostEngine host({}, nullptr, log.journal());
    Batch batch(failure);
    ASSERT_TRUE(host.engine
                    ->on(
                        "test", [&](Delivery d) { batch.handle(std::move(d)); }, Batch::policy())
                    .ok());
    ASSERT_TRUE(host.engine->start().ok());
    batch.schedule(*host.engine);
    EXPECT_EQ(host.advance(1s), 32U);
    EXPECT_EQ(batch.starts(), Batch::once_but(1));
    EXPECT_EQ(host.engine->stats().done, 31U);
    EXPECT_EQ(host.engine->stats().pending, 1U);
    host.advance(10ms);
    host.advance(10ms);
    EXPECT_EQ(batch.starts(), Batch::once_but(2));
    host.advance(1h);
    EXPECT_EQ(batch.starts(), Batch::once_but(2));
    EXPECT_EQ(host.engine->stats().done, 32U);
    EXPECT_EQ(host.engine->check_invariants(), "");
  }
}

// The same of workers, that take up to 8 tasks at a time.
TEST(RecoveryCases, B58_OneFailureDoesNotRepeatTheOthersOfAClaim) {
  ThreadedEngine threaded;
  Batch batch(Failure::kThrow);
  ASSERT_TRUE(threaded.engine
                  ->on(
                      "test", [&](Delivery d) { batch.handle(std::move(d)); }, Batch::policy())
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  batch.schedule(*threaded.engine);
  threaded.clock.advance(1s);
  ASSERT_TRUE(eventually([&] { return threaded.engine->stats().done == 31; }));
  ASSERT_TRUE(eventually([&] { return threaded.engine->stats().failed_attempts == 1; }));
  EXPECT_EQ(batch.starts(), Batch::once_but(1));
  threaded.clock.advance(20ms);
  ASSERT_TRUE(threaded.wait_idle());
  EXPECT_EQ(batch.starts(), Batch::once_but(2));
}

// A crash behind the failure repeats none of the others either: their ends are written one by one.
TEST(RecoveryCases, B58_ACrashAfterTheFailureLeavesOnlyTheFailedTask) {
  MemoryLog log;
  HostEngine host({}, nullptr, log.journal());
  Batch batch(Failure::kFail);
  ASSERT_TRUE(host.engine
                  ->on(
                      "test", [&](Delivery d) { batch.handle(std::move(d)); }, Batch::policy())
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  batch.schedule(*host.engine);
  host.advance(1s);
  ASSERT_TRUE(host.engine->flush().ok());
  const std::unique_ptr<MemoryLog> image = log.killed();
  InlineExecutor executor;
  EngineOptions options;
  options.drive = Drive::kHost;
  Result<testing::Recovered> recovered = testing::recover(*image, options, &host.clock, &executor);
  ASSERT_TRUE(recovered.ok()) << recovered.status().text();
  const std::vector<TaskInfo> left = recovered->engine->list(TaskId{}, 100);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].payload, "17");
  EXPECT_EQ(left[0].failures, 1U);
}

// The handler runs 1 s, the cancel comes at 0.5 s: it is told so, and so is the handler.
TEST(ApiCases, B79_ACancelOfARunningTaskSaysSo) {
  HostEngine host;
  std::vector<Delivery> running;
  ASSERT_TRUE(host.engine->on("test", [&](Delivery d) { running.push_back(std::move(d)); }).ok());
  ASSERT_TRUE(host.engine->start().ok());
  const TaskId id = host.schedule(after(0s), "order");
  host.engine->poll();
  ASSERT_EQ(running.size(), 1U);
  EXPECT_FALSE(running[0].cancel_requested());
  host.advance(500ms);
  EXPECT_EQ(host.engine->cancel(id).status.code(), Code::kTooLate);
  EXPECT_TRUE(running[0].cancel_requested());
  EXPECT_EQ(host.engine->cancel("order").status.code(), Code::kTooLate);  // and again
  EXPECT_EQ(host.engine->find(id)->state, State::kRunning);
  host.advance(500ms);
  EXPECT_TRUE(running[0].done().ok());
  host.advance(1h);
  const Stats stats = host.engine->stats();
  EXPECT_EQ(running.size(), 1U);
  EXPECT_EQ(stats.done, 1U);
  EXPECT_EQ(stats.cancelled, 0U);
  EXPECT_EQ(stats.pending, 0U);
  EXPECT_EQ(host.engine->cancel(id).status.code(), Code::kNotFound);
}

// As signed numbers: below zero is what the report is about.
std::array<std::int64_t, 8> gauges_of(const Stats& stats) {
  return {static_cast<std::int64_t>(stats.pending),
          static_cast<std::int64_t>(stats.running),
          static_cast<std::int64_t>(stats.pending_bytes),
          static_cast<std::int64_t>(stats.backlog),
          static_cast<std::int64_t>(stats.parked),
          static_cast<std::int64_t>(stats.dead),
          static_cast<std::int64_t>(stats.stuck),
          static_cast<std::int64_t>(stats.durable_lag)};
}

void expect_not_negative(const Engine& engine) {
  for (const std::int64_t gauge : gauges_of(engine.stats())) {
    ASSERT_GE(gauge, 0);
  }
}

TEST(ApiCases, B77_GaugesAreNeverNegativeAndReturnToZero) {
  HostEngine host;
  host.run();
  std::vector<TaskId> ids;
  for (int i = 0; i < 10'000; ++i) {
    ids.push_back(host.schedule(after(3ms + 200ns * i), "k" + std::to_string(i), "payload"));
    if (i % 100 == 0) {
      ASSERT_NO_FATAL_FAILURE(expect_not_negative(*host.engine));
    }
  }
  const std::array<std::int64_t, 8> before = gauges_of(host.engine->stats());
  for (std::uint32_t i = 0; i < 1000; ++i) {
    const TaskId unknown = TaskId::of(ids[i].index(), ids[i].generation() + 7);
    EXPECT_EQ(host.engine->submit_cancel(unknown).status.code(), Code::kNotFound);
    EXPECT_EQ(host.engine->submit_cancel("nobody" + std::to_string(i)).status.code(),
              Code::kNotFound);
  }
  EXPECT_EQ(gauges_of(host.engine->stats()), before);  // unknown cancels change nothing
  for (std::size_t i = 0; i < 1000; ++i) {
    EXPECT_TRUE(host.engine->submit_cancel(ids[i * 10]));
    EXPECT_FALSE(host.engine->submit_cancel(ids[i * 10]));
    ASSERT_NO_FATAL_FAILURE(expect_not_negative(*host.engine));
  }
  EXPECT_EQ(host.engine->stats().cancelled, 1000U);
  for (int i = 0; i < 60; ++i) {
    host.advance(100us);
    ASSERT_NO_FATAL_FAILURE(expect_not_negative(*host.engine));
  }
  EXPECT_EQ(host.started.size(), 9000U);
  EXPECT_TRUE(host.engine->flush().ok());
  EXPECT_EQ(gauges_of(host.engine->stats()), (std::array<std::int64_t, 8>{}));
}

// The same while handlers run and somebody looks at every moment.
TEST(ApiCases, B77_GaugesAreNeverNegativeWhileWorkersRun) {
  ThreadedEngine threaded;
  threaded.run();
  std::vector<TaskId> ids(10'000);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Result<Submitted> submitted = threaded.engine->submit(
        {.type = "test", .deadline = after(3ms + 200ns * static_cast<std::int64_t>(i))});
    ASSERT_TRUE(submitted.ok());
    ids[i] = submitted->id;
  }
  ASSERT_TRUE(threaded.engine->flush().ok());
  std::uint64_t cancelled = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    threaded.clock.advance(5us);
    cancelled += threaded.engine->submit_cancel(ids[i * 10]) ? 1U : 0U;
    EXPECT_FALSE(threaded.engine->submit_cancel(ids[i * 10]));
    ASSERT_NO_FATAL_FAILURE(expect_not_negative(*threaded.engine));
  }
  threaded.clock.advance(5ms);
  ASSERT_TRUE(threaded.wait_idle());
  ASSERT_TRUE(threaded.engine->flush().ok());
  EXPECT_EQ(threaded.start_count(), 10'000 - cancelled);
  EXPECT_EQ(gauges_of(threaded.engine->stats()), (std::array<std::int64_t, 8>{}));
}

}  // namespace
}  // namespace countwheel
