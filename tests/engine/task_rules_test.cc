// Rules that one task brings along: its own retries, a total timeout, how late it may start.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "engine/dead_letter_fixture.h"
#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::FailingEngine;
using testing::HostEngine;
using testing::MemoryLog;

TEST(TaskRules, ATasksOwnRetryPolicyWinsAndOutlivesACrash) {
  MemoryLog log;
  FailingEngine host(FailingEngine::one_attempt(), log.journal());
  RetryPolicy own = RetryPolicy::list({10s, 20s});
  own.max_attempts = 3;
  own.jitter = 0.0;
  const Result<TaskId> id =
      host.engine->schedule({.type = "test", .deadline = after(0s), .key = "own", .retry = &own});
  ASSERT_TRUE(id.ok());
  host.advance(0s);
  EXPECT_EQ(host.runs, 1);
  EXPECT_EQ(host.engine->find(*id)->state, State::kScheduled);
  host.advance(10s);
  EXPECT_EQ(host.runs, 2);
  ASSERT_TRUE(host.engine->flush().ok());

  const std::unique_ptr<MemoryLog> image = log.killed();
  InlineExecutor executor;
  EngineOptions options;
  options.drive = Drive::kHost;
  Result<testing::Recovered> recovered = testing::recover(*image, options, &host.clock, &executor);
  ASSERT_TRUE(recovered.ok()) << recovered.status().text();
  int runs = 0;
  ASSERT_TRUE(recovered->engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        ++runs;
                        EXPECT_TRUE(d.fail("again").ok());
                      },
                      FailingEngine::one_attempt())
                  .ok());
  ASSERT_TRUE(recovered->engine->start().ok());
  host.clock.advance(19s);
  recovered->engine->poll();
  EXPECT_EQ(runs, 0);
  host.clock.advance(1s);
  recovered->engine->poll();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(recovered->engine->find(*id)->dead_reason, DeadReason::kAttempts);
  EXPECT_EQ(recovered->engine->find(*id)->failures, 3U);
}

TEST(TaskRules, APolicyThatMakesNoSenseIsRefusedByName) {
  HostEngine host;
  host.run();
  RetryPolicy policy;
  policy.factor = 0.5;
  const Result<TaskId> factor =
      host.engine->schedule({.type = "test", .deadline = after(0s), .retry = &policy});
  EXPECT_EQ(factor.code(), Code::kInvalidArgument);
  EXPECT_NE(factor.status().text().find("RetryPolicy::factor"), std::string::npos);
  policy = RetryPolicy::list(std::vector<std::chrono::nanoseconds>(65, 1s));
  EXPECT_EQ(host.engine->schedule({.type = "test", .deadline = after(0s), .retry = &policy}).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(
      host.engine->schedule({.type = "test", .deadline = after(0s), .max_lateness = -1ns}).code(),
      Code::kOutOfRange);
  EXPECT_EQ(host.engine->stats().pending, 0U);
}

TEST(TaskRules, BeyondItsTotalTimeoutATaskIsNotTriedAgain) {
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(10s);
  policy.retry.max_attempts = 0;
  policy.retry.total_timeout = 35s;
  FailingEngine host(policy);
  const TaskId id = host.schedule(after(100s));
  host.advance_by_steps(1000s, 1s);
  EXPECT_EQ(host.runs, 4);  // at 100, 110, 120 and 130 s; 140 s would be beyond 135 s
  EXPECT_EQ(host.engine->find(id)->dead_reason, DeadReason::kTimeout);
  EXPECT_EQ(host.engine->find(id)->last_error, "no luck with ");
}

TEST(TaskRules, ATotalTimeoutCountsOnOverARestart) {
  MemoryLog log;
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(10s);
  policy.retry.max_attempts = 0;
  policy.retry.total_timeout = 35s;
  FailingEngine host(policy, log.journal());
  const TaskId id = host.schedule(after(0s));
  host.advance(0s);
  host.advance(10s);
  ASSERT_TRUE(host.engine->flush().ok());
  const std::unique_ptr<MemoryLog> image = log.killed();
  InlineExecutor executor;
  EngineOptions options;
  options.drive = Drive::kHost;
  Result<testing::Recovered> recovered = testing::recover(*image, options, &host.clock, &executor);
  ASSERT_TRUE(recovered.ok());
  ASSERT_TRUE(recovered->engine->on("test", host.handler(), policy).ok());
  ASSERT_TRUE(recovered->engine->start().ok());
  for (int i = 0; i < 100; ++i) {
    host.clock.advance(1s);
    recovered->engine->poll();
  }
  EXPECT_EQ(host.runs, 4);
  EXPECT_EQ(recovered->engine->find(id)->dead_reason, DeadReason::kTimeout);
}

TEST(TaskRules, WhatComesTooLateIsNotRun) {
  testing::GatedExecutor gate;
  HostEngine host({}, &gate);
  TypePolicy policy;
  policy.max_lateness = 1s;
  host.run(policy);
  const TaskId late = host.schedule(after(1s));
  const Result<TaskId> patient =
      host.engine->schedule({.type = "test", .deadline = after(1s), .max_lateness = 1h});
  const Result<TaskId> endless =
      host.engine->schedule({.type = "test", .deadline = after(1s), .max_lateness = 0s});
  ASSERT_TRUE(patient.ok() && endless.ok());
  host.advance(1s);
  host.clock.advance(1s + 1ns);  // the pool was busy with something else
  while (gate.open() != 0) {
    host.engine->poll();
  }
  EXPECT_EQ(host.started.size(), 2U);
  const Result<TaskInfo> info = host.engine->find(late);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->state, State::kDead);
  EXPECT_EQ(info->dead_reason, DeadReason::kLate);
  EXPECT_EQ(info->last_error, "expired_late");
  EXPECT_EQ(info->attempts, 0U);
}

