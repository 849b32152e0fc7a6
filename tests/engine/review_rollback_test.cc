// What a full disk takes back when tasks of one key follow each other, and what it must leave.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"
#include "testing/memory_log.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::HostEngine;
using testing::MemoryLog;

// A log that is full when told, and a handler that keeps its deliveries.
class FullDisk : public ::testing::Test {
 protected:
  FullDisk() : host_({}, nullptr, log_.journal()) {
    log_.before_append = [this](const Batch&) {
      return full_ ? Status(Code::kNoSpace, "full") : Status();
    };
    TypePolicy policy;
    policy.retry = RetryPolicy::fixed(1s);
    EXPECT_TRUE(host_.engine
                    ->on(
                        "keep",
                        [this](Delivery d) {
                          started_.push_back(std::string(d.payload()));
                          attempts_.push_back(d.attempt());
                          held_.emplace(std::move(d));
                        },
                        policy)
                    .ok());
    EXPECT_TRUE(host_.engine->start().ok());
  }

  TaskId schedule(Deadline deadline, std::string_view payload) {
    const Result<TaskId> id = host_.engine->schedule(spec(deadline, payload));
    EXPECT_TRUE(id.ok()) << id.status().text();
    return *id;
  }
  static TaskSpec spec(Deadline deadline, std::string_view payload) {
    return {.type = "keep",
            .deadline = deadline,
            .key = "k",
            .payload = payload,
            .key_policy = KeyPolicy::kReplace};
  }

  // The refusal takes place here.
  void refuse() {
    full_ = true;
    host_.engine->poll();
    EXPECT_EQ(host_.engine->stats().health, Health::kDegraded);
    EXPECT_EQ(host_.engine->check_invariants(), "");
    full_ = false;
  }
  // Space is looked for every 250 ms.
  void recover() {
    const auto give_up = std::chrono::steady_clock::now() + 10s;
    while (host_.engine->stats().health != Health::kOk) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up);
      host_.engine->poll();
    }
  }
  std::vector<std::string> run_until_done() {
    for (int i = 0; i < 100; ++i) {
      host_.advance(100ms);
      if (held_) {
        EXPECT_TRUE(held_->done().ok());
        held_.reset();
      }
    }
    EXPECT_EQ(host_.engine->stats().pending, 0U);
    EXPECT_EQ(host_.engine->check_invariants(), "");
    return started_;
  }

  MemoryLog log_;
  bool full_ = false;
  std::vector<std::string> started_;
  std::vector<std::uint32_t> attempts_;
  std::optional<Delivery> held_;
  HostEngine host_;
};

TEST_F(FullDisk, AMoveOfASuccessorIsTakenBackAfterItsPredecessorEnded) {
  schedule(after(1ms), "first");
  host_.advance(1ms);
  const TaskId second = schedule(after(1s), "second");
  ASSERT_TRUE(host_.engine->submit_reschedule(second, after(2s)));
  ASSERT_TRUE(held_->done().ok());
  held_.reset();
  refuse();
  recover();
  EXPECT_EQ(run_until_done(), (std::vector<std::string>{"first", "second"}));
}

TEST_F(FullDisk, AnUpsertOfASuccessorIsTakenBackAfterItsPredecessorEnded) {
  schedule(after(1ms), "first");
  host_.advance(1ms);
  schedule(after(1s), "second");
  ASSERT_TRUE(host_.engine->submit(spec(after(2s), "third"))->replaced);
  ASSERT_TRUE(held_->done().ok());
  held_.reset();
  refuse();
  recover();
  EXPECT_EQ(run_until_done(), (std::vector<std::string>{"first", "second"}));
}

TEST_F(FullDisk, ACancelOfASuccessorIsTakenBackAfterItsPredecessorEnded) {
  schedule(after(1ms), "first");
  host_.advance(1ms);
  const TaskId second = schedule(after(1s), "second");
  ASSERT_TRUE(host_.engine->submit_cancel(second));
  ASSERT_TRUE(held_->done().ok());
  held_.reset();
  refuse();
  recover();
  EXPECT_EQ(run_until_done(), (std::vector<std::string>{"first", "second"}));
}

TEST_F(FullDisk, ASuccessorForWhichAFailedTaskWasDroppedStays) {
  schedule(after(1ms), "first");
  host_.advance(1ms);
  const Result<Submitted> second = host_.engine->submit(spec(after(1s), "second"));
  ASSERT_TRUE(second.ok());
  // Nothing of the second is written yet, and the first makes way for it.
  ASSERT_TRUE(held_->fail("no").ok());
  held_.reset();
  refuse();
  recover();
  EXPECT_TRUE(host_.engine->wait_durable(second->lsn).ok());
  EXPECT_EQ(run_until_done(), (std::vector<std::string>{"first", "second"}));
}

