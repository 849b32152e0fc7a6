// What a handler is given, and every way to answer: at once, later, elsewhere, twice or never.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
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
using std::chrono::nanoseconds;
using testing::eventually;
using testing::HostEngine;
using testing::MemoryLog;
using testing::ThreadedEngine;

// One task of type "test" at `deadline`, handled by `handler`, one attempt a second.
class DeliveryTest : public ::testing::Test {
 protected:
  void handle(Handler handler) {
    TypePolicy policy;
    policy.retry = RetryPolicy::fixed(1s);
    policy.retry.max_attempts = 3;
    ASSERT_TRUE(host_.engine->on("test", std::move(handler), policy).ok());
    ASSERT_TRUE(host_.engine->start().ok());
  }
  TaskId run_one() {
    const TaskId id = host_.schedule(after(0s), "K", "P");
    host_.engine->poll();
    return id;
  }
  void expect_failed_once(TaskId id, std::string_view text) {
    const Result<TaskInfo> info = host_.engine->find(id);
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->state, State::kScheduled);
    EXPECT_EQ(info->failures, 1U);
    EXPECT_EQ(info->last_error, text);
    EXPECT_EQ(host_.engine->stats().failed_attempts, 1U);
    EXPECT_EQ(host_.engine->stats().running, 0U);
    EXPECT_EQ(host_.engine->check_invariants(), "");
  }

  HostEngine host_;
};

TEST_F(DeliveryTest, SaysWhatItIs) {
  const std::string payload(1000, 'p');
  const WallTime start(nanoseconds(host_.clock.now().wall_ns));
  std::vector<FencingToken> tokens;
  handle([&](Delivery d) {
    EXPECT_EQ(d.type(), "test");
    EXPECT_EQ(d.key(), "the key");
    EXPECT_EQ(d.payload(), payload);
    EXPECT_EQ(d.attempt(), tokens.size() + 1);
    EXPECT_EQ(d.fencing_token().attempt, d.attempt());
    EXPECT_EQ(d.sequence(), tokens.size() + 1);
    EXPECT_FALSE(d.overdue());
    EXPECT_FALSE(d.cancel_requested());
    EXPECT_EQ(d.deadline(), tokens.empty() ? start + 5s : start + 7s + 1s);
    EXPECT_EQ(d.lateness(), 2s - 2s * tokens.size());
    tokens.push_back(d.fencing_token());
    EXPECT_TRUE(d.fail("again").ok());
  });
  host_.schedule(after(5s), "the key", payload);
  host_.advance(7s);
  host_.advance(1s);
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_LT(tokens[0], tokens[1]);
  EXPECT_GE(tokens[0].epoch, 1U);
}

TEST_F(DeliveryTest, KeptAndAnsweredLater) {
  std::optional<Delivery> kept;
  handle([&](Delivery d) { kept.emplace(std::move(d)); });
  const TaskId id = run_one();
  ASSERT_TRUE(kept.has_value());
  for (int i = 0; i < 10; ++i) {
    host_.advance(1h);
  }
  EXPECT_EQ(host_.engine->stats().running, 1U);
  EXPECT_EQ(host_.engine->find(id)->state, State::kRunning);
  EXPECT_EQ(kept->payload(), "P");
  EXPECT_TRUE(kept->done().ok());
  EXPECT_EQ(host_.engine->stats().done, 1U);
  EXPECT_EQ(host_.engine->stats().running, 0U);
  EXPECT_EQ(host_.engine->find(id).code(), Code::kNotFound);
}

TEST_F(DeliveryTest, AnsweredInTheHandlerOfAnother) {
  std::optional<Delivery> kept;
  handle([&](Delivery d) {
    if (!kept) {
      kept.emplace(std::move(d));
      return;
    }
    EXPECT_TRUE(kept->done().ok());
    EXPECT_TRUE(d.fail("not this one").ok());
  });
  const TaskId first = run_one();
  const TaskId second = host_.schedule(after(0s), "other");
  host_.engine->poll();
  EXPECT_EQ(host_.engine->find(first).code(), Code::kNotFound);
  EXPECT_EQ(host_.engine->find(second)->failures, 1U);
}

TEST_F(DeliveryTest, TheSecondAnswerIsStale) {
  handle([&](Delivery d) {
    EXPECT_TRUE(d.done().ok());
    EXPECT_EQ(d.done().code(), Code::kStaleLease);
    EXPECT_EQ(d.fail("too late").code(), Code::kStaleLease);
    EXPECT_EQ(d.retry(1s).code(), Code::kStaleLease);
  });
  run_one();
  EXPECT_EQ(host_.engine->stats().done, 1U);
  EXPECT_EQ(host_.engine->stats().failed_attempts, 0U);
}

TEST_F(DeliveryTest, DroppedIsAFailedAttempt) {
  handle([](Delivery) {});
  expect_failed_once(run_one(), "dropped without an answer");
}

TEST_F(DeliveryTest, DroppedLaterIsAFailedAttempt) {
  std::optional<Delivery> kept;
  handle([&](Delivery d) { kept.emplace(std::move(d)); });
  const TaskId id = run_one();
  kept.reset();
  expect_failed_once(id, "dropped without an answer");
}

TEST_F(DeliveryTest, AssignedOverIsDropped) {
  std::vector<Delivery> kept;
  handle([&](Delivery d) { kept.push_back(std::move(d)); });
  const TaskId first = run_one();
  const TaskId second = host_.schedule(after(0s));
  host_.engine->poll();
  ASSERT_EQ(kept.size(), 2U);
  kept[0] = std::move(kept[1]);
  EXPECT_EQ(host_.engine->find(first)->failures, 1U);
  EXPECT_EQ(kept[0].id(), second);
  EXPECT_TRUE(kept[0].done().ok());
}

