// After the log has failed for good: nobody waits for ever, nothing unknown starts, work goes on.
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
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

class FailedLog : public ::testing::Test {
 protected:
  FailedLog() : host_({}, nullptr, log_.journal()) {
    log_.before_append = [this](const Batch&) {
      return failing_ ? Status(Code::kJournalFailed, "EIO") : Status();
    };
  }

  MemoryLog log_;
  std::atomic<bool> failing_{false};
  HostEngine host_;
};

TEST_F(FailedLog, WhoWaitsForDiskBehindAWrittenOperationIsTold) {
  host_.run();
  const Result<TaskId> written = host_.engine->schedule(
      {.type = "test", .deadline = after(1h), .durability = Durability::kOs});
  ASSERT_TRUE(written.ok());
  const Lsn lsn = host_.engine->durable_lsn(Durability::kOs);
  failing_ = true;
  EXPECT_EQ(host_.engine->wait_durable(lsn, Durability::kDisk, 10s).code(), Code::kJournalFailed);
  EXPECT_TRUE(host_.engine->wait_durable(lsn, Durability::kOs).ok());
  EXPECT_EQ(host_.engine->submit({.type = "test", .deadline = after(1h)}).code(),
            Code::kJournalFailed);
}

// Day orders share their deadline, so a dead entry of the slot's last tenant fits the new one.
TEST_F(FailedLog, ATaskOfUnknownOutcomeDoesNotStartThroughADeadEntryOfItsSlot) {
  host_.run();
  const WallTime close(std::chrono::nanoseconds(host_.clock.now().wall_ns) + 1h);
  const TaskId last_tenant = host_.schedule(at(close));
  ASSERT_TRUE(host_.engine->cancel(last_tenant));
  host_.engine->poll();
  failing_ = true;
  const Result<Submitted> unknown = host_.engine->submit({.type = "test", .deadline = at(close)});
  ASSERT_TRUE(unknown.ok());
  ASSERT_EQ(unknown->id.index(), last_tenant.index());
  EXPECT_EQ(host_.engine->wait_durable(unknown->lsn).code(), Code::kJournalFailed);
  host_.advance(2h);
  EXPECT_TRUE(host_.started.empty());
}

TEST_F(FailedLog, DurableTasksRunAndAreTriedAgain) {
  int starts = 0;
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(1s);
  ASSERT_TRUE(host_.engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        ++starts;
                        EXPECT_TRUE((starts < 3 ? d.fail("again") : d.done()).ok());
                      },
                      policy)
                  .ok());
  ASSERT_TRUE(host_.engine->start().ok());
  host_.schedule(after(1s));
  failing_ = true;
  for (int i = 0; i < 5; ++i) {
    host_.advance(1s);
  }
  EXPECT_EQ(starts, 3);
  EXPECT_EQ(host_.engine->stats().pending, 0U);
  EXPECT_EQ(host_.engine->check_invariants(), "");
}

// More attempts than there are cells, none of whose ends can be written.
TEST_F(FailedLog, CellsAreUsedAgainAndTheLatestKeepTheirMarks) {
  host_.run();
  for (int i = 0; i < 500; ++i) {
    host_.schedule(after(1s));
  }
  failing_ = true;
  host_.advance(1s);
  host_.advance(1s);
  EXPECT_EQ(host_.started.size(), 500U);
  const std::unique_ptr<MemoryLog> image = log_.killed();
  InlineExecutor executor;
  EngineOptions options;
  options.drive = Drive::kHost;
  const Result<testing::Recovered> recovered = recover(*image, options, &host_.clock, &executor);
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered->summary.live, 500U);
  EXPECT_GT(recovered->summary.redelivered, 0U);
  EXPECT_EQ(recovered->summary.crashed, 0U) << "every handler had ended";
}

TEST_F(FailedLog, WithPolicyStopTheWorkersRest) {
  EngineOptions options;
  options.on_journal_failure = FailurePolicy::kStop;
  options.workers = 1;
  MemoryLog log;
  std::atomic<bool> failing{false};
  log.before_append = [&](const Batch&) {
    return failing ? Status(Code::kJournalFailed, "EIO") : Status();
  };
  EngineParts parts;
  parts.journal = log.journal();
  Result<std::unique_ptr<Engine>> engine = Engine::create(options, std::move(parts));
  ASSERT_TRUE(engine.ok());
  std::atomic<int> starts{0};
  ASSERT_TRUE((*engine)
                  ->on("test",
                       [&](Delivery d) {
                         if (++starts == 1) {
                           failing = true;
                           EXPECT_EQ(
                               (*engine)->schedule({.type = "test", .deadline = after(1h)}).code(),
                               Code::kJournalFailed);
                         }
                         (void)d.done();
                       })
                  .ok());
  ASSERT_TRUE((*engine)->start().ok());
  std::vector<TaskSpec> specs(100, {.type = "test", .deadline = after(1ms)});
  std::vector<Submitted> made(specs.size());
  ASSERT_TRUE((*engine)->pause().ok());  // until all are there
  ASSERT_TRUE((*engine)->submit_batch(specs, made).ok());
  ASSERT_TRUE((*engine)->resume().ok());
  const auto give_up = std::chrono::steady_clock::now() + 10s;
  while ((*engine)->stats().health != Health::kFailed) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up);
    std::this_thread::yield();
  }
  // A worker that does not rest would never leave: stop() waits for it.
  EXPECT_TRUE((*engine)->stop(10s).ok());
  EXPECT_LT(starts, 100);
}

}  // namespace
}  // namespace countwheel