TEST_F(FullDisk, AFailedTaskComesBackWhenItsSuccessorWasRefusedBefore) {
  schedule(after(1ms), "first");
  host_.advance(1ms);
  const Result<Submitted> second = host_.engine->submit(spec(after(1s), "second"));
  refuse();
  ASSERT_TRUE(held_->fail("no").ok());
  held_.reset();
  recover();
  EXPECT_EQ(host_.engine->wait_durable(second->lsn).code(), Code::kNoSpace);
  EXPECT_EQ(run_until_done(), (std::vector<std::string>{"first", "first"}));
}

// The cancel of a running task is queued while the cleaner carries the task on, and then refused.
TEST_F(FullDisk, ACancelRequestThatIsTakenBackDoesNotCostTheTask) {
  const TaskId first = schedule(after(1ms), "first");
  const std::size_t its_batch = log_.size();
  host_.advance(1ms);
  std::optional<Change> cancelled;
  log_.after_append = [&] {
    const std::size_t oldest = log_.size() - log_.batches().size() + 1;
    if (oldest == its_batch && !cancelled) {
      cancelled = host_.engine->submit_cancel(first);
    }
  };
  log_.clean_above = 1;
  for (int i = 0; i < 50 && !cancelled; ++i) {
    ASSERT_TRUE(host_.engine->submit({.type = "keep", .deadline = after(1h)}).ok());
    host_.engine->poll();
  }
  log_.after_append = nullptr;  // the log outlives what it refers to
  ASSERT_TRUE(cancelled.has_value());
  EXPECT_EQ(cancelled->status.code(), Code::kTooLate);
  refuse();
  ASSERT_TRUE(held_->fail("no").ok());
  held_.reset();
  recover();
  const bool taken_back = host_.engine->wait_durable(cancelled->lsn).code() == Code::kNoSpace;
  EXPECT_EQ(host_.engine->find(first).ok(), taken_back);
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(host_.engine->submit({.type = "keep", .deadline = after(1h)}).ok());
    host_.engine->poll();
  }
  const std::unique_ptr<MemoryLog> image = log_.killed();
  ASSERT_GT(image->size() - image->batches().size(), its_batch) << "its first record is dropped";
  InlineExecutor executor;
  const Result<testing::Recovered> recovered =
      testing::recover(*image, host_.engine->options(), &host_.clock, &executor);
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered->engine->find(first).ok(), taken_back);
}

TEST_F(FullDisk, AnUpsertKeepsCountingAttempts) {
  schedule(after(1ms), "first");
  host_.advance(1ms);
  ASSERT_TRUE(held_->fail("no").ok());
  held_.reset();
  schedule(after(10ms), "second");
  EXPECT_EQ(run_until_done(), (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(attempts_, (std::vector<std::uint32_t>{1, 2})) << "one id, so ascending tokens";
}

// 20,000 operations, every other one acknowledged at `memory`: refused in as many pieces.
TEST_F(FullDisk, EveryRefusedOperationIsRemembered) {
  std::vector<Lsn> refused;
  for (int i = 0; i < 10'000; ++i) {
    for (const Durability level : {Durability::kDisk, Durability::kMemory}) {
      const Result<Submitted> made =
          host_.engine->submit({.type = "keep", .deadline = after(1h), .durability = level});
      ASSERT_TRUE(made.ok());
      if (level == Durability::kDisk) {
        refused.push_back(made->lsn);
      }
    }
  }
  refuse();
  EXPECT_EQ(host_.engine->stats().pending, 10'000U);
  recover();
  host_.schedule(after(1h));
  for (const Lsn lsn : refused) {
    ASSERT_EQ(host_.engine->wait_durable(lsn).code(), Code::kNoSpace) << lsn.value;
  }
}

// A pair that was elided and written long ago is no part of a later failure.
TEST_F(FullDisk, AWatermarkThatFailsAfterAnElidedPairTouchesNothing) {
  const Result<Submitted> first =
      host_.engine->submit({.type = "keep", .deadline = after(1h), .durability = Durability::kOs});
  const Result<Submitted> pair =
      host_.engine->submit({.type = "keep", .deadline = after(1h), .durability = Durability::kOs});
  ASSERT_TRUE(host_.engine->cancel(pair->id, Durability::kOs));
  ASSERT_EQ(host_.engine->stats().elided, 2U);
  full_ = true;
  EXPECT_EQ(host_.engine->wait_durable(first->lsn, Durability::kDisk, 1ms).code(), Code::kTimedOut);
  EXPECT_EQ(host_.engine->stats().health, Health::kDegraded);
  full_ = false;
  EXPECT_TRUE(host_.engine->wait_durable(first->lsn, Durability::kDisk).ok());
  EXPECT_EQ(host_.engine->check_invariants(), "");
}

}  // namespace
}  // namespace countwheel
