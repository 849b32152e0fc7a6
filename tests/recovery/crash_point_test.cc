// A crash at every point of many tasks' lives, each once: after every write to the log, before and
// after every handler's work. Each image is recovered, run to its end and compared with what had
// been promised when it was taken. Images are taken from a log in memory.
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/directory.h"
#include "testing/memory_log.h"

namespace countwheel::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kTasks = 1000;

EngineOptions host_driven() {
  EngineOptions options;
  options.drive = Drive::kHost;
  return options;
}

// What has been promised so far.
struct Promises {
  std::set<std::uint64_t> scheduled;  // acknowledged at disk
  std::set<std::uint64_t> cancelled;  // acknowledged at disk
  std::set<std::uint64_t> succeeded;  // the handler has done its work
  std::map<std::uint64_t, int> starts;
};

std::set<std::uint64_t> ended_by(const MemoryLog& log, OpKind kind) {
  std::set<std::uint64_t> ids;
  for (const MemoryLog::StoredBatch& batch : log.batches()) {
    for (const MemoryLog::StoredOp& stored : batch.ops) {
      if (stored.op.kind == kind) {
        ids.insert(stored.op.id.value);
      }
    }
  }
  return ids;
}

// Runs an image to its end and holds it against the promises of the moment it was taken.
void check_image(MemoryLog& image, Instant now, const Promises& promises) {
  ManualClock clock(now);
  InlineExecutor executor;
  Result<Recovered> recovered = recover(image, host_driven(), &clock, &executor);
  ASSERT_TRUE(recovered.ok()) << recovered.status().text();
  Engine& engine = *recovered->engine;
  std::map<std::uint64_t, int> starts;
  ASSERT_TRUE(engine
                  .on("work",
                      [&starts](Delivery delivery) {
                        ++starts[delivery.id().value];
                        EXPECT_TRUE(delivery.done().ok());
                      })
                  .ok());
  const std::set<std::uint64_t> done = ended_by(image, OpKind::kDone);
  const std::set<std::uint64_t> cancel_written = ended_by(image, OpKind::kCancel);
  ASSERT_TRUE(engine.start().ok());
  clock.advance(hours(1));
  while (engine.poll() > 0) {
  }
  for (const std::uint64_t id : promises.scheduled) {
    const auto before = promises.starts.find(id);
    const int total = starts[id] + (before == promises.starts.end() ? 0 : before->second);
    if (promises.cancelled.contains(id)) {
      ASSERT_EQ(starts[id], 0) << "cancelled, yet started: " << id;
    } else if (!cancel_written.contains(id)) {
      ASSERT_GE(total, 1) << "lost: " << id;
    }
  }
  for (const auto& [id, count] : starts) {
    ASSERT_LE(count, 1) << "started twice after one recovery: " << id;
    ASSERT_EQ(count == 1 && done.contains(id), false) << "its completion was written: " << id;
  }
  for (const std::uint64_t id : done) {
    ASSERT_TRUE(promises.succeeded.contains(id)) << "completed before its handler was: " << id;
  }
  ASSERT_EQ(engine.stats().pending, 0U);
}

class CrashPoints {
 public:
  explicit CrashPoints(std::uint64_t seed) : random_(seed) {
    EngineParts parts;
    parts.clock = &clock_;
    parts.executor = &executor_;
    parts.journal = log_.journal();
    engine_ = std::move(*Engine::create(host_driven(), std::move(parts)));
    TypePolicy policy;
    policy.retry = RetryPolicy::fixed(milliseconds(40));
    EXPECT_TRUE(engine_
                    ->on(
                        "work", [this](Delivery d) { work(std::move(d)); }, policy)
                    .ok());
    EXPECT_TRUE(engine_->start().ok());
    log_.after_append = [this] { point(&written_points_); };
  }

  ~CrashPoints() { log_.after_append = nullptr; }

  void run() {
    for (int i = 0; i < kTasks && !::testing::Test::HasFatalFailure(); ++i) {
      schedule(i);
      if (i % 7 == 3) {
        cancel();
      }
      clock_.advance(milliseconds(3));
      engine_->poll();
    }
    clock_.advance(seconds(2));
    while (engine_->poll() > 0 && !::testing::Test::HasFatalFailure()) {
      clock_.advance(milliseconds(50));
    }
    EXPECT_TRUE(engine_->flush().ok());
  }

  int written_points() const { return written_points_; }
  int started_points() const { return started_points_; }
  int finished_points() const { return finished_points_; }
  const Promises& promises() const { return promises_; }

 private:
  void schedule(int number) {
    TaskSpec spec;
    spec.type = "work";
    spec.deadline = after(milliseconds(random_() % 60));
    const std::string key = "task" + std::to_string(number);
    spec.key = number % 2 == 0 ? std::string_view(key) : std::string_view();
    const Result<TaskId> id = engine_->schedule(spec);
    ASSERT_TRUE(id.ok()) << id.status().text();
    promises_.scheduled.insert(id->value);
    recent_.push_back(id->value);
  }

