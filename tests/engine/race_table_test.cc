// Who wins when two things happen to one task: each row by hand, in the order that
// decides it. Threads race for the same rows in race_cases_test and stress_test.
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"
#include "testing/memory_log.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::GatedExecutor;
using testing::HostEngine;
using testing::MemoryLog;

// An engine whose type "keeps" keeps its deliveries: they run until the test answers.
class RaceTable : public ::testing::Test {
 protected:
  RaceTable() : host_({}, &gate_, log_.journal()), engine_(*host_.engine) {
    EXPECT_TRUE(engine_.on("keeps", [this](Delivery d) { kept_.push_back(std::move(d)); }).ok());
    host_.run();
  }
  ~RaceTable() override { kept_.clear(); }

  TaskId schedule(std::string_view type,
                  Deadline deadline,
                  std::string_view key,
                  KeyPolicy policy = KeyPolicy::kReject) {
    TaskSpec spec{.type = type, .deadline = deadline, .key = key};
    spec.key_policy = policy;
    const Result<TaskId> id = engine_.schedule(spec);
    EXPECT_TRUE(id.ok()) << id.status().text();
    return id.ok() ? *id : TaskId{};
  }
  // A task that runs and is not answered.
  TaskId running(std::string_view key = "K") {
    const TaskId id = schedule("keeps", after(0s), key);
    step();
    EXPECT_EQ(kept_.size(), 1U);
    EXPECT_EQ(engine_.find(id)->state, State::kRunning);
    return id;
  }
  void step(nanoseconds by = 0s) {
    host_.advance(by);
    gate_.open();
    engine_.poll();
    gate_.open();
  }
  void answer_done() {
    ASSERT_FALSE(kept_.empty());
    EXPECT_TRUE(kept_.front().done().ok());
    kept_.erase(kept_.begin());
  }
  void answer_failed() {
    ASSERT_FALSE(kept_.empty());
    EXPECT_TRUE(kept_.front().fail("failed").ok());
    kept_.erase(kept_.begin());
  }
  // How many tasks a crash now would leave.
  std::uint64_t live_after_crash() {
    EXPECT_TRUE(engine_.flush().ok());
    ManualClock clock;
    InlineExecutor executor;
    EngineOptions options;
    options.drive = Drive::kHost;
    const std::unique_ptr<MemoryLog> image = log_.killed();
    const Result<testing::Recovered> recovered =
        testing::recover(*image, options, &clock, &executor);
    EXPECT_TRUE(recovered.ok()) << recovered.status().text();
    return recovered.ok() ? recovered->summary.live : 0;
  }

  MemoryLog log_;
  GatedExecutor gate_;
  HostEngine host_;
  Engine& engine_;
  std::vector<Delivery> kept_;
};

TEST_F(RaceTable, CancelOfARunningTaskIsTooLateAndEndsItsRetries) {
  const TaskId id = running();
  EXPECT_FALSE(kept_[0].cancel_requested());
  const Change change = engine_.cancel(id);
  EXPECT_EQ(change.status.code(), Code::kTooLate);
  EXPECT_FALSE(change);
  EXPECT_TRUE(kept_[0].cancel_requested());
  EXPECT_EQ(engine_.cancel("K").status.code(), Code::kTooLate);
  answer_failed();
  EXPECT_EQ(engine_.find(id).code(), Code::kNotFound);
  step(1h);
  EXPECT_TRUE(kept_.empty());
  EXPECT_EQ(engine_.stats().cancelled, 1U);
  EXPECT_EQ(live_after_crash(), 0U);
}

TEST_F(RaceTable, CancelOfARunningTaskThatSucceedsIsDone) {
  const TaskId id = running();
  EXPECT_EQ(engine_.cancel(id).status.code(), Code::kTooLate);
  answer_done();
  EXPECT_EQ(engine_.stats().done, 1U);
  EXPECT_EQ(engine_.stats().cancelled, 0U);
  EXPECT_EQ(engine_.cancel(id).status.code(), Code::kNotFound);
}

TEST_F(RaceTable, ACrashAfterCancelOfARunningTaskDoesNotBringItBack) {
  running();
  EXPECT_EQ(live_after_crash(), 1U);
  EXPECT_EQ(engine_.cancel("K").status.code(), Code::kTooLate);
  EXPECT_EQ(live_after_crash(), 0U);
  answer_done();
  EXPECT_EQ(live_after_crash(), 0U);
}

TEST_F(RaceTable, RescheduleOfAQueuedTaskMovesItAndItRunsOnce) {
  const TaskId id = host_.schedule(after(1s));
  EXPECT_EQ(host_.advance(1s), 1U);  // handed over, not started
  EXPECT_EQ(engine_.reschedule(id, after(5s)).status.code(), Code::kOk);
  step();
  EXPECT_TRUE(host_.started.empty());
  EXPECT_EQ(engine_.stats().skipped, 1U);
  step(5s - 1ns);
  EXPECT_TRUE(host_.started.empty());
  step(1ns);
  ASSERT_EQ(host_.started.size(), 1U);
  step(1h);
  EXPECT_EQ(host_.started.size(), 1U);
}

