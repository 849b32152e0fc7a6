// Every way a handler can let go of its delivery ends the attempt, once.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::HostEngine;

class LettingGo : public ::testing::Test {
 protected:
  // Runs one task with `handler`, which fails, and answers its last error.
  std::string last_error(Handler handler) {
    TypePolicy policy;
    policy.retry = RetryPolicy::fixed(1h);
    EXPECT_TRUE(host_.engine->on("test", std::move(handler), policy).ok());
    EXPECT_TRUE(host_.engine->start().ok());
    const TaskId id = host_.schedule(after(1ms));
    host_.advance(1ms);
    const Result<TaskInfo> task = host_.engine->find(id);
    EXPECT_TRUE(task.ok());
    EXPECT_EQ(task->state, State::kScheduled) << "the attempt has not ended";
    EXPECT_EQ(task->failures, 1U);
    EXPECT_EQ(host_.engine->stats().running, 0U);
    EXPECT_EQ(host_.engine->check_invariants(), "");
    return task->last_error;
  }

  HostEngine host_;
};

TEST_F(LettingGo, ByAnExceptionWithoutAText) {
  EXPECT_EQ(last_error([](const Delivery&) { throw std::runtime_error(""); }), "");
}

TEST_F(LettingGo, ByAnExceptionThatTheHandlerCaughtItself) {
  const std::string error = last_error([](Delivery d) {
    try {
      const Delivery mine = std::move(d);
      throw std::runtime_error("lost");
    } catch (const std::runtime_error&) {
    }
  });
  EXPECT_NE(error, "");
}

TEST_F(LettingGo, ByDroppingIt) {
  EXPECT_NE(last_error([](const Delivery&) {}), "");
}

TEST_F(LettingGo, ToAnotherThreadAndThrowingAfterwards) {
  std::optional<Delivery> held;
  ASSERT_TRUE(host_.engine
                  ->on("test",
                       [&](Delivery d) {
                         held.emplace(std::move(d));
                         throw std::runtime_error("no business of the attempt");
                       })
                  .ok());
  ASSERT_TRUE(host_.engine->start().ok());
  const TaskId id = host_.schedule(after(1ms));
  host_.advance(1ms);
  EXPECT_EQ(host_.engine->find(id)->state, State::kRunning);
  std::thread([&] { EXPECT_TRUE(held->done().ok()); }).join();
  EXPECT_EQ(host_.engine->stats().done, 1U);
}

TEST_F(LettingGo, WithThreadsAnEngineGoesOnlyAfterTheLastAnswerHasReturned) {
  for (int round = 0; round < 200; ++round) {
    std::thread answerer;
    {
      Result<std::unique_ptr<Engine>> engine = Engine::create({});
      ASSERT_TRUE(engine.ok());
      std::atomic<bool> given{false};
      ASSERT_TRUE((*engine)
                      ->on("test",
                           [&](Delivery d) {
                             answerer = std::thread(
                                 [mine = std::move(d)]() mutable { (void)mine.done(); });
                             given = true;
                           })
                      .ok());
      ASSERT_TRUE((*engine)->start().ok());
      ASSERT_TRUE((*engine)->submit({.type = "test", .deadline = after(0ns)}).ok());
      while (!given) {
        std::this_thread::yield();
      }
    }
    answerer.join();
  }
}

TEST_F(LettingGo, AnEngineThatGaveUpWaitingStillWaitsBeforeItGoes) {
  std::mutex mutex;
  std::condition_variable changed;
  bool entered = false;
  bool may_end = false;
  std::atomic<bool> ended{false};
  std::string seen;
  std::thread opener;
  {
    Result<std::unique_ptr<Engine>> engine = Engine::create({});
    ASSERT_TRUE(engine.ok());
    ASSERT_TRUE((*engine)
                    ->on("test",
                         [&](Delivery d) {
                           std::unique_lock lock(mutex);
                           entered = true;
                           changed.notify_all();
                           changed.wait(lock, [&] { return may_end; });
                           seen = std::string(d.payload());
                           EXPECT_EQ(d.done().code(), Code::kStopped);
                           ended = true;
                         })
                    .ok());
    ASSERT_TRUE((*engine)->start().ok());
    const std::string payload(1000, 'p');
    ASSERT_TRUE(
        (*engine)->submit({.type = "test", .deadline = after(0ns), .payload = payload}).ok());
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return entered; });
    }
    EXPECT_EQ((*engine)->stop(1ms).code(), Code::kTimedOut);
    opener = std::thread([&] {
      const std::lock_guard lock(mutex);
      may_end = true;
      changed.notify_all();
    });
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(seen, std::string(1000, 'p'));
  opener.join();
}

// Two workers, a backlog of slow handlers, and one that waits for all others.
TEST_F(LettingGo, NotAtAllHoldsBackNobodyElseInABacklog) {
  constexpr int kTasks = 500;
  std::mutex mutex;
  std::condition_variable changed;
  int starts = 0;
  bool all_started = false;
  Result<std::unique_ptr<Engine>> engine = Engine::create({});
  ASSERT_TRUE(engine.ok());
  ASSERT_TRUE((*engine)
                  ->on("test",
                       [&](Delivery d) {
                         std::unique_lock lock(mutex);
                         if (++starts == kTasks) {
                           changed.notify_all();
                         }
                         if (starts == kTasks / 2) {
                           all_started =
                               changed.wait_for(lock, 10s, [&] { return starts == kTasks; });
                         }
                         lock.unlock();
                         const auto until = std::chrono::steady_clock::now() + 100us;
                         while (std::chrono::steady_clock::now() < until) {
                         }
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  const Deadline deadline = at(std::chrono::system_clock::now() + 50ms);
  for (int i = 0; i < kTasks; ++i) {
    ASSERT_TRUE((*engine)->submit({.type = "test", .deadline = deadline}).ok());
  }
  ASSERT_TRUE((*engine)->start().ok());
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, 20s, [&] { return starts == kTasks; }));
  }
  EXPECT_TRUE((*engine)->stop().ok());
  EXPECT_TRUE(all_started);
}

TEST_F(LettingGo, TwoEnginesDoNotTakeEachOthersTasksForTheirOwn) {
  HostEngine other;
  std::optional<Delivery> running;
  ASSERT_TRUE(other.engine->on("test", [&](Delivery d) { running.emplace(std::move(d)); }).ok());
  ASSERT_TRUE(other.engine->start().ok());
  const TaskId theirs = other.schedule(after(1ms), "key");
  other.advance(1ms);
  Code answered = Code::kOk;
  TaskId mine;
  ASSERT_TRUE(host_.engine
                  ->on("test",
                       [&](Delivery d) {
                         mine = d.id();
                         answered =
                             other.engine
                                 ->submit({.type = "test", .deadline = after(1h), .key = "key"})
                                 .code();
                         (void)d.done();
                       })
                  .ok());
  ASSERT_TRUE(host_.engine->start().ok());
  host_.schedule(after(1ms), "key");
  host_.advance(1ms);
  ASSERT_EQ(mine, theirs) << "the test needs equal ids";
  EXPECT_EQ(answered, Code::kExists);
  EXPECT_TRUE(running->done().ok());
}

}  // namespace
}  // namespace countwheel