  void cancel() {
    const std::uint64_t id = recent_[recent_.size() - 1 - random_() % 3];
    if (engine_->cancel(TaskId{id})) {
      promises_.cancelled.insert(id);
    }
  }

  void work(Delivery delivery) {
    const std::uint64_t id = delivery.id().value;
    ++promises_.starts[id];
    point(&started_points_);
    if (delivery.attempt() == 1 && random_() % 10 == 0) {
      EXPECT_TRUE(delivery.fail("the first time").ok());
      return;
    }
    promises_.succeeded.insert(id);
    EXPECT_TRUE(delivery.done().ok());
    point(&finished_points_);
  }

  // kill -9 here, and a power failure that keeps some of what was not synced.
  void point(int* counter) {
    ++*counter;
    // On another thread: an engine that is destroyed inside a handler is a programmer's mistake.
    std::thread([this] { check_images(); }).join();
  }

  void check_images() {
    const std::unique_ptr<MemoryLog> killed = log_.killed();
    check_image(*killed, clock_.now(), promises_);
    if (random_() % 4 != 0) {
      return;
    }
    const std::size_t synced = log_.synced_size();
    const std::unique_ptr<MemoryLog> cut =
        log_.prefix(synced + random_() % (log_.size() - synced + 1));
    check_image(*cut, clock_.now(), promises_);
  }

  std::mt19937_64 random_;
  ManualClock clock_;
  InlineExecutor executor_;
  MemoryLog log_{16};
  Promises promises_;
  std::vector<std::uint64_t> recent_;
  int written_points_ = 0;
  int started_points_ = 0;
  int finished_points_ = 0;
  std::unique_ptr<Engine> engine_;
};

TEST(RecoveryCases, B57_RemovedOnlyWhenSafelyInTheNextPlace) {
  CrashPoints points(seed_from_environment(57));
  points.run();
  // 1,000 tasks: each written, and each that was not cancelled handed over and completed.
  EXPECT_EQ(points.promises().scheduled.size(), 1000U);
  EXPECT_GE(points.written_points(), 1000);
  EXPECT_GE(points.started_points(), 1000 - static_cast<int>(points.promises().cancelled.size()));
  EXPECT_GE(points.finished_points(), 1000 - static_cast<int>(points.promises().cancelled.size()));
  EXPECT_GT(points.promises().cancelled.size(), 50U);
}

// Starts the task, keeps its delivery, and dies: the image that is left.
class Killed {
 public:
  Killed(MemoryLog& log, ManualClock& clock, const TypePolicy& policy) {
    Result<Recovered> recovered = recover(log, host_driven(), &clock, &executor_);
    EXPECT_TRUE(recovered.ok()) << recovered.status().text();
    summary_ = recovered->summary;
    engine_ = std::move(recovered->engine);
    EXPECT_TRUE(engine_
                    ->on(
                        "killer",
                        [this](Delivery delivery) { running_.push_back(std::move(delivery)); },
                        policy)
                    .ok());
    EXPECT_TRUE(engine_->start().ok());
  }
  ~Killed() {
    for (Delivery& delivery : running_) {
      EXPECT_TRUE(delivery.done().ok());
    }
  }

  Engine& engine() { return *engine_; }
  std::vector<Delivery>& running() { return running_; }
  const RestoreSummary& summary() const { return summary_; }

 private:
  InlineExecutor executor_;
  RestoreSummary summary_;
  std::unique_ptr<Engine> engine_;
  std::vector<Delivery> running_;
};

TEST(RetryCases, B66_AKillIsNoFailedAttempt) {
  ManualClock clock;
  MemoryLog log(4);
  TypePolicy policy;
  policy.retry.max_attempts = 1;
  Killed first(log, clock, policy);
  const Result<TaskId> id = first.engine().schedule({.type = "killer", .deadline = {}});
  ASSERT_TRUE(id.ok());
  first.engine().poll();
  ASSERT_EQ(first.running().size(), 1U);
  const std::unique_ptr<MemoryLog> image = log.killed();

  Killed second(*image, clock, policy);
  EXPECT_EQ(second.summary().redelivered, 1U);
  EXPECT_EQ(second.summary().crashed, 1U);
  const Result<TaskInfo> info = second.engine().find(*id);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->state, State::kScheduled);  // not dead
  EXPECT_EQ(info->failures, 0U);
  EXPECT_EQ(info->crashes, 1U);
  second.engine().poll();
  ASSERT_EQ(second.running().size(), 1U);  // runs again
  EXPECT_EQ(second.running()[0].attempt(), 2U);
}

