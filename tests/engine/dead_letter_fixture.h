// An engine whose handler fails, and what a crash leaves of it.
#ifndef COUNTWHEEL_TESTS_ENGINE_DEAD_LETTER_FIXTURE_H_
#define COUNTWHEEL_TESTS_ENGINE_DEAD_LETTER_FIXTURE_H_

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"
#include "testing/memory_log.h"

namespace countwheel::testing {

// An engine on a log whose handler fails every attempt until it is told otherwise.
class FailingEngine : public HostEngine {
 public:
  explicit FailingEngine(TypePolicy policy = one_attempt(),
                         std::unique_ptr<Journal> journal = nullptr,
                         EngineOptions options = {})
      : HostEngine(options, nullptr, std::move(journal)) {
    EXPECT_TRUE(engine->on("test", handler(), policy).ok());
    EXPECT_TRUE(engine->start().ok());
  }

  static TypePolicy one_attempt() {
    TypePolicy policy;
    policy.retry.max_attempts = 1;
    return policy;
  }

  Handler handler() {
    return [this](Delivery d) {
      ++runs;
      if (succeed) {
        EXPECT_TRUE(d.done().ok());
      } else {
        EXPECT_TRUE(d.fail("no luck with " + std::string(d.key())).ok());
      }
    };
  }

  // Schedules a task and lets it die.
  TaskId bury(std::string_view key = {}, std::string_view payload = {}) {
    const TaskId id = schedule(after(std::chrono::seconds(0)), key, payload);
    advance(std::chrono::milliseconds(1));
    EXPECT_EQ(engine->find(id)->state, State::kDead);
    return id;
  }

  int runs = 0;
  bool succeed = false;
};

// The engine that a crash now would leave; it has the same failing handler.
class AfterCrash {
 public:
  explicit AfterCrash(const MemoryLog& log, EngineOptions options = {}) : image_(log.killed()) {
    options.drive = Drive::kHost;
    Result<Recovered> recovered = recover(*image_, options, &clock_, &executor_);
    EXPECT_TRUE(recovered.ok()) << recovered.status().text();
    engine = std::move(recovered->engine);
    EXPECT_TRUE(engine->on("test", [](Delivery d) { EXPECT_TRUE(d.done().ok()); }).ok());
    EXPECT_TRUE(engine->start().ok());
    engine->poll();
  }

 private:
  std::unique_ptr<MemoryLog> image_;
  ManualClock clock_;
  InlineExecutor executor_;

 public:
  std::unique_ptr<Engine> engine;
};

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_ENGINE_DEAD_LETTER_FIXTURE_H_