TEST(TaskRules, AtTheLimitATaskIsStillRun) {
  testing::GatedExecutor gate;
  HostEngine host({}, &gate);
  TypePolicy policy;
  policy.max_lateness = 1s;
  host.run(policy);
  host.schedule(after(1s));
  host.advance(1s);
  host.clock.advance(1s);
  while (gate.open() != 0) {
    host.engine->poll();
  }
  EXPECT_EQ(host.started.size(), 1U);
}

TEST(TaskRules, AnUpsertBringsItsOwnAndItsRollbackTheOldOnes) {
  MemoryLog log;
  FailingEngine host(FailingEngine::one_attempt(), log.journal());
  RetryPolicy three = RetryPolicy::fixed(1s);
  three.max_attempts = 3;
  ASSERT_TRUE(
      host.engine->schedule({.type = "test", .deadline = after(1h), .key = "k", .retry = &three})
          .ok());
  log.before_append = [](const Batch& batch) {
    return batch.op_count == 0 ? Status() : Status(Code::kNoSpace, "the test said so");
  };
  EXPECT_EQ(host.engine
                ->schedule({.type = "test",
                            .deadline = after(0s),
                            .key = "k",
                            .key_policy = KeyPolicy::kReplace})
                .code(),
            Code::kNoSpace);
  log.before_append = nullptr;
  ASSERT_TRUE(testing::eventually([&] {
    host.engine->poll();
    return host.engine->stats().health == Health::kOk;
  }));
  host.advance_by_steps(1h + 10s, 500ms);
  EXPECT_EQ(host.runs, 3);  // still the old policy

  ASSERT_TRUE(
      host.engine->schedule({.type = "test", .deadline = after(1h), .key = "k", .retry = &three})
          .ok());
  ASSERT_TRUE(host.engine
                  ->schedule({.type = "test",
                              .deadline = after(0s),
                              .key = "k",
                              .key_policy = KeyPolicy::kReplace})
                  .ok());
  host.advance_by_steps(10s, 500ms);
  EXPECT_EQ(host.runs, 4);  // the type's: one attempt
  EXPECT_EQ(host.engine->check_invariants(), "");
}

}  // namespace
}  // namespace countwheel
