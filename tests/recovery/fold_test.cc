// The fold of the log onto the task table: random histories of an engine in memory, replayed. What
// is recovered must equal what the engine held, what the answers of its API imply, and, for every
// prefix of the log, what a map makes of the operations alone.
#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include <countwheel/restore.h>

#include "testing/directory.h"
#include "testing/history.h"
#include "testing/memory_log.h"

namespace countwheel::testing {
namespace {

// What the operations say, in the most obvious code.
class OpModel {
 public:
  void apply(const Op& op) {
    const std::uint64_t id = op.id.value;
    switch (op.kind) {
      case OpKind::kSchedule:
        tasks_[id] = {std::string(op.key()),
                      std::string(op.payload()),
                      op.wall_deadline_ns,
                      op.base_lsn,
                      op.attempts,
                      op.failures,
                      op.dead};
        break;
      case OpKind::kCancel:
      case OpKind::kDone:
        EXPECT_EQ(tasks_.erase(id), 1U) << "LSN " << op.lsn;
        break;
      case OpKind::kReschedule:
        tasks_.at(id).wall_deadline_ns = op.wall_deadline_ns;
        tasks_.at(id).order_lsn = op.lsn;
        break;
      case OpKind::kRetry:
        tasks_.at(id).wall_deadline_ns = op.wall_deadline_ns;
        tasks_.at(id).order_lsn = op.lsn;
        tasks_.at(id).attempts = op.attempts;
        tasks_.at(id).failures = op.failures;
        break;
      case OpKind::kDead:
        tasks_.at(id).dead = true;
        tasks_.at(id).attempts = op.attempts;
        tasks_.at(id).failures = op.failures;
        break;
      case OpKind::kNone:
      case OpKind::kType:
      case OpKind::kCancelGroup:
      case OpKind::kRescheduleGroup:
        break;
    }
  }

  void expect_equal(const Engine& engine, std::size_t prefix) const {
    std::map<std::uint64_t, TaskInfo> found;
    for (const TaskInfo& info : engine.list(TaskId{}, 100'000)) {
      found[info.id.value] = info;
    }
    ASSERT_EQ(found.size(), tasks_.size()) << "prefix of " << prefix << " batches";
    for (const auto& [id, task] : tasks_) {
      ASSERT_TRUE(found.contains(id)) << "prefix of " << prefix << " batches, id " << id;
      const TaskInfo& info = found[id];
      EXPECT_EQ(info.key, task.key);
      EXPECT_EQ(info.payload, task.payload);
      EXPECT_EQ(info.deadline.time_since_epoch().count(), task.wall_deadline_ns);
      EXPECT_EQ(info.attempts, task.attempts);
      EXPECT_EQ(info.failures, task.failures);
      EXPECT_EQ(info.state == State::kDead, task.dead);
      if (!task.dead) {
        EXPECT_EQ(info.order_lsn.value, task.order_lsn);
      }
    }
  }

 private:
  struct Task {
    std::string key;
    std::string payload;
    std::int64_t wall_deadline_ns = 0;
    std::uint64_t order_lsn = 0;
    std::uint32_t attempts = 0;
    std::uint32_t failures = 0;
    bool dead = false;
  };
  std::map<std::uint64_t, Task> tasks_;
};

class Fold : public ::testing::Test {
 protected:
  Recovered recover_from(MemoryLog& log, Clock& clock) {
    Result<Recovered> recovered = recover(log, History::options(), &clock, &executor_);
    EXPECT_TRUE(recovered.ok()) << recovered.status().text();
    return std::move(*recovered);
  }

  const std::uint64_t seed_ = seed_from_environment(20260105);
  InlineExecutor executor_;
};

TEST_F(Fold, ARecoveredEngineHoldsWhatTheEngineHeld) {
  for (std::uint64_t round = 0; round < 40; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed_ + round));
    History history(seed_ + round);
    for (int i = 0; i < 400; ++i) {
      history.step();
    }
    history.answer_all();
    history.settle();
    const std::map<std::uint64_t, std::string> held = describe_all(history.engine());
    ASSERT_EQ(held.size(), history.tasks().size());
    for (const auto& [id, task] : history.tasks()) {
      const Result<TaskInfo> info = history.engine().find(TaskId{id});
      ASSERT_TRUE(info.ok()) << info.status().text();
      EXPECT_EQ(info->deadline.time_since_epoch().count(), task.wall_deadline_ns);
      EXPECT_EQ(info->attempts, task.attempts);
      EXPECT_EQ(info->failures, task.failures);
      EXPECT_EQ(info->state == State::kDead, task.dead);
    }
    const std::unique_ptr<MemoryLog> image = history.log().killed();
    const Recovered recovered = recover_from(*image, history.clock());
    EXPECT_EQ(describe_all(*recovered.engine), held);
    EXPECT_EQ(recovered.engine->check_invariants(), "");
    EXPECT_EQ(recovered.summary.redelivered, 0U);
    EXPECT_EQ(recovered.summary.live + recovered.summary.dead, held.size());
  }
}

TEST_F(Fold, WhatWasRunningIsRedeliveredAndCountedOnce) {
  std::uint64_t redelivered = 0;
  for (std::uint64_t round = 0; round < 20; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed_ + round));
    History history(seed_ + round);
    for (int i = 0; i < 300; ++i) {
      history.step();
    }
    history.settle();
    const std::unique_ptr<MemoryLog> image = history.log().killed();
    const Recovered recovered = recover_from(*image, history.clock());
    EXPECT_EQ(recovered.summary.redelivered, history.running_count());
    EXPECT_EQ(recovered.summary.crashed, history.running_count());
    for (const auto& [id, task] : history.tasks()) {
      const Result<TaskInfo> info = recovered.engine->find(TaskId{id});
      ASSERT_TRUE(info.ok()) << info.status().text();
      EXPECT_EQ(info->attempts, task.attempts);
      EXPECT_EQ(info->failures, task.failures);
      EXPECT_GE(info->crashes, task.running ? 1U : 0U);
    }
    redelivered += recovered.summary.redelivered;
    history.answer_all();
  }
  EXPECT_GT(redelivered, 20U);
}

