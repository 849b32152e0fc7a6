// When the log fails with an unknown outcome: nothing is accepted any more, what is durable goes on
// running or stops as the policy says, and nobody is told what is not known.
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

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
using testing::ThreadedEngine;

class JournalFailed : public ::testing::Test {
 protected:
  explicit JournalFailed(EngineOptions options = {})
      : host_(options, nullptr, std::make_unique<FaultJournal>(&faults_, log_.journal())),
        engine_(*host_.engine) {}

  void fail() {
    faults_.answer(Code::kJournalFailed);
    EXPECT_EQ(engine_.flush().code(), Code::kJournalFailed);
  }

  MemoryLog log_;
  Faults faults_;
  HostEngine host_;
  Engine& engine_;
};

TEST_F(JournalFailed, TheCallerAndTheHealthSaySo) {
  host_.run();
  faults_.answer(Code::kJournalFailed);
  const Result<TaskId> id = engine_.schedule({.type = "test", .deadline = after(1s)});
  EXPECT_EQ(id.code(), Code::kJournalFailed);
  EXPECT_NE(id.status().text().find("the test said so"), std::string::npos);
  EXPECT_EQ(engine_.stats().health, Health::kFailed);
  EXPECT_NE(engine_.stats().health_reason.find("the test said so"), std::string::npos);
  // It does not come back by itself.
  faults_.answer(Code::kOk);
  engine_.poll();
  EXPECT_EQ(engine_.submit({.type = "test", .deadline = after(1s)}).code(), Code::kJournalFailed);
  EXPECT_EQ(engine_.cancel("K").status.code(), Code::kJournalFailed);
  EXPECT_EQ(engine_.reschedule("K", after(1s)).status.code(), Code::kNotFound);
}

TEST_F(JournalFailed, WhatIsDurableGoesOnRunning) {
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(1s);
  policy.retry.max_attempts = 3;
  host_.run(policy);
  int failures = 0;
  ASSERT_TRUE(engine_
                  .on(
                      "fails",
                      [&](Delivery d) {
                        ++failures;
                        (void)d.fail("no");
                      },
                      policy)
                  .ok());
  for (int i = 1; i <= 10; ++i) {
    host_.schedule(after(1s * i));
  }
  ASSERT_TRUE(engine_.schedule({.type = "fails", .deadline = after(1s)}));
  ASSERT_TRUE(engine_.submit({.type = "test", .deadline = after(1s), .key = "unknown"}));
  fail();
  host_.advance_by_steps(20s, 100ms);
  EXPECT_EQ(host_.started.size(), 10U);
  EXPECT_EQ(failures, 3);
  EXPECT_EQ(engine_.stats().done, 10U);
  EXPECT_EQ(engine_.stats().dead, 1U);
}

TEST_F(JournalFailed, WhatIsUnknownStaysAsItIsInMemory) {
  host_.run();
  host_.schedule(after(10s), "cancelled");
  host_.schedule(after(10s), "moved");
  const TaskSpec unknown{.type = "test", .deadline = after(10s), .key = "scheduled"};
  ASSERT_TRUE(engine_.submit(unknown));
  EXPECT_TRUE(engine_.submit_cancel("cancelled"));
  EXPECT_TRUE(engine_.submit_reschedule("moved", after(1h)));
  fail();
  EXPECT_EQ(engine_.find("cancelled").code(), Code::kNotFound);
  EXPECT_TRUE(engine_.find("scheduled").ok());
  host_.advance(10s);
  // Neither the one whose schedule nobody knows of, nor one at a deadline it may have lost.
  EXPECT_TRUE(host_.started.empty());
  EXPECT_EQ(engine_.check_invariants(), "");
}

class StopsAtFailure : public JournalFailed {
 protected:
  static EngineOptions options() {
    EngineOptions options;
    options.on_journal_failure = FailurePolicy::kStop;
    return options;
  }
  StopsAtFailure() : JournalFailed(options()) {}
};

TEST_F(StopsAtFailure, NoHandlerStartsAnyMore) {
  host_.run();
  for (int i = 0; i < 10; ++i) {
    host_.schedule(after(1s));
  }
  ASSERT_TRUE(engine_.submit({.type = "test", .deadline = after(2s)}));
  fail();
  for (int i = 0; i < 10; ++i) {
    host_.advance(1s);
  }
  EXPECT_TRUE(host_.started.empty());
  EXPECT_EQ(engine_.stats().backlog, 10U);
  EXPECT_EQ(engine_.stats().pending, 11U);
}

TEST(JournalFailedThreads, WaitersAreToldAndTheEngineStops) {
  Faults faults;
  ThreadedEngine threaded({}, std::make_unique<FaultJournal>(&faults));
  threaded.run();
  threaded.schedule(after(1s), "durable");
  faults.hold();
  std::vector<std::thread> callers;
  std::array<Code, 4> codes{};
  for (std::size_t i = 0; i < codes.size(); ++i) {
    callers.emplace_back([&, i] {
      codes[i] = threaded.engine->schedule({.type = "test", .deadline = after(1s)}).code();
    });
  }
  ASSERT_TRUE(eventually([&] { return faults.waiting(); }));
  faults.answer(Code::kJournalFailed);
  faults.release();
  for (std::thread& caller : callers) {
    caller.join();
  }
  for (const Code code : codes) {
    EXPECT_EQ(code, Code::kJournalFailed);
  }
  threaded.clock.advance(1s);
  ASSERT_TRUE(threaded.wait_starts(1));
  EXPECT_EQ(threaded.starts()[0].key, "durable");
  EXPECT_TRUE(threaded.engine->stop().ok());
  EXPECT_EQ(threaded.start_count(), 1U);
}

}  // namespace
}  // namespace countwheel
