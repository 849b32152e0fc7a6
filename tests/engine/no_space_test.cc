// A disk without space, on the threads of the engine.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/fault_journal.h"
#include "testing/memory_log.h"
#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::FaultJournal;
using testing::Faults;
using testing::MemoryLog;
using testing::ThreadedEngine;

// A clock that a thread may be made to wait for: between what a call asks before it decides and
// the decision.
class HeldClock final : public Clock {
 public:
  static thread_local std::function<void()> before_next;

  Instant now() const noexcept override {
    if (before_next) {
      std::exchange(before_next, nullptr)();
    }
    return manual_.now();
  }
  Session session() const override { return manual_.session(); }
  std::unique_ptr<Sleeper> make_sleeper() override { return manual_.make_sleeper(); }

 private:
  ManualClock manual_;
};

thread_local std::function<void()> HeldClock::before_next;

TEST(WalCases, B42_WithoutSpaceNothingIsAcceptedAndWhatIsDueRuns) {
  MemoryLog log;
  Faults faults;
  ThreadedEngine threaded({}, std::make_unique<FaultJournal>(&faults, log.journal()));
  threaded.run();
  for (int i = 0; i < 50; ++i) {
    threaded.schedule(after(1s), "pending " + std::to_string(i));
  }
  faults.answer(Code::kNoSpace);
  for (int i = 0; i <= 100; ++i) {  // the first failure and 100 more tries
    EXPECT_EQ(threaded.engine->schedule({.type = "test", .deadline = after(1s)}).code(),
              Code::kNoSpace);
  }
  threaded.clock.advance(1s);
  ASSERT_TRUE(threaded.wait_starts(50));  // nothing refused is among them
  ASSERT_TRUE(eventually([&] { return threaded.engine->stats().done == 50; }));
  EXPECT_EQ(threaded.start_count(), 50U);
  EXPECT_EQ(threaded.engine->stats().health, Health::kDegraded);
  EXPECT_GT(threaded.engine->stats().durable_lag, 0U);  // not yet in the log
  faults.answer(Code::kOk);
  // Within 10 s, without a restart.
  EXPECT_TRUE(eventually(
      [&] {
        return threaded.engine->schedule({.type = "test", .deadline = after(1h), .key = "after"})
            .ok();
      },
      10s));
  ASSERT_TRUE(threaded.engine->flush().ok());
  const std::unique_ptr<MemoryLog> image = log.killed();
  ManualClock clock;
  InlineExecutor executor;
  EngineOptions options;
  options.drive = Drive::kHost;
  const Result<testing::Recovered> recovered = testing::recover(*image, options, &clock, &executor);
  ASSERT_TRUE(recovered.ok());
  const std::vector<TaskInfo> left = recovered->engine->list({}, 100);
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].key, "after");
}

// The calls accepted before a refusal and decided while it takes back what was queued: they are
// told ok at `memory`, so what they did must not be taken back with what they stood on.
TEST(Refusal, WhatIsAcknowledgedMeanwhileIsNotTakenBackWithIt) {
  for (const bool was_there : {false, true}) {
    HeldClock clock;
    MemoryLog log;
    Faults faults;
    ThreadedEngine threaded({}, std::make_unique<FaultJournal>(&faults, log.journal()), &clock);
    threaded.run();
    Engine& engine = *threaded.engine;
    if (was_there) {
      threaded.schedule(after(1h), "K", "first");
    }
    ASSERT_TRUE(engine.flush().ok());
    TaskSpec spec{.type = "test", .deadline = after(1h), .key = "K", .payload = "refused"};
    spec.key_policy = KeyPolicy::kReplace;
    faults.hold();
    const Result<Submitted> refused = engine.submit(spec);
    ASSERT_TRUE(refused.ok());
    ASSERT_TRUE(eventually([&] { return faults.waiting(); }));
    for (int i = 0; i < 20'000; ++i) {  // taken back before it, which gives the call below time
      ASSERT_TRUE(engine.submit({.type = "test", .deadline = after(1h)}).ok());
    }
    spec.payload = "acknowledged";
    spec.durability = Durability::kMemory;
    std::atomic<bool> accepted{false};
    Code answer = Code::kOk;
    std::thread caller([&] {
      HeldClock::before_next = [&] {
        accepted = true;
        while (engine.submit_cancel(TaskId{}).status.code() != Code::kNoSpace) {
          std::this_thread::yield();
        }
      };
      answer = engine.submit(spec).code();
    });
    EXPECT_TRUE(eventually([&] { return accepted.load(); }));
    faults.answer(Code::kNoSpace);
    faults.release();
    caller.join();
    EXPECT_EQ(engine.wait_durable(refused->lsn).code(), Code::kNoSpace);
    ASSERT_EQ(answer, Code::kOk);
    ASSERT_TRUE(engine.find("K").ok()) << was_there;
    EXPECT_EQ(engine.find("K")->payload, "acknowledged");
    EXPECT_EQ(engine.stats().pending, 1U);
    EXPECT_EQ(engine.check_invariants(), "");
    faults.answer(Code::kOk);
    EXPECT_TRUE(eventually([&] { return engine.flush().ok(); }, 10s));
    const std::unique_ptr<MemoryLog> image = log.killed();
    ManualClock later;
    InlineExecutor executor;
    EngineOptions options;
    options.drive = Drive::kHost;
    const Result<testing::Recovered> recovered =
        testing::recover(*image, options, &later, &executor);
    ASSERT_TRUE(recovered.ok()) << recovered.status().text();
    ASSERT_EQ(recovered->engine->list({}, 100).size(), 1U);
    EXPECT_EQ(recovered->engine->find("K")->payload, "acknowledged");
  }
}

}  // namespace
}  // namespace countwheel
