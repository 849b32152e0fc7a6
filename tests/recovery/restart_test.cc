// Time and tasks across crashes and restarts: reports of the field, on a real log and a manual
// clock. T0 is 2026-01-05T09:00:00Z.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "recovery/restart_fixture.h"

namespace countwheel::testing {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

class RecoveryCases : public Restart {};
class ClockCases : public Restart {};
class EngineCases : public Restart {};
class WalCases : public Restart {};
class ApiCases : public Restart {};

TEST_F(ClockCases, B22_ABootDeadlineMeansNothingAfterTheMachineRestarted) {
  clock_.set({t0_, std::int64_t{3'000'000} * 1'000'000});
  open();
  schedule({.type = "work", .deadline = after(seconds(60))});
  run_for(seconds(20), seconds(1));
  crash();
  clock_.reboot(std::int64_t{12'000} * 1'000'000);
  clock_.step_wall(seconds(10));  // the wall has advanced 30 s since T0
  ASSERT_EQ(since_t0(), seconds(30));
  open();
  EXPECT_FALSE(report_.same_session);
  poll();
  EXPECT_TRUE(runs_.empty());  // not at once
  run_for(seconds(30) - milliseconds(1), milliseconds(500));
  EXPECT_TRUE(runs_.empty());
  run_for(milliseconds(1));
  ASSERT_EQ(runs_.size(), 1U);  // 30 s after the restart, not 50 minutes
  EXPECT_EQ(runs_[0].wall_ns - t0_, nanoseconds(seconds(60)).count());
}

TEST_F(ClockCases, B22_InTheSameSessionTheBootDeadlineHoldsWhateverTheWallDoes) {
  open();
  schedule({.type = "work", .deadline = after(seconds(60))});
  run_for(seconds(20), seconds(1));
  crash();
  clock_.step_wall(hours(5));
  open();
  EXPECT_TRUE(report_.same_session);
  run_for(seconds(40) - nanoseconds(1), seconds(40));
  EXPECT_TRUE(runs_.empty());
  run_for(nanoseconds(1));
  EXPECT_EQ(runs_.size(), 1U);
}

TEST_F(EngineCases, B36_ALoweredLimitLoadsAllAndRefusesNewOnes) {
  options_.engine.max_pending_count = 1000;
  open();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(engine_->submit({.type = "work", .deadline = after(hours(1))}).ok()) << i;
  }
  EXPECT_EQ(engine_->schedule({.type = "work", .deadline = after(hours(1))}).code(),
            Code::kOverloaded);
  ASSERT_TRUE(engine_->flush().ok());
  crash();
  options_.engine.max_pending_count = 500;
  open();
  EXPECT_EQ(report_.live, 1000U);  // #1001 is not in the log
  EXPECT_EQ(engine_->stats().pending, 1000U);
  EXPECT_EQ(engine_->schedule({.type = "work", .deadline = after(hours(1))}).code(),
            Code::kOverloaded);
  run_for(hours(1), minutes(10));
  EXPECT_EQ(runs_.size(), 1000U);
  EXPECT_TRUE(engine_->schedule({.type = "work", .deadline = after(hours(1))}).ok());
}

TEST_F(WalCases, B43_AReplacementDueAtOnceIsInTheLog) {
  open();
  const TaskId first =
      schedule({.type = "work", .deadline = after(hours(1)), .key = "order", .payload = "P1"});
  const TaskId second = schedule({.type = "work",
                                  .deadline = after(nanoseconds(0)),
                                  .key = "order",
                                  .payload = "P2",
                                  .key_policy = KeyPolicy::kReplace});
  EXPECT_EQ(first, second);
  crash_and_open();
  EXPECT_EQ(report_.live, 1U);
  run_for(hours(2), minutes(10));
  ASSERT_EQ(runs_.size(), 1U);  // once
  EXPECT_EQ(runs_[0].payload, "P2");
}

TEST_F(RecoveryCases, B49_FallsDueAfterARestartWithoutAnyCall) {
  open();
  schedule({.type = "work", .deadline = after(seconds(30))});
  run_for(seconds(10), seconds(1));
  crash();
  clock_.advance(seconds(5));
  open();
  run_for(seconds(15) - milliseconds(10));
  EXPECT_TRUE(runs_.empty());
  run_for(milliseconds(10));
  ASSERT_EQ(runs_.size(), 1U);
  EXPECT_EQ(runs_[0].wall_ns - t0_, nanoseconds(seconds(30)).count());
  EXPECT_FALSE(runs_[0].overdue);
}

class Downtime : public Restart, public ::testing::WithParamInterface<std::int64_t> {};

// An hour, and longer than the highest level of the wheel reaches.
TEST_P(Downtime, B50_WhatFellDueWhileAwayRunsOnceInOrder) {
  const seconds away(GetParam());
  open();
  for (int k = 100; k >= 1; --k) {
    schedule({.type = "work", .deadline = after(seconds(k)), .payload = std::to_string(k)});
  }
  run_for(milliseconds(500));
  crash();
  clock_.advance(away - milliseconds(500));
  open();
  EXPECT_EQ(report_.live, 100U);
  EXPECT_EQ(report_.overdue, 100U);
  poll();
  ASSERT_EQ(runs_.size(), 100U);
  for (int k = 1; k <= 100; ++k) {
    const Run& run = runs_[static_cast<std::size_t>(k - 1)];
    EXPECT_EQ(run.payload, std::to_string(k));
    EXPECT_TRUE(run.overdue);
    EXPECT_EQ(run.lateness_ns, nanoseconds(away - seconds(k)).count());
  }
  run_for(seconds(200), seconds(10));
  EXPECT_EQ(runs_.size(), 100U);
}

INSTANTIATE_TEST_SUITE_P(RecoveryCases, Downtime, ::testing::Values(3600, 30 * 86400, 50 * 86400));

TEST_F(RecoveryCases, B51_TheTimeOfTheReplayIsNotAddedToTheDelay) {
  open();
  schedule({.type = "work", .deadline = after(seconds(60)), .payload = "60"});
  schedule({.type = "work", .deadline = after(seconds(25)), .payload = "25"});
  run_for(seconds(10), seconds(1));
  crash();
  bool slowed = false;
  options_.progress = [&](const RecoveryProgress&) {
    // The replay takes 20 s.
    if (!slowed) {
      clock_.advance(seconds(20));
    }
    slowed = true;
  };
  open();
  ASSERT_TRUE(slowed);
  ASSERT_EQ(since_t0(), seconds(30));
  poll();
  ASSERT_EQ(runs_.size(), 1U);  // in the first step after the replay
  EXPECT_EQ(runs_[0].payload, "25");
  EXPECT_TRUE(runs_[0].overdue);
  run_for(seconds(30) - milliseconds(10));
  EXPECT_EQ(runs_.size(), 1U);
  run_for(milliseconds(10));
  ASSERT_EQ(runs_.size(), 2U);
  EXPECT_EQ(runs_[1].wall_ns - t0_, nanoseconds(seconds(60)).count());
}

TEST_F(RecoveryCases, B52_ARestartDoesNotRenewTheDelay) {
  open();
  const TaskId id = schedule({.type = "work", .deadline = after(seconds(100))});
  const TaskInfo before = *engine_->find(id);
  seconds at{0};
  for (const int crash_at : {40, 64, 78}) {
    run_for(seconds(crash_at) - at, seconds(1));
    at = seconds(crash_at);
    crash_and_open();
    const TaskInfo after_restart = *engine_->find(id);
    EXPECT_EQ(after_restart.deadline, before.deadline);  // to the nanosecond
    EXPECT_EQ(after_restart.boot_deadline_ns, before.boot_deadline_ns);
  }
  run_for(seconds(22) - nanoseconds(1), seconds(22));
  EXPECT_TRUE(runs_.empty());
  run_for(nanoseconds(1));
  ASSERT_EQ(runs_.size(), 1U);
  EXPECT_EQ(runs_[0].wall_ns - t0_, nanoseconds(seconds(100)).count());
}

TEST_F(RecoveryCases, B55_ACancelIsForEver) {
  open();
  std::vector<TaskId> ids;
  for (int i = 0; i < 100; ++i) {
    ids.push_back(schedule({.type = "work", .deadline = after(seconds(10 + i))}));
  }
  std::set<std::uint64_t> cancelled;
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(engine_->cancel(ids[i * 2]).status.code(), Code::kCancelled);
    cancelled.insert(ids[i * 2].value);
  }
  for (int restart = 0; restart < 2; ++restart) {
    crash_and_open();
    EXPECT_EQ(report_.live, 60U);
    EXPECT_EQ(engine_->stats().pending, 60U);
    for (const std::uint64_t id : cancelled) {
      EXPECT_EQ(engine_->cancel(TaskId{id}).status.code(), Code::kNotFound);
    }
  }
  run_for(seconds(200), seconds(1));
  EXPECT_EQ(runs_.size(), 60U);
  for (const Run& run : runs_) {
    EXPECT_FALSE(cancelled.contains(run.id));
  }
}

// It answered too_late, but it was heard: no retry, and no redelivery after a crash.
TEST_F(RecoveryCases, B55_ACancelThatMetARunningHandlerOutlivesTheCrash) {
  open();
  keep_ = true;
  const TaskId id = schedule({.type = "work", .deadline = {}});
  poll();
  ASSERT_EQ(kept_.size(), 1U);
  EXPECT_EQ(engine_->cancel(id).status.code(), Code::kTooLate);
  EXPECT_TRUE(kept_[0].cancel_requested());
  crash_and_open();
  EXPECT_EQ(report_.live, 0U);
  EXPECT_EQ(report_.redelivered, 0U);
  run_for(hours(1), minutes(1));
  EXPECT_EQ(runs_.size(), 1U);
}

std::vector<std::string> exported(const Engine& engine) {
  std::vector<std::string> lines;
  for (const TaskInfo& info : engine.list(TaskId{}, 1000)) {
    lines.push_back(std::to_string(info.id.value) + " " + info.type + " " + info.key + " " +
                    info.payload + " " + std::to_string(info.deadline.time_since_epoch().count()) +
                    " " + std::to_string(info.order_lsn.value) + " " +
                    std::to_string(info.attempts) + " " + std::to_string(info.failures) + " " +
                    std::to_string(info.crashes) + " " + info.last_error);
  }
  return lines;
}

TEST_F(RecoveryCases, B56_AttributesCountersAndOrderStayOverRestarts) {
  policy_.retry = RetryPolicy::fixed(hours(1));
  policy_.retry.max_attempts = 5;
  fail_with_ = "no connection";
  open();
  for (int i = 0; i < 50; ++i) {
    const std::string key = std::string("key\0", 4) + std::to_string(i);
    schedule({.type = "work",
              .deadline = after(seconds(50 - i / 2)),
              .key = key,
              .payload = std::string(static_cast<std::size_t>(i * 7), static_cast<char>(i))});
  }
  run_for(minutes(1), seconds(1));
  run_for(hours(1), minutes(1));
  ASSERT_EQ(runs_.size(), 100U);  // two attempts each
  const std::vector<std::string> before = exported(*engine_);
  ASSERT_EQ(before.size(), 50U);
  for (int restart = 0; restart < 3; ++restart) {
    crash_and_open();
    EXPECT_EQ(exported(*engine_), before);
    EXPECT_EQ(engine_->list(TaskId{}, 1)[0].attempts, 2U);
  }
  std::vector<std::uint64_t> order_before(50);
  std::transform(
      runs_.begin() + 50, runs_.end(), order_before.begin(), [](const Run& run) { return run.id; });
  fail_with_.clear();
  run_for(hours(1), minutes(1));
  ASSERT_EQ(runs_.size(), 150U);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(runs_[100 + i].id, order_before[i]) << i;
    EXPECT_EQ(runs_[100 + i].attempt, 3U);
  }
}