TEST_F(RaceTable, RescheduleToAnEarlierTimeRunsOnceAtIt) {
  const TaskId id = host_.schedule(after(1h));
  step();
  EXPECT_EQ(engine_.reschedule(id, after(1s)).status.code(), Code::kOk);
  step(1s);
  EXPECT_EQ(host_.started.size(), 1U);
  step(2h);
  EXPECT_EQ(host_.started.size(), 1U);
}

TEST_F(RaceTable, RescheduleOfARunningTaskIsTooLate) {
  const TaskId id = running();
  EXPECT_EQ(engine_.reschedule(id, after(5s)).status.code(), Code::kTooLate);
  EXPECT_EQ(engine_.reschedule("K", after(5s)).status.code(), Code::kTooLate);
  answer_done();
  EXPECT_EQ(engine_.reschedule(id, after(5s)).status.code(), Code::kNotFound);
  step(1h);
  EXPECT_EQ(engine_.stats().done, 1U);
}

TEST_F(RaceTable, CallsOnADeadLetterAreTooLate) {
  TypePolicy policy;
  policy.retry.max_attempts = 1;
  ASSERT_TRUE(engine_
                  .on(
                      "dies", [](Delivery d) { (void)d.fail("no"); }, policy)
                  .ok());
  const TaskId id = schedule("dies", after(0s), "K");
  step();
  EXPECT_EQ(engine_.find(id)->state, State::kDead);
  EXPECT_EQ(engine_.cancel(id).status.code(), Code::kTooLate);
  EXPECT_EQ(engine_.reschedule(id, after(1s)).status.code(), Code::kTooLate);
  EXPECT_EQ(engine_.find("K").code(), Code::kNotFound);  // its key is free
  schedule("keeps", after(1h), "K");
}

TEST_F(RaceTable, CallsAnswerTheDeadlineThatWas) {
  const WallTime now(nanoseconds(host_.clock.now().wall_ns));
  const TaskId id = host_.schedule(at(now + 10s));
  EXPECT_EQ(engine_.reschedule(id, at(now + 20s)).deadline, now + 10s);
  EXPECT_EQ(engine_.reschedule(id, after(30s)).deadline, now + 20s);
  EXPECT_EQ(engine_.cancel(id).deadline, now + 30s);
}

TEST_F(RaceTable, TheKeyOfARunningTaskIsTakenForOthers) {
  const TaskId id = running();
  const Result<TaskId> rejected =
      engine_.schedule({.type = "test", .deadline = after(0s), .key = "K"});
  EXPECT_EQ(rejected.code(), Code::kExists);
  EXPECT_NE(rejected.status().text().find(std::to_string(id.value)), std::string::npos);
  answer_done();
  schedule("test", after(0s), "K");
}

TEST_F(RaceTable, AnUpsertOfARunningTaskIsItsSuccessor) {
  const TaskId id = running();
  const TaskId successor = schedule("test", after(0s), "K", KeyPolicy::kReplace);
  EXPECT_NE(successor, id);
  EXPECT_EQ(engine_.find("K")->id, successor);
  // Due, and held until the running one ends.
  for (int i = 0; i < 10; ++i) {
    step(1s);
  }
  EXPECT_TRUE(host_.started.empty());
  EXPECT_EQ(engine_.find(id)->state, State::kRunning);
  // An upsert of the successor moves it in place; a plain schedule meets it.
  EXPECT_EQ(schedule("test", after(0s), "K", KeyPolicy::kReplace), successor);
  EXPECT_EQ(engine_.schedule({.type = "test", .deadline = after(0s), .key = "K"}).code(),
            Code::kExists);
  answer_done();
  step();
  ASSERT_EQ(host_.started.size(), 1U);
  EXPECT_EQ(host_.started[0].id, successor);
  EXPECT_EQ(engine_.stats().pending, 0U);
  EXPECT_EQ(engine_.check_invariants(), "");
}

TEST_F(RaceTable, AFailedTaskWithASuccessorIsNotTriedAgain) {
  const TaskId id = running();
  const TaskId successor = schedule("test", after(10s), "K", KeyPolicy::kReplace);
  answer_failed();
  EXPECT_EQ(engine_.find(id).code(), Code::kNotFound);
  step(10s);
  ASSERT_EQ(host_.started.size(), 1U);
  EXPECT_EQ(host_.started[0].id, successor);
  step(1h);
  EXPECT_EQ(host_.started.size(), 1U);
  EXPECT_TRUE(kept_.empty());
  EXPECT_EQ(engine_.stats().replaced, 1U);
  EXPECT_EQ(engine_.stats().pending, 0U);
}

