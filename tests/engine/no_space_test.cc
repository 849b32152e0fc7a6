// A disk without space, on the threads of the engine.
#include <chrono>
#include <memory>
#include <string>
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

}  // namespace
}  // namespace countwheel