TEST_F(RecoveryCases, B62_IdsAreNotReusedAfterACrash) {
  open();
  std::set<std::uint64_t> acknowledged;
  TaskId last;
  for (int i = 0; i < 10; ++i) {
    last = schedule({.type = "work", .deadline = after(hours(1))});
    acknowledged.insert(last.value);
  }
  ASSERT_EQ(acknowledged.size(), 10U);
  EXPECT_TRUE(engine_->cancel(last));
  crash_and_open();
  const TaskId fresh = schedule({.type = "work", .deadline = after(hours(1))});
  EXPECT_FALSE(acknowledged.contains(fresh.value));
  EXPECT_EQ(engine_->cancel(last).status.code(), Code::kNotFound);
  EXPECT_TRUE(engine_->find(fresh).ok());
  EXPECT_EQ(engine_->stats().pending, 10U);
}

// The ids of tasks that never reached the log because their cancel met them there.
TEST_F(RecoveryCases, B62_IdsOfElidedTasksAreNotReusedEither) {
  open();
  std::set<std::uint64_t> handed_out;
  for (int i = 0; i < 3000; ++i) {
    const Result<Submitted> submitted =
        engine_->submit({.type = "work", .deadline = after(hours(1))});
    ASSERT_TRUE(submitted.ok());
    EXPECT_TRUE(handed_out.insert(submitted->id.value).second);
    EXPECT_TRUE(engine_->submit_cancel(submitted->id));
    if (i % 10 == 9) {
      ASSERT_TRUE(engine_->flush().ok());
    }
  }
  const std::uint64_t last_lsn = engine_->stats().next_lsn;
  crash_and_open();
  EXPECT_GE(engine_->stats().next_lsn, last_lsn);
  for (int i = 0; i < 3000; ++i) {
    const Result<Submitted> submitted =
        engine_->submit({.type = "work", .deadline = after(hours(1))});
    ASSERT_TRUE(submitted.ok());
    ASSERT_FALSE(handed_out.contains(submitted->id.value));
  }
}

TEST_F(ApiCases, B73_AnswersAreTheSameAfterARestart) {
  open();
  const TaskId id = schedule({.type = "work", .deadline = after(hours(1)), .key = "X"});
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(engine_->schedule({.type = "work", .deadline = {}, .key = "X"}).code(),
              Code::kExists);
    EXPECT_EQ(engine_->find("X")->id, id);
    EXPECT_EQ(engine_->reschedule("unknown", after(seconds(1))).status.code(), Code::kNotFound);
    crash_and_open();
  }
  const Result<TaskId> created = engine_->schedule({.type = "work",
                                                    .deadline = after(hours(1)),
                                                    .key = "unknown",
                                                    .key_policy = KeyPolicy::kReplace});
  EXPECT_TRUE(created.ok());
  EXPECT_EQ(engine_->stats().pending, 2U);
}

}  // namespace
}  // namespace countwheel::testing
