// Writes of the application that come with a call: they reach the journal with the record of the
// call, in the same batch, or not at all. What RocksDB makes of them is tested in tests/wal.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>
#include <countwheel/recurrence.h>

#include "testing/engine_fixture.h"
#include "testing/fault_journal.h"
#include "testing/memory_log.h"
#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::FaultJournal;
using testing::Faults;
using testing::HostEngine;
using testing::MemoryLog;

using Texts = std::vector<std::string>;
using Kinds = std::vector<OpKind>;

class AppWrites : public ::testing::Test {
 protected:
  explicit AppWrites(const EngineOptions& options = {})
      : host_(options, nullptr, std::make_unique<FaultJournal>(&faults_, log_.journal())),
        engine_(*host_.engine) {
    TypePolicy policy;
    policy.lease = 10s;
    EXPECT_TRUE(engine_
                    .on(
                        "test", [this](Delivery d) { kept_.push_back(std::move(d)); }, policy)
                    .ok());
    EXPECT_TRUE(engine_.start().ok());
    EXPECT_TRUE(engine_.flush().ok());  // the type's name
  }

  static TaskSpec spec(std::string_view key,
                       Durability durability = Durability::kDisk,
                       KeyPolicy policy = KeyPolicy::kReject) {
    TaskSpec spec{.type = "test", .deadline = after(5s), .key = key};
    spec.key_policy = policy;
    spec.durability = durability;
    return spec;
  }
  Submitted submit(const TaskSpec& spec, std::string_view writes) {
    const Result<Submitted> submitted = engine_.submit(spec, {writes});
    EXPECT_TRUE(submitted.ok()) << submitted.status().text();
    return submitted.ok() ? *submitted : Submitted{};
  }
  // Commits; the kinds that reached the log with it, in order.
  Kinds logged() {
    const std::size_t before = log_.size();
    EXPECT_TRUE(engine_.flush().ok());
    Kinds kinds;
    const std::vector<MemoryLog::StoredBatch> batches = log_.batches();
    for (std::size_t i = before; i < batches.size(); ++i) {
      for (const MemoryLog::StoredOp& stored : batches[i].ops) {
        kinds.push_back(stored.op.kind);
      }
    }
    return kinds;
  }
  // A task that runs: its delivery is the last of kept_.
  TaskId running(std::string_view key) {
    const TaskId id = submit(spec(key), {}).id;
    host_.advance(5s);
    EXPECT_FALSE(kept_.empty());
    return id;
  }
  void refuse() {
    faults_.answer(Code::kNoSpace);
    EXPECT_EQ(engine_.flush().code(), Code::kNoSpace);
    EXPECT_EQ(engine_.check_invariants(), "");
  }
  void space_returns() {
    faults_.answer(Code::kOk);
    EXPECT_TRUE(eventually(
        [this] {
          engine_.poll();
          return engine_.stats().health == Health::kOk;
        },
        10s));
    engine_.poll();
  }

  MemoryLog log_;
  Faults faults_;
  HostEngine host_;
  Engine& engine_;
  std::vector<Delivery> kept_;
};

TEST_F(AppWrites, ComeInTheOrderOfTheirCallsAndWithTheirRecords) {
  const TaskId due = running("due");
  EXPECT_EQ(logged(), Kinds{});  // committed by the poll
  submit(spec("a"), "put a");
  submit(spec("b"), {});
  submit(spec("a", Durability::kDisk, KeyPolicy::kReplace), "put a again");
  EXPECT_EQ(engine_.submit_cancel("b", {"delete b"}).status.code(), Code::kCancelled);
  EXPECT_EQ(kept_.back().id(), due);
  EXPECT_TRUE(kept_.back().done({"delete due"}).ok());
  EXPECT_EQ(log_.writes(), Texts{});
  EXPECT_EQ(logged(),
            (Kinds{OpKind::kSchedule,
                   OpKind::kSchedule,
                   OpKind::kSchedule,
                   OpKind::kCancel,
                   OpKind::kDone}));
  const Texts expected = {"put a", "put a again", "delete b", "delete due"};
  EXPECT_EQ(log_.writes(), expected);
  EXPECT_EQ(log_.batches().back().writes, expected);
  EXPECT_EQ(engine_.stats().done, 1U);
  EXPECT_EQ(engine_.check_invariants(), "");
}

