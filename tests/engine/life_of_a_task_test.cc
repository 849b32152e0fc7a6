// One task's whole life in memory: scheduled, due, handled, gone; and every way to leave earlier.
// On a clock that stands still and on the machine's.
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::HostEngine;

TEST(LifeOfATask, RunsWhenItIsDueAndNotBefore) {
  HostEngine host;
  host.run();
  const TaskId id = host.schedule(after(25ms), "key", "payload");
  EXPECT_EQ(host.engine->find(id)->state, State::kScheduled);
  EXPECT_EQ(host.engine->poll(), 0U);
  host.clock.advance(25ms - 1ns);
  EXPECT_EQ(host.engine->poll(), 0U);
  EXPECT_EQ(host.advance(1ns), 1U);
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.started[0].id, id);
  EXPECT_EQ(host.started[0].key, "key");
  EXPECT_EQ(host.started[0].payload, "payload");
  EXPECT_EQ(host.started[0].lateness, 0ns);
  EXPECT_EQ(host.started[0].attempt, 1U);
  EXPECT_EQ(host.engine->find(id).code(), Code::kNotFound);
  EXPECT_EQ(host.engine->find("key").code(), Code::kNotFound);
  const Stats stats = host.engine->stats();
  EXPECT_EQ(stats.scheduled, 1U);
  EXPECT_EQ(stats.done, 1U);
  EXPECT_EQ(stats.pending, 0U);
  EXPECT_EQ(stats.pending_bytes, 0U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(LifeOfATask, CancelledByIdOrByKeyNeverRuns) {
  HostEngine host;
  host.run();
  const TaskId by_id = host.schedule(after(10ms));
  host.schedule(after(10ms), "by-key");
  const Change first = host.engine->cancel(by_id);
  EXPECT_EQ(first.status.code(), Code::kCancelled);
  EXPECT_TRUE(first);
  EXPECT_EQ(host.engine->cancel("by-key").status.code(), Code::kCancelled);
  EXPECT_EQ(host.engine->cancel("by-key").status.code(), Code::kNotFound);
  EXPECT_EQ(host.engine->cancel(by_id).status.code(), Code::kNotFound);
  EXPECT_EQ(host.advance(1s), 0U);
  EXPECT_TRUE(host.started.empty());
  EXPECT_EQ(host.engine->stats().cancelled, 2U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(LifeOfATask, MovedRunsOnceAtItsNewTime) {
  HostEngine host;
  host.run();
  const TaskId id = host.schedule(after(10ms));
  EXPECT_EQ(host.engine->reschedule(id, after(50ms)).status.code(), Code::kOk);
  EXPECT_EQ(host.advance(49ms), 0U);
  EXPECT_EQ(host.engine->reschedule(id, after(1ms)).status.code(), Code::kOk);
  EXPECT_EQ(host.advance(1ms), 1U);
  EXPECT_EQ(host.advance(1s), 0U);
  EXPECT_EQ(host.started.size(), 1U);
}

TEST(LifeOfATask, FailsIsTriedAgainAndDies) {
  HostEngine host;
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(100ms);
  policy.retry.max_attempts = 3;
  int starts = 0;
  ASSERT_TRUE(host.engine
                  ->on(
                      "fails",
                      [&](Delivery d) {
                        ++starts;
                        EXPECT_TRUE(d.fail("no luck").ok());
                      },
                      policy)
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  const Result<TaskId> id = host.engine->schedule({.type = "fails", .deadline = after(1ms)});
  host.advance(1ms);
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(host.engine->find(*id)->failures, 1U);
  host.advance(99ms);
  EXPECT_EQ(starts, 1);
  host.advance(1ms);
  EXPECT_EQ(starts, 2);
  host.advance(100ms);
  EXPECT_EQ(starts, 3);
  host.advance(1h);
  EXPECT_EQ(starts, 3);
  const Result<TaskInfo> dead = host.engine->find(*id);
  ASSERT_TRUE(dead.ok());
  EXPECT_EQ(dead->state, State::kDead);
  EXPECT_EQ(dead->last_error, "no luck");
  EXPECT_EQ(host.engine->stats().dead, 1U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(LifeOfATask, OnTheMachinesClockAndThreads) {
  Result<std::unique_ptr<Engine>> made = Engine::create({});
  ASSERT_TRUE(made.ok());
  Engine& engine = **made;
  std::atomic<int> runs{0};
  std::atomic<std::int64_t> early{0};
  ASSERT_TRUE(engine
                  .on("test",
                      [&](Delivery d) {
                        early += d.lateness() < 0ns ? 1 : 0;
                        ++runs;
                        EXPECT_TRUE(d.done().ok());
                      })
                  .ok());
  ASSERT_TRUE(engine.start().ok());
  constexpr int kTasks = 2000;
  for (int i = 0; i < kTasks; ++i) {
    const Deadline deadline = after(std::chrono::microseconds(i * 37 % 50'000));
    ASSERT_TRUE(engine.submit({.type = "test", .deadline = deadline}).ok());
  }
  const auto give_up = std::chrono::steady_clock::now() + 30s;
  while (runs < kTasks && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_EQ(runs, kTasks);
  EXPECT_EQ(early, 0);
  EXPECT_TRUE(engine.stop().ok());
  EXPECT_EQ(engine.stats().done, static_cast<std::uint64_t>(kTasks));
  EXPECT_EQ(engine.check_invariants(), "");
  EXPECT_EQ(engine.schedule({.type = "test", .deadline = after(1ms)}).code(), Code::kStopped);
}

}  // namespace
}  // namespace countwheel