TEST_F(DeliveryTest, ThrownWithoutAWordIsAFailedAttempt) {
  handle([](Delivery) { throw std::runtime_error(""); });
  expect_failed_once(run_one(), "");
}

TEST_F(DeliveryTest, ThrownAndCaughtByTheHandlerIsAFailedAttempt) {
  handle([](Delivery d) {
    try {
      const Delivery inner = std::move(d);
      throw std::runtime_error("inner");
    } catch (const std::exception&) {
      // The handler thinks all is well; its delivery is gone.
    }
  });
  const TaskId id = run_one();
  EXPECT_EQ(host_.engine->find(id)->state, State::kScheduled);
  EXPECT_EQ(host_.engine->find(id)->failures, 1U);
  EXPECT_EQ(host_.engine->stats().running, 0U);
}

TEST_F(DeliveryTest, ThrownAfterTheAnswerChangesNothing) {
  handle([](Delivery d) {
    EXPECT_TRUE(d.done().ok());
    throw std::runtime_error("late");
  });
  const TaskId id = run_one();
  EXPECT_EQ(host_.engine->find(id).code(), Code::kNotFound);
  EXPECT_EQ(host_.engine->stats().done, 1U);
  EXPECT_EQ(host_.engine->stats().failed_attempts, 0U);
}

TEST_F(DeliveryTest, ThrownAfterItWasGivenAwayChangesNothing) {
  std::optional<Delivery> kept;
  handle([&](Delivery d) {
    kept.emplace(std::move(d));
    throw std::runtime_error("not mine any more");
  });
  const TaskId id = run_one();
  EXPECT_EQ(host_.engine->find(id)->state, State::kRunning);
  EXPECT_TRUE(kept->done().ok());
  EXPECT_EQ(host_.engine->stats().done, 1U);
}

TEST_F(DeliveryTest, ErrorTextsAreShortAndPrintable) {
  const std::string text = "a\nb\tc\x7f" + std::string("\0", 1) + std::string(1000, 'x');
  handle([&](Delivery d) { EXPECT_TRUE(d.fail(text).ok()); });
  const TaskId id = run_one();
  const std::string kept = host_.engine->find(id)->last_error;
  EXPECT_EQ(kept.size(), 512U);
  EXPECT_EQ(kept.substr(0, 8), "a?b?c??x");
}

TEST(DeliveryThreads, AnsweredByAnotherThreadWhileHandlersRun) {
  ThreadedEngine threaded;
  std::mutex mutex;
  std::vector<Delivery> kept;
  ASSERT_TRUE(threaded.engine
                  ->on("test",
                       [&](Delivery d) {
                         if (d.sequence() % 2 == 0) {
                           EXPECT_TRUE(d.done().ok());
                           return;
                         }
                         const std::lock_guard lock(mutex);
                         kept.push_back(std::move(d));
                       })
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  constexpr std::uint64_t kTasks = 2000;
  for (std::uint64_t i = 0; i < kTasks; ++i) {
    ASSERT_TRUE(threaded.engine->submit({.type = "test", .deadline = after(0s)}));
  }
  std::thread answers([&] {
    std::uint64_t answered = 0;
    EXPECT_TRUE(eventually([&] {
      std::vector<Delivery> taken;
      {
        const std::lock_guard lock(mutex);
        taken.swap(kept);
      }
      for (Delivery& delivery : taken) {
        EXPECT_TRUE(delivery.done().ok());
        ++answered;
      }
      return answered == kTasks / 2;
    }));
  });
  answers.join();
  EXPECT_TRUE(threaded.wait_idle());
  EXPECT_EQ(threaded.engine->stats().done, kTasks);
  EXPECT_EQ(threaded.engine->check_invariants(), "");
}

TEST(DeliveryThreads, AnAnswerAfterTheStopIsRefusedAndTheTaskComesBack) {
  MemoryLog log;
  std::optional<Delivery> kept;
  TaskId id;
  {
    ThreadedEngine threaded({}, log.journal());
    std::atomic<bool> has{false};
    ASSERT_TRUE(threaded.engine
                    ->on("test",
                         [&](Delivery d) {
                           kept.emplace(std::move(d));
                           has = true;
                         })
                    .ok());
    ASSERT_TRUE(threaded.engine->start().ok());
    id = threaded.schedule(after(0s));
    ASSERT_TRUE(eventually([&] { return has.load(); }));
    const Status stopped = threaded.engine->stop(1ms);
    EXPECT_EQ(stopped.code(), Code::kTimedOut);
    EXPECT_NE(stopped.text().find(std::to_string(id.value)), std::string::npos);
    EXPECT_EQ(kept->done().code(), Code::kStopped);
    kept.reset();
  }
  ManualClock clock;
  InlineExecutor executor;
  EngineOptions options;
  options.drive = Drive::kHost;
  Result<testing::Recovered> recovered = testing::recover(log, options, &clock, &executor);
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered->summary.redelivered, 1U);
  std::uint32_t attempt = 0;
  ASSERT_TRUE(recovered->engine
                  ->on("test",
                       [&](Delivery d) {
                         EXPECT_EQ(d.id(), id);
                         attempt = d.attempt();
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(recovered->engine->start().ok());
  recovered->engine->poll();
  EXPECT_EQ(attempt, 2U);
}

}  // namespace
}  // namespace countwheel