TEST(RetryCases, B66_WhatKillsItsProcessIsDeadAfterMaxCrashes) {
  ManualClock clock;
  std::vector<std::unique_ptr<MemoryLog>> images;  // each outlives its engine
  images.push_back(std::make_unique<MemoryLog>(4));
  TypePolicy policy;
  policy.retry.max_crashes = 5;
  TaskId id;
  int starts = 0;
  for (int process = 0; process < 8; ++process) {
    Killed killed(*images.back(), clock, policy);
    if (process == 0) {
      id = *killed.engine().schedule({.type = "killer", .deadline = {}, .key = "k"});
    }
    killed.engine().poll();
    starts += static_cast<int>(killed.running().size());
    images.push_back(images.back()->killed());
  }
  EXPECT_EQ(starts, 5);
  Killed after(*images.back(), clock, policy);
  const Result<TaskInfo> info = after.engine().find(id);
  ASSERT_TRUE(info.ok()) << info.status().text();
  EXPECT_EQ(info->state, State::kDead);
  EXPECT_EQ(info->crashes, 5U);
  EXPECT_EQ(info->failures, 0U);  // counted apart
  EXPECT_EQ(info->key, "k");
  EXPECT_NE(info->last_error.find("crash"), std::string::npos) << info->last_error;
}

// A handler that had finished when the process died is started again but is no suspect.
TEST(CrashPoint, AFinishedAttemptIsRedeliveredButNoCrash) {
  ManualClock clock;
  MemoryLog log(4);
  Killed first(log, clock, {});
  const Result<TaskId> id = first.engine().schedule({.type = "killer", .deadline = {}});
  ASSERT_TRUE(id.ok());
  std::unique_ptr<MemoryLog> image;
  log.before_append = [&](const Batch& batch) {
    for (const Op& op : batch.ops) {
      if (op.kind == OpKind::kDone) {
        image = log.killed();
      }
    }
    return Status();
  };
  first.engine().poll();
  ASSERT_EQ(first.running().size(), 1U);
  ASSERT_TRUE(first.running()[0].done().ok());
  first.running().clear();
  ASSERT_TRUE(first.engine().flush().ok());
  log.before_append = nullptr;
  ASSERT_NE(image, nullptr);
  Killed second(*image, clock, {});
  EXPECT_EQ(second.summary().redelivered, 1U);
  EXPECT_EQ(second.summary().crashed, 0U);
  EXPECT_EQ(second.engine().find(*id)->crashes, 0U);
}

// A task that ran and one that was scheduled for its key meanwhile, behind a kill.
class Successor : public ::testing::Test {
 protected:
  Successor() {
    first_ = *before_.engine().schedule({.type = "killer", .deadline = {}, .key = "k"});
    before_.engine().poll();
    TaskSpec next{.type = "killer", .deadline = {}, .key = "k", .payload = "next"};
    next.key_policy = KeyPolicy::kReplace;
    second_ = *before_.engine().schedule(next);
    image_ = log_.killed();
    after_.emplace(*image_, clock_, TypePolicy());
  }
  Engine& engine() { return after_->engine(); }

  ManualClock clock_;
  MemoryLog log_{4};
  Killed before_{log_, clock_, {}};
  TaskId first_;
  TaskId second_;
  std::unique_ptr<MemoryLog> image_;
  std::optional<Killed> after_;
};

TEST_F(Successor, WaitsForTheRedeliveredTask) {
  engine().poll();
  ASSERT_EQ(after_->running().size(), 1U);
  EXPECT_EQ(after_->running()[0].id(), first_);
  EXPECT_TRUE(after_->running()[0].done().ok());
  after_->running().clear();
  engine().poll();
  ASSERT_EQ(after_->running().size(), 1U);
  EXPECT_EQ(after_->running()[0].id(), second_);
}

TEST_F(Successor, RunsWhenTheTaskItWaitedForIsCancelled) {
  EXPECT_EQ(engine().cancel(first_).status.code(), Code::kCancelled);
  engine().poll();
  ASSERT_EQ(after_->running().size(), 1U);
  EXPECT_EQ(after_->running()[0].id(), second_);
  EXPECT_EQ(engine().check_invariants(), "");
}

TEST_F(Successor, LeavesItsKeyToNobodyWhenBothAreCancelled) {
  EXPECT_TRUE(engine().submit_cancel(first_));
  EXPECT_TRUE(engine().submit_cancel(second_));
  EXPECT_EQ(engine().check_invariants(), "");
  EXPECT_EQ(engine().find("k").code(), Code::kNotFound);
  EXPECT_TRUE(engine().flush().ok());
  EXPECT_TRUE(engine().schedule({.type = "killer", .deadline = {}, .key = "k"}).ok());
  engine().poll();
  EXPECT_EQ(after_->running().size(), 1U);
  EXPECT_EQ(engine().check_invariants(), "");
}

// The refused cancel leaves everything as it was.
TEST_F(Successor, WaitsAgainWhenTheCancelIsTakenBack) {
  image_->before_append = [](const Batch&) { return Status(Code::kNoSpace, "the test said so"); };
  EXPECT_EQ(engine().cancel(first_).status.code(), Code::kNoSpace);
  image_->before_append = nullptr;
  engine().poll();
  ASSERT_EQ(after_->running().size(), 1U);
  EXPECT_EQ(after_->running()[0].id(), first_);
  EXPECT_EQ(engine().check_invariants(), "");
}

}  // namespace
}  // namespace countwheel::testing
