// Restarts of logs that are long or old: many pending tasks, and one task that outlives a month of
// others.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "recovery/restart_fixture.h"

namespace countwheel::testing {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class RecoveryCases : public Restart {};

TEST_F(RecoveryCases, B60_ATaskOfAMonthIsNotWrittenAgainAndAgain) {
  options_.wal.min_log_bytes = 64 << 10;
  options_.wal.memtable_bytes = 64 << 10;
  open();
  const TaskId month = schedule({.type = "work", .deadline = after(days(30)), .key = "month"});
  std::uint64_t ops = 0;
  std::uint64_t reappended = 0;
  for (int day = 0; day < 30; ++day) {
    // 100 other tasks a second, for ten seconds of the day.
    for (int second = 0; second < 10; ++second) {
      for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(engine_
                        ->submit({.type = "work",
                                  .deadline = after(milliseconds(500)),
                                  .payload = "another task"})
                        .ok());
      }
      run_for(seconds(1), milliseconds(100));
    }
    // The rest of the day moves it from level to level and writes nothing.
    ASSERT_TRUE(engine_->flush().ok());
    const Stats before = engine_->stats();
    run_for(day < 29 ? hours(24) - seconds(10) : hours(23), hours(1));
    EXPECT_EQ(engine_->stats().ops, before.ops);
    ops += engine_->stats().ops;
    reappended += engine_->stats().reappended;
    crash_and_open();
    EXPECT_EQ(report_.live, 1U);
    ASSERT_TRUE(engine_->find(month).ok());
  }
  ASSERT_EQ(runs_.size(), 30'000U);
  run_for(hours(1) - seconds(10), std::chrono::minutes(10));
  ASSERT_EQ(runs_.size(), 30'001U);  // exactly one run of it
  EXPECT_EQ(runs_.back().key, "month");
  EXPECT_EQ(runs_.back().wall_ns - t0_, nanoseconds(days(30)).count());
  // What the cleaner carried on is counted apart, and the whole is at most twice what was asked.
  EXPECT_GT(reappended, 0U);
  EXPECT_LE(ops, 2 * (ops - reappended));
}

// A thousand tasks due one after the other, with `pending` others behind them. The clock stands
// still while the engine works, so lateness is the work between due and started; it is measured in
// time of this thread's processor, which other processes do not lengthen.
class Backlog : public Restart {
 protected:
  static nanoseconds cpu_now() {
    timespec now = {};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
  }

  void fill(int pending) {
    directory_ = temp_ / std::to_string(pending);
    open();
    for (int i = 0; i < pending; ++i) {
      ASSERT_TRUE(engine_
                      ->submit({.type = "work",
                                .deadline = after(hours(2) + milliseconds(i)),
                                .payload = "16 bytes of it.."})
                      .ok());
      if (i % 16'384 == 0) {
        ASSERT_TRUE(engine_->flush(Durability::kOs).ok());
      }
    }
    ASSERT_TRUE(engine_->flush().ok());
    crash();
  }

  void open_with_progress() {
    int told = 0;
    bool recovering = false;
    steady_clock::time_point last = steady_clock::now();
    nanoseconds longest_silence{0};
    options_.progress = [&](const RecoveryProgress& progress) {
      ++told;
      recovering |= progress.engine->find("key").code() == Code::kRecovering;
      longest_silence = std::max<nanoseconds>(longest_silence, steady_clock::now() - last);
      last = steady_clock::now();
    };
    open();
    options_.progress = nullptr;
    EXPECT_GE(told, 2);
    EXPECT_TRUE(recovering);
    EXPECT_LT(longest_silence, seconds(10));  // within 1 s, ten times that on a busy machine
    EXPECT_GT(report_.ops_per_second, 0);
    std::printf("%s\n", report_.text().c_str());
  }

  nanoseconds lateness_p99() {
    std::vector<nanoseconds> lateness;
    nanoseconds due_at{0};
    EXPECT_TRUE(engine_
                    ->on("soon",
                         [&](Delivery delivery) {
                           lateness.push_back(cpu_now() - due_at);
                           EXPECT_TRUE(delivery.done().ok());
                         })
                    .ok());
    for (int i = 1; i <= 1000; ++i) {
      EXPECT_TRUE(engine_->submit({.type = "soon", .deadline = after(milliseconds(i))}).ok());
    }
    EXPECT_TRUE(engine_->flush().ok());
    for (int i = 1; i <= 1000; ++i) {
      clock_.advance(milliseconds(1));
      due_at = cpu_now();
      EXPECT_EQ(engine_->poll(), 1U) << i;
    }
    std::sort(lateness.begin(), lateness.end());
    EXPECT_EQ(lateness.size(), 1000U);
    return lateness.empty() ? nanoseconds::max() : lateness[lateness.size() * 99 / 100];
  }
};

TEST_F(Backlog, B61_AMillionPendingReportProgressAndDelayNobody) {
  fill(1000);
  open_with_progress();
  EXPECT_EQ(report_.live, 1000U);
  const nanoseconds thousand = lateness_p99();
  engine_.reset();
  fill(1'000'000);
  open_with_progress();
  EXPECT_EQ(report_.live, 1'000'000U);
  const nanoseconds million = lateness_p99();
  std::printf("lateness p99: %.1f us with 1 k pending, %.1f us with 1 M\n",
              static_cast<double>(thousand.count()) / 1e3,
              static_cast<double>(million.count()) / 1e3);
  EXPECT_LE(million, 2 * std::max<nanoseconds>(thousand, std::chrono::microseconds(100)));
}

}  // namespace
}  // namespace countwheel::testing
