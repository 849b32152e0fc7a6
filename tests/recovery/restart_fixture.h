// Restart: one data directory, one manual clock, and crashes.
//
// A crash copies the directory as kill -9 would leave it and goes on with the copy; the engine that
// "died" is destroyed afterwards, out of the way. The engine is driven by the test.
#ifndef COUNTWHEEL_TESTS_RECOVERY_RESTART_FIXTURE_H_
#define COUNTWHEEL_TESTS_RECOVERY_RESTART_FIXTURE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/recovery.h>

#include "testing/directory.h"

namespace countwheel::testing {

class Restart : public ::testing::Test {
 protected:
  // One start of a handler.
  struct Run {
    std::uint64_t id = 0;
    std::int64_t wall_ns = 0;  // of the clock at the start
    std::int64_t deadline_ns = 0;
    std::int64_t lateness_ns = 0;
    bool overdue = false;
    std::uint32_t attempt = 0;
    std::string key;
    std::string payload;
  };

  Restart() {
    options_.engine.drive = Drive::kHost;
    options_.clock = &clock_;
    options_.executor = &executor_;
    options_.wal.attempt_cells = 64;
  }

  // Opens and starts with a handler for "work".
  void open() {
    Result<Opened> opened = countwheel::open(directory_, options_);
    ASSERT_TRUE(opened.ok()) << opened.status().text();
    engine_ = std::move(opened->engine);
    report_ = std::move(opened->report);
    ASSERT_TRUE(engine_
                    ->on(
                        "work", [this](Delivery d) { run(std::move(d)); }, policy_)
                    .ok());
    ASSERT_TRUE(engine_->start().ok());
  }

  // kill -9: what is on disk now is what the next open() finds.
  void crash() {
    const std::string image = temp_ / ("crash" + std::to_string(++crashes_));
    copy_directory(directory_, image);
    kept_.clear();
    engine_.reset();
    directory_ = image;
  }

  void crash_and_open() {
    crash();
    open();
  }

  TaskId schedule(const TaskSpec& spec) {
    const Result<TaskId> id = engine_->schedule(spec);
    EXPECT_TRUE(id.ok()) << id.status().text();
    return id.ok() ? *id : TaskId{};
  }

  // Moves time in small steps, polling after each, until `until` has passed on the boot face.
  void run_for(std::chrono::nanoseconds duration,
               std::chrono::nanoseconds step = std::chrono::milliseconds(10)) {
    while (duration.count() > 0) {
      const std::chrono::nanoseconds now = std::min(duration, step);
      clock_.advance(now);
      duration -= now;
      poll();
    }
  }
  void poll() {
    while (engine_->poll() > 0) {
    }
    EXPECT_TRUE(engine_->flush().ok());
  }

  std::int64_t wall_ns() const { return clock_.now().wall_ns; }
  std::chrono::nanoseconds since_t0() const { return std::chrono::nanoseconds(wall_ns() - t0_); }

  TempDirectory temp_;
  std::string directory_ = temp_ / "log";
  ManualClock clock_;
  const std::int64_t t0_ = clock_.now().wall_ns;
  InlineExecutor executor_;
  OpenOptions options_;
  TypePolicy policy_;
  RecoveryReport report_;
  std::vector<Run> runs_;
  bool keep_ = false;      // handlers keep their delivery instead of answering
  std::string fail_with_;  // handlers fail with this text instead
  std::unique_ptr<Engine> engine_;
  std::vector<Delivery> kept_;

 private:
  void run(Delivery delivery) {
    runs_.push_back({delivery.id().value,
                     wall_ns(),
                     delivery.deadline().time_since_epoch().count(),
                     delivery.lateness().count(),
                     delivery.overdue(),
                     delivery.attempt(),
                     std::string(delivery.key()),
                     std::string(delivery.payload())});
    if (keep_) {
      kept_.push_back(std::move(delivery));
    } else if (!fail_with_.empty()) {
      EXPECT_TRUE(delivery.fail(fail_with_).ok());
    } else {
      EXPECT_TRUE(delivery.done().ok());
    }
  }

  int crashes_ = 0;
};

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_RECOVERY_RESTART_FIXTURE_H_