// Without writes the pair would leave no trace.
TEST_F(AppWrites, KeepAScheduleAndItsCancelInTheLog) {
  submit(spec("plain"), {});
  EXPECT_TRUE(engine_.submit_cancel("plain"));
  EXPECT_EQ(logged(), Kinds{});

  const TaskId moved = submit(spec("moved"), "put").id;
  EXPECT_TRUE(engine_.submit_reschedule(moved, after(7s)));
  EXPECT_TRUE(engine_.submit_cancel(moved));
  EXPECT_EQ(logged(), (Kinds{OpKind::kSchedule, OpKind::kReschedule, OpKind::kCancel}));

  submit(spec("cancelled"), {});
  EXPECT_TRUE(engine_.submit_cancel("cancelled", {"delete"}));
  EXPECT_EQ(logged(), (Kinds{OpKind::kSchedule, OpKind::kCancel}));
  EXPECT_EQ(log_.writes(), (Texts{"put", "delete"}));
}

TEST_F(AppWrites, OfACallThatDecidedNothingAreDropped) {
  const TaskId id = running("K");
  ASSERT_EQ(logged(), Kinds{});
  // The running task is told, and the log, so that no crash brings it back: without the writes.
  EXPECT_EQ(engine_.submit_cancel(id, {"no"}).status.code(), Code::kTooLate);
  EXPECT_EQ(engine_.submit_cancel("K", {"no"}).status.code(), Code::kTooLate);
  EXPECT_EQ(engine_.submit_cancel("nobody", {"no"}).status.code(), Code::kNotFound);
  EXPECT_EQ(engine_.submit(spec("K"), {"no"}).code(), Code::kExists);
  const Result<Submitted> kept =
      engine_.submit(spec("K", Durability::kDisk, KeyPolicy::kKeep), {"no"});
  ASSERT_TRUE(kept.ok());
  EXPECT_TRUE(kept->kept);
  EXPECT_EQ(logged(), Kinds{OpKind::kCancel});
  EXPECT_EQ(log_.writes(), Texts{});
}

// Its record is that of the next run, or of what stays of it for the window.
TEST_F(AppWrites, ComeWithARunOfARecurringTaskAndWithADoneThatKeepsItsKey) {
  TaskSpec recurring = spec("recurring");
  const Recurrence every_5_s = Recurrence::rate(5s);
  recurring.recurrence = &every_5_s;
  submit(recurring, "first");
  TaskSpec once = spec("once");
  once.dedup_window = 1h;
  submit(once, {});
  host_.advance(5s);
  ASSERT_EQ(kept_.size(), 2U);
  EXPECT_TRUE(kept_[0].done({"run 1"}).ok());
  EXPECT_TRUE(kept_[1].done({"once"}).ok());
  host_.advance(5s);
  ASSERT_EQ(kept_.size(), 3U);
  EXPECT_TRUE(kept_[2].done({"run 2"}).ok());
  EXPECT_EQ(engine_.submit(once, {"no"}).code(), Code::kDuplicate);
  ASSERT_TRUE(engine_.flush().ok());
  EXPECT_EQ(log_.writes(), (Texts{"first", "run 1", "once", "run 2"}));
}

TEST_F(AppWrites, OfAnAttemptWhoseLeaseIsOverAreDropped) {
  running("K");
  host_.advance_by_steps(11s, 1s);
  ASSERT_EQ(kept_.size(), 2U);
  EXPECT_EQ(kept_[0].done({"first"}).code(), Code::kStaleLease);
  EXPECT_EQ(kept_[0].done({"first"}).code(), Code::kStaleLease);
  EXPECT_TRUE(kept_[1].done({"second"}).ok());
  engine_.poll();
  EXPECT_EQ(log_.writes(), Texts{"second"});
}

TEST_F(AppWrites, ThatTheJournalCannotTakeAreRefusedBeforeAnythingIsDecided) {
  const Stats before = engine_.stats();
  EXPECT_EQ(engine_.submit(spec("K"), {MemoryLog::kBadWrites}).code(), Code::kInvalidArgument);
  EXPECT_EQ(engine_.schedule(spec("K"), {MemoryLog::kBadWrites}).code(), Code::kInvalidArgument);
  EXPECT_EQ(engine_.find("K").code(), Code::kNotFound);
  EXPECT_EQ(engine_.stats().next_lsn, before.next_lsn);
  EXPECT_EQ(engine_.stats().refused, before.refused + 2);
  submit(spec("K"), {});
  const Change change = engine_.cancel("K", {MemoryLog::kBadWrites});
  EXPECT_EQ(change.status.code(), Code::kInvalidArgument);
  EXPECT_EQ(engine_.find("K")->state, State::kScheduled);
  // Larger than allowed.
  const std::string large(engine_.options().max_writes_bytes + 1, 'x');
  EXPECT_EQ(engine_.submit(spec("L"), {large}).code(), Code::kTooLarge);
  EXPECT_EQ(engine_.find("L").code(), Code::kNotFound);
  EXPECT_TRUE(engine_.submit(spec("L"), {std::string_view(large).substr(1)}).ok());
}

