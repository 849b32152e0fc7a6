// Batch handlers: several due tasks in one call, each answered by itself.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/threaded_engine.h"

namespace countwheel::testing {
namespace {

using namespace std::chrono_literals;

// An engine with a batch handler that notes the keys of each call.
class Batches : public HostEngine {
 public:
  explicit Batches(TypePolicy policy = {}) {
    policy.retry = RetryPolicy::fixed(1s);
    EXPECT_TRUE(engine
                    ->on_batch(
                        "test", [this](std::span<Delivery> batch) { handle(batch); }, policy)
                    .ok());
    EXPECT_TRUE(engine->start().ok());
  }

  void handle(std::span<Delivery> batch) {
    std::vector<std::string>& keys = calls.emplace_back();
    for (const Delivery& delivery : batch) {
      keys.emplace_back(delivery.key());
    }
    answer(batch);
  }

  std::function<void(std::span<Delivery>)> answer = [](std::span<Delivery> batch) {
    for (Delivery& delivery : batch) {
      EXPECT_TRUE(delivery.done().ok());
    }
  };
  std::vector<std::vector<std::string>> calls;
};

TEST(Batch, WhatIsDueTogetherComesTogetherAndInOrder) {
  Batches host;
  for (int i = 0; i < 300; ++i) {
    host.schedule(after(1s), std::to_string(i));
  }
  host.advance(1s);
  int next = 0;
  std::size_t most = 0;
  for (const auto& keys : host.calls) {
    most = std::max(most, keys.size());
    for (const std::string& key : keys) {
      ASSERT_EQ(key, std::to_string(next++));
    }
  }
  EXPECT_EQ(next, 300);
  EXPECT_EQ(most, 64U);
  EXPECT_EQ(host.engine->stats().done, 300U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Batch, OneFailureRepeatsThatOneAlone) {
  Batches host;
  host.answer = [&](std::span<Delivery> batch) {
    for (Delivery& delivery : batch) {
      const bool fails = delivery.key() == "17" && delivery.attempt() == 1;
      EXPECT_TRUE((fails ? delivery.fail("once") : delivery.done()).ok());
    }
  };
  for (int i = 0; i < 32; ++i) {
    host.schedule(after(1s), std::to_string(i));
  }
  host.advance(1s);
  host.calls.clear();
  host.advance(1s);
  EXPECT_EQ(host.calls, (std::vector<std::vector<std::string>>{{"17"}}));
  EXPECT_EQ(host.engine->stats().done, 32U);
  EXPECT_EQ(host.engine->stats().started, 33U);
}

TEST(Batch, WhatTheHandlerLeavesUnansweredHasFailed) {
  Batches host;
  std::vector<Delivery> kept;
  host.answer = [&](std::span<Delivery> batch) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (i % 3 == 0) {
        EXPECT_TRUE(batch[i].done().ok());
      } else if (i % 3 == 1) {
        kept.push_back(std::move(batch[i]));
      }
    }
  };
  for (int i = 0; i < 3; ++i) {
    host.schedule(after(1s), std::to_string(i));
  }
  host.advance(1s);
  ASSERT_EQ(host.calls.front().size(), 3U);
  EXPECT_EQ(host.engine->stats().done, 1U);
  EXPECT_EQ(host.engine->stats().failed_attempts, 1U);
  EXPECT_EQ(host.engine->find("2")->last_error, "dropped without an answer");
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_TRUE(kept[0].done().ok());
  EXPECT_EQ(host.engine->stats().done, 2U);
  EXPECT_EQ(host.engine->stats().running, 0U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Batch, AnExceptionFailsWhatIsLeftWithItsText) {
  Batches host;
  host.answer = [](std::span<Delivery> batch) {
    EXPECT_TRUE(batch[0].done().ok());
    const Delivery local = std::move(batch[batch.size() - 1]);
    throw std::runtime_error("the database is away");
  };
  std::vector<TaskId> ids;
  for (int i = 0; i < 64; ++i) {
    ids.push_back(host.schedule(after(1s)));
  }
  host.advance(1s);
  ASSERT_GT(host.calls.size(), 0U);
  const Stats stats = host.engine->stats();
  EXPECT_EQ(stats.running, 0U);
  EXPECT_EQ(stats.done + stats.failed_attempts, 64U);
  std::size_t failed = 0;
  for (const TaskId id : ids) {
    if (const Result<TaskInfo> info = host.engine->find(id); info.ok()) {
      ++failed;
      EXPECT_EQ(info->last_error, "the database is away");
    }
  }
  EXPECT_EQ(failed, stats.failed_attempts);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Batch, ALimitGivesThemOneAtATimeAndASmallerBatchIsSmaller) {
  TypePolicy policy;
  policy.max_concurrent = 1;
  Batches one(policy);
  policy.max_concurrent = 0;
  policy.max_batch = 5;
  policy.lease = 1min;
  Batches five(policy);
  for (int i = 0; i < 40; ++i) {
    one.schedule(after(1s));
    five.schedule(after(1s));
  }
  one.advance(1s);
  five.advance(1s);
  EXPECT_EQ(one.calls.size(), 40U);
  EXPECT_EQ(five.calls.front().size(), 5U);
  EXPECT_EQ(five.engine->stats().done, 40U);
  policy.max_batch = 65;
  EXPECT_EQ(five.engine
                ->on_batch(
                    "x", [](std::span<Delivery>) {}, policy)
                .code(),
            Code::kOutOfRange);
}

TEST(MaxInFlight, HoldsBackWhatIsOverIt) {
  EngineOptions options;
  options.max_in_flight = 3;
  HostEngine host(options);
  std::vector<Delivery> kept;
  ASSERT_TRUE(host.engine->on("test", [&](Delivery d) { kept.push_back(std::move(d)); }).ok());
  ASSERT_TRUE(host.engine->start().ok());
  for (int i = 0; i < 10; ++i) {
    host.schedule(after(1s));
  }
  host.advance(1s);
  EXPECT_EQ(kept.size(), 3U);
  EXPECT_EQ(host.engine->stats().backlog, 7U);
  for (std::size_t answered = 0; answered < kept.size(); ++answered) {
    EXPECT_TRUE(kept[answered].done().ok());
    host.engine->poll();
    host.engine->poll();
    ASSERT_LE(kept.size() - answered - 1, 3U);
  }
  EXPECT_EQ(kept.size(), 10U);
  options.max_in_flight = 0;
  EXPECT_EQ(Engine::create(options).code(), Code::kInvalidArgument);
}

TEST(MaxInFlight, IsSharedByTheWorkers) {
  EngineOptions options;
  options.max_in_flight = 4;
  options.workers = 4;
  ThreadedEngine threaded(options);
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  std::atomic<bool> release{false};
  ASSERT_TRUE(threaded.engine
                  ->on("test",
                       [&](Delivery d) {
                         most = std::max(most.load(), ++running);
                         EXPECT_TRUE(eventually([&] { return release.load(); }));
                         --running;
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  for (int i = 0; i < 12; ++i) {
    ASSERT_TRUE(threaded.engine->submit({.type = "test"}).ok());
  }
  EXPECT_TRUE(eventually([&] { return running.load() == 4; }));
  release = true;
  EXPECT_TRUE(eventually([&] { return threaded.engine->stats().done == 12; }));
  EXPECT_EQ(most.load(), 4);
  EXPECT_TRUE(threaded.engine->stop().ok());
}

}  // namespace
}  // namespace countwheel::testing