TEST_F(Fold, EveryPrefixOfTheLogIsAStateOfItsOwn) {
  for (std::uint64_t round = 0; round < 6; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed_ + round));
    History history(seed_ + round);
    for (int i = 0; i < 300; ++i) {
      history.step();
    }
    history.answer_all();
    history.settle();
    OpModel model;
    const std::vector<MemoryLog::StoredBatch> batches = history.log().batches();
    ASSERT_GT(batches.size(), 30U);
    for (std::size_t size = 0; size < batches.size(); ++size) {
      for (const MemoryLog::StoredOp& stored : batches[size].ops) {
        model.apply(stored.view());
      }
      const std::unique_ptr<MemoryLog> image = history.log().prefix(size + 1);
      const Recovered recovered = recover_from(*image, history.clock());
      model.expect_equal(*recovered.engine, size + 1);
      EXPECT_EQ(recovered.engine->check_invariants(), "");
    }
  }
}

TEST_F(Fold, ApplyingEachBatchTwiceChangesNothing) {
  for (std::uint64_t round = 0; round < 10; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed_ + round));
    History history(seed_ + round);
    for (int i = 0; i < 400; ++i) {
      history.step();
    }
    history.answer_all();
    history.settle();
    const std::unique_ptr<MemoryLog> image = history.log().killed();
    EngineParts parts;
    parts.clock = &history.clock();
    parts.executor = &executor_;
    parts.journal = image->journal();
    const Result<std::unique_ptr<Engine>> engine =
        Engine::create(History::options(), std::move(parts));
    ASSERT_TRUE(engine.ok());
    Restorer restorer(**engine);
    for (const MemoryLog::StoredBatch& batch : image->batches()) {
      for (int pass = 0; pass < 2; ++pass) {
        for (const MemoryLog::StoredOp& stored : batch.ops) {
          const Status status = restorer.apply(stored.view(), batch.header.session_hash);
          ASSERT_TRUE(status.ok()) << status.text();
        }
      }
    }
    ASSERT_TRUE(restorer.finish(image->end()).ok());
    EXPECT_EQ(describe_all(**engine), describe_all(history.engine()));
    EXPECT_EQ((*engine)->check_invariants(), "");
  }
}

// Each recovery writes what it found (the crashes); dying before, in or after that changes nothing.
TEST_F(Fold, RecoveringAgainAndAgainFindsTheSame) {
  for (std::uint64_t round = 0; round < 10; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed_ + round));
    History history(seed_ + round);
    for (int i = 0; i < 300; ++i) {
      history.step();
    }
    history.settle();
    std::vector<std::unique_ptr<MemoryLog>> images;  // each outlives its engine
    images.push_back(history.log().killed());
    std::map<std::uint64_t, std::string> found;
    for (int crash = 0; crash < 4; ++crash) {
      const Recovered recovered = recover_from(*images.back(), history.clock());
      if (crash == 0) {
        found = describe_all(*recovered.engine);
      }
      EXPECT_EQ(describe_all(*recovered.engine), found) << "crash " << crash;
      if (crash == 2) {
        // The crashes reach the log; no handler has started.
        EXPECT_TRUE(recovered.engine->flush().ok());
      }
      images.push_back(images.back()->killed());
    }
    history.answer_all();
  }
}

TEST_F(Fold, WhatTheCleanerCarriesOnIsTheSame) {
  for (std::uint64_t round = 0; round < 10; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed_ + round));
    History history(seed_ + round);
    history.log().clean_above = 4;
    for (int i = 0; i < 600; ++i) {
      history.step();
    }
    history.answer_all();
    history.settle();
    EXPECT_GT(history.engine().stats().reappended, 0U);
    EXPECT_LT(history.log().batches().size(), history.log().size());
    const std::unique_ptr<MemoryLog> image = history.log().killed();
    const Recovered recovered = recover_from(*image, history.clock());
    EXPECT_EQ(describe_all(*recovered.engine), describe_all(history.engine()));
  }
}

TEST_F(Fold, AnotherSessionFallsBackToTheWall) {
  History history(seed_);
  for (int i = 0; i < 300; ++i) {
    history.step();
  }
  history.answer_all();
  history.settle();
  const std::unique_ptr<MemoryLog> image = history.log().killed();
  history.clock().reboot(std::int64_t{7'000'000'000});
  const Recovered recovered = recover_from(*image, history.clock());
  const Instant now = history.clock().now();
  for (const auto& [id, task] : history.tasks()) {
    const Result<TaskInfo> info = recovered.engine->find(TaskId{id});
    ASSERT_TRUE(info.ok());
    EXPECT_EQ(info->deadline.time_since_epoch().count(), task.wall_deadline_ns);
    if (info->clock == ClockKind::kBoot && !task.dead) {
      EXPECT_EQ(info->boot_deadline_ns - now.boot_ns, task.wall_deadline_ns - now.wall_ns);
    }
  }
}

}  // namespace
}  // namespace countwheel::testing