// The handler may still answer otherwise.
TEST_F(AppWrites, ThatAreRefusedLeaveTheAttemptUnanswered) {
  running("K");
  EXPECT_EQ(kept_[0].done({MemoryLog::kBadWrites}).code(), Code::kInvalidArgument);
  EXPECT_EQ(kept_[0].key(), "K");
  EXPECT_TRUE(kept_[0].done({"good"}).ok());
  engine_.poll();
  EXPECT_EQ(log_.writes(), Texts{"good"});
  EXPECT_EQ(engine_.stats().done, 1U);
}

TEST(AppWritesInMemory, AreRefusedForThereIsNoDatabase) {
  HostEngine host;
  Status answer;
  ASSERT_TRUE(host.engine
                  ->on("test",
                       [&](Delivery delivery) {
                         answer = delivery.done({"writes"});
                         EXPECT_TRUE(delivery.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  const TaskSpec spec{.type = "test", .deadline = after(1s), .key = "K"};
  const Result<TaskId> refused = host.engine->schedule(spec, {"writes"});
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.status().text().find("no database"), std::string::npos);
  EXPECT_EQ(host.engine->find("K").code(), Code::kNotFound);
  EXPECT_TRUE(host.engine->schedule(spec, {}).ok());  // no writes
  EXPECT_EQ(host.engine->cancel("K", {"writes"}).status.code(), Code::kInvalidArgument);
  host.advance(1s);
  EXPECT_EQ(answer.code(), Code::kInvalidArgument);
  EXPECT_EQ(host.engine->stats().done, 1U);
  EXPECT_EQ(host.engine->app_database(), nullptr);
}

TEST_F(AppWrites, OfWhatIsTakenBackAreGone) {
  submit(spec("stays"), {});
  submit(spec("cancelled"), {});
  ASSERT_TRUE(engine_.flush().ok());
  const Lsn scheduled = submit(spec("new"), "put new").lsn;
  const Change cancel = engine_.submit_cancel("cancelled", {"delete"});
  submit(spec("stays", Durability::kDisk, KeyPolicy::kReplace), "put stays");
  refuse();
  EXPECT_EQ(engine_.wait_durable(scheduled).code(), Code::kNoSpace);
  EXPECT_EQ(engine_.wait_durable(cancel.lsn).code(), Code::kNoSpace);
  EXPECT_EQ(engine_.find("new").code(), Code::kNotFound);
  EXPECT_EQ(engine_.find("cancelled")->state, State::kScheduled);
  space_returns();
  EXPECT_EQ(log_.writes(), Texts{});
  submit(spec("new"), "put new at last");
  ASSERT_TRUE(engine_.flush().ok());
  EXPECT_EQ(log_.writes(), Texts{"put new at last"});
}

// What was acknowledged at `memory`, and what a handler has done, waits for space with its writes.
TEST_F(AppWrites, OfWhatIsKeptAreWrittenWhenThereIsSpaceAgain) {
  running("due");
  submit(spec("dropped"), "dropped");
  submit(spec("memory", Durability::kMemory), "memory");
  EXPECT_TRUE(kept_[0].done({"done"}).ok());
  submit(spec("dropped too"), "dropped too");
  refuse();
  refuse();
  space_returns();
  EXPECT_EQ(log_.writes(), (Texts{"memory", "done"}));
  EXPECT_EQ(engine_.stats().done, 1U);
  EXPECT_EQ(engine_.find("memory")->state, State::kScheduled);
  EXPECT_EQ(engine_.find("dropped").code(), Code::kNotFound);
  EXPECT_EQ(engine_.check_invariants(), "");
}

// A blob has a megabyte or so; larger queues are written in pieces, each with its own writes.
TEST_F(AppWrites, OfALargeQueueGoWithTheirOwnOperations) {
  const std::string large(300'000, 'x');
  for (int i = 0; i < 10; ++i) {
    const std::string text = std::to_string(i);
    submit(spec("key" + text), text + large);
    submit(spec("other" + text), {});
  }
  const std::size_t before = log_.size();
  ASSERT_TRUE(engine_.flush().ok());
  const std::vector<MemoryLog::StoredBatch> batches = log_.batches();
  EXPECT_EQ(batches.size(), before + 4);
  std::size_t next = 0;
  for (std::size_t i = before; i < batches.size(); ++i) {
    EXPECT_LE(batches[i].writes.size(), 3U);
    std::size_t with_writes = 0;
    for (const MemoryLog::StoredOp& stored : batches[i].ops) {
      with_writes += stored.view().key().starts_with("key") ? 1U : 0U;
    }
    EXPECT_EQ(with_writes, batches[i].writes.size());
    for (const std::string& writes : batches[i].writes) {
      EXPECT_EQ(writes, std::to_string(next++) + large);
    }
  }
  EXPECT_EQ(next, 10U);
}

EngineOptions with_large_writes() {
  EngineOptions options;
  options.max_writes_bytes = std::size_t{64} << 20;
  return options;
}

class LargeAppWrites : public AppWrites {
 protected:
  LargeAppWrites() : AppWrites(with_large_writes()) {}
};

// Pending tasks have their limits; what is only on its way through memory has one too.
TEST_F(LargeAppWrites, ThatPileUpAreRefusedAsOverload) {
  const std::string large(engine_.options().max_writes_bytes, 'x');
  for (const char* const key : {"1", "2", "3", "4"}) {
    submit(spec(key), large);
  }
  EXPECT_EQ(engine_.submit(spec("5"), {"x"}).code(), Code::kOverloaded);
  EXPECT_TRUE(engine_.submit(spec("5"), {}).ok());
  ASSERT_TRUE(engine_.flush().ok());
  EXPECT_TRUE(engine_.submit(spec("6"), {"x"}).ok());
  EXPECT_EQ(log_.writes().size(), 4U);
}

TEST(AppWritesOptions, AreCheckedByName) {
  EngineOptions options;
  options.max_writes_bytes = (std::size_t{64} << 20) + 1;
  const Status status = validate(options);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.text().find("max_writes_bytes"), std::string::npos);
}

// Four threads, each with its own keys: no writes are mixed up, lost or repeated.
TEST(AppWritesOfManyThreads, StayWithTheirRecords) {
  MemoryLog log(256);
  EngineParts parts;
  parts.journal = log.journal();
  Result<std::unique_ptr<Engine>> made = Engine::create({}, std::move(parts));
  ASSERT_TRUE(made.ok());
  Engine& engine = **made;
  ASSERT_TRUE(engine
                  .on("test",
                      [](Delivery delivery) {
                        const std::string text = "done " + std::string(delivery.key());
                        EXPECT_TRUE(delivery.done({text}).ok());
                      })
                  .ok());
  ASSERT_TRUE(engine.start().ok());
  constexpr int kCalls = 200;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&engine, thread] {
      for (int i = 0; i < kCalls; ++i) {
        const std::string key = std::to_string(thread) + "." + std::to_string(i);
        const bool cancelled = i % 2 == 0;
        const Deadline deadline = cancelled ? after(1h) : after(1ms);
        EXPECT_TRUE(engine.submit({.type = "test", .deadline = deadline, .key = key}, {key}).ok());
        if (cancelled) {
          EXPECT_TRUE(engine.cancel(key, {"cancel " + key}));
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_TRUE(eventually([&] { return engine.stats().pending == 0; }, 20s));
  ASSERT_TRUE(engine.stop().ok());
  std::vector<std::string> found;
  for (const MemoryLog::StoredBatch& batch : log.batches()) {
    std::size_t with_writes = 0;
    for (const MemoryLog::StoredOp& stored : batch.ops) {
      with_writes += stored.op.kind != OpKind::kType ? 1U : 0U;
    }
    EXPECT_EQ(with_writes, batch.writes.size());
    found.insert(found.end(), batch.writes.begin(), batch.writes.end());
  }
  EXPECT_EQ(found.size(), std::size_t{4} * kCalls * 2);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(std::unique(found.begin(), found.end()), found.end());
}

}  // namespace
}  // namespace countwheel