TEST_F(RaceTable, ACancelledSuccessorGivesTheKeyBack) {
  const TaskId id = running();
  const TaskId successor = schedule("test", after(0s), "K", KeyPolicy::kReplace);
  EXPECT_EQ(engine_.cancel("K").status.code(), Code::kCancelled);
  EXPECT_EQ(engine_.find(successor).code(), Code::kNotFound);
  EXPECT_EQ(engine_.find("K")->id, id);
  EXPECT_EQ(engine_.check_invariants(), "");
  answer_failed();  // and so is tried again
  EXPECT_EQ(engine_.find("K")->state, State::kScheduled);
  EXPECT_EQ(engine_.find("K")->id, id);
  step(1h);
  EXPECT_TRUE(host_.started.empty());
  EXPECT_EQ(kept_.size(), 1U);
}

TEST_F(RaceTable, ASuccessorSurvivesACrashOfTheRunningOne) {
  running();
  schedule("test", after(10s), "K", KeyPolicy::kReplace);
  EXPECT_EQ(live_after_crash(), 2U);
  answer_done();
  EXPECT_EQ(live_after_crash(), 1U);
}

TEST_F(RaceTable, AHandlerSchedulesItsOwnKey) {
  TaskId next;
  ASSERT_TRUE(engine_
                  .on("again",
                      [&](Delivery d) {
                        // Accepted although the key is taken: by this very task.
                        const Result<TaskId> id = engine_.schedule(
                            {.type = "test", .deadline = after(1s), .key = d.key()});
                        ASSERT_TRUE(id.ok()) << id.status().text();
                        next = *id;
                        EXPECT_EQ(engine_.find(d.key())->id, next);
                        EXPECT_TRUE(d.done().ok());
                      })
                  .ok());
  const TaskId first = schedule("again", after(0s), "K");
  step();
  EXPECT_NE(next, first);
  EXPECT_EQ(engine_.find("K")->id, next);
  EXPECT_EQ(engine_.stats().done, 1U);
  step(1s);
  ASSERT_EQ(host_.started.size(), 1U);
  EXPECT_EQ(host_.started[0].id, next);
  EXPECT_EQ(engine_.check_invariants(), "");
}

TEST_F(RaceTable, AHandlerCancelsAndMovesItself) {
  Code cancelled = Code::kOk;
  Code moved = Code::kOk;
  ASSERT_TRUE(engine_
                  .on("itself",
                      [&](Delivery d) {
                        moved = engine_.reschedule(d.id(), after(1s)).status.code();
                        cancelled = engine_.cancel(d.key()).status.code();
                        EXPECT_TRUE(d.cancel_requested());
                        EXPECT_TRUE(d.fail("so be it").ok());
                      })
                  .ok());
  schedule("itself", after(0s), "K");
  step();
  EXPECT_EQ(moved, Code::kTooLate);
  EXPECT_EQ(cancelled, Code::kTooLate);
  step(1h);
  EXPECT_EQ(engine_.stats().started, 1U);
  EXPECT_EQ(engine_.stats().cancelled, 1U);
  EXPECT_EQ(engine_.stats().pending, 0U);
}

TEST_F(RaceTable, ATypeNobodyKnowsIsParkedAndRunsOnceItIsKnown) {
  for (int i = 0; i < 10; ++i) {
    schedule("later", after(1s * i), std::to_string(i));
  }
  step(5s);
  EXPECT_EQ(engine_.stats().parked, 6U);
  EXPECT_EQ(engine_.stats().backlog, 0U);
  EXPECT_EQ(engine_.stats().pending, 10U);
  EXPECT_EQ(engine_.find("3")->state, State::kScheduled);
  // Parked is not lost to calls.
  EXPECT_EQ(engine_.cancel("0").status.code(), Code::kCancelled);
  EXPECT_EQ(engine_.reschedule("1", after(100s)).status.code(), Code::kOk);
  std::vector<std::string> runs;
  ASSERT_TRUE(engine_
                  .on("later",
                      [&](Delivery d) {
                        runs.emplace_back(d.key());
                        EXPECT_TRUE(d.done().ok());
                      })
                  .ok());
  EXPECT_EQ(engine_.on("later", [](Delivery) {}).code(), Code::kExists);
  step();
  EXPECT_EQ(runs, (std::vector<std::string>{"2", "3", "4", "5"}));
  EXPECT_EQ(engine_.stats().parked, 0U);
  step(4s);
  EXPECT_EQ(runs.size(), 8U);
  step(100s);
  EXPECT_EQ(runs.back(), "1");
  EXPECT_EQ(engine_.stats().done, 9U);
}

// In a process of its own: an engine is of no use in a fork of the one that made it.
class RaceTableDeathTest : public RaceTable {
 protected:
  RaceTableDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(RaceTableDeathTest, AnEngineDestroyedInItsOwnHandlerIsAMistakeOfTheProgrammer) {
  ASSERT_TRUE(engine_.on("destroys", [this](Delivery) { host_.engine.reset(); }).ok());
  schedule("destroys", after(0s), "K");
  EXPECT_DEATH(step(), "in_handler");
}

}  // namespace
}  // namespace countwheel
