// Restarted: the engine that a kill -9 at this moment would leave, at the same time on its clocks.
#ifndef COUNTWHEEL_TESTS_TESTING_RESTARTED_H_
#define COUNTWHEEL_TESTS_TESTING_RESTARTED_H_

#include <chrono>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/memory_log.h"

namespace countwheel::testing {

class Restarted {
 public:
  // `away`: for how long no process had the log.
  Restarted(const MemoryLog& log,
            const ManualClock& then,
            std::chrono::nanoseconds away = std::chrono::nanoseconds(0))
      : image_(log.killed()), clock(then.now()) {
    clock.advance(away);
    EngineOptions options;
    options.drive = Drive::kHost;
    Result<Recovered> recovered = recover(*image_, options, &clock, &executor_);
    EXPECT_TRUE(recovered.ok()) << recovered.status().text();
    summary = recovered->summary;
    engine = std::move(recovered->engine);
    EXPECT_EQ(engine->check_invariants(), "");
  }

 private:
  std::unique_ptr<MemoryLog> image_;
  InlineExecutor executor_;

 public:
  ManualClock clock;
  RestoreSummary summary;
  std::unique_ptr<Engine> engine;  // not started
};

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_RESTARTED_H_
