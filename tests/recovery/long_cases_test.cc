// Days and millions on a real log and a manual clock. COUNTWHEEL_SHARE divides the numbers.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "recovery/restart_fixture.h"
#include "testing/long_run.h"

namespace countwheel::testing {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::int64_t kTickNs = 10'000'000;

class EngineCases : public Restart {
 protected:
  EngineCases() {
    options_.engine.durability = Durability::kMemory;
    options_.engine.os_sync_bound = hours(1);
  }
};

// 10,000,000 pairs of a schedule and a cancel that both reach the log, at most 1,000 live.
TEST_F(EngineCases, B38_TheLogForgetsCancelledTasks) {
  open();
  const std::int64_t pairs = share_of(10'000'000);
  std::vector<TaskId> ids(1000);
  for (std::int64_t i = 0; i < pairs; ++i) {
    TaskId& place = ids[static_cast<std::size_t>(i) % ids.size()];
    if (place) {
      ASSERT_TRUE(engine_->submit_cancel(place));
    }
    const Result<Submitted> submitted =
        engine_->submit({.type = "work", .deadline = after(days(7))});
    ASSERT_TRUE(submitted.ok()) << submitted.status().text();
    place = submitted->id;
    if (i % 500 == 0) {
      engine_->poll();
    }
  }
  poll();
  const Stats before = engine_->stats();
  EXPECT_EQ(before.pending, 1000U);
  // What is not live is let go at 64 MiB, plus one memtable.
  EXPECT_LE(before.journal.log_bytes, std::uint64_t{80} << 20);
  crash_and_open();
  const Stats after_crash = engine_->stats();
  EXPECT_EQ(after_crash.pending, 1000U);
  // Live bytes: all a compaction would keep.
  const std::uint64_t live_bytes = after_crash.pending_bytes + after_crash.pending * 64;
  EXPECT_LE(live_bytes, std::uint64_t{4} << 20);
  EXPECT_TRUE(runs_.empty());
}

// The payload of a task: its number and what follows from it.
std::string numbered_payload(std::int64_t number) {
  std::mt19937 random(static_cast<std::uint32_t>(number));
  std::string payload(sizeof(number) + random() % 64, static_cast<char>(random()));
  std::memcpy(payload.data(), &number, sizeof(number));
  return payload;
}

class ThirtyDays : public EngineCases {
 protected:
  static constexpr std::int64_t kFull = std::int64_t{30} * 24 * 3600;

  nanoseconds random_delay() { return seconds(2) + nanoseconds(random_() % 7'200'000'000'000); }

  // One task in each second; every tenth cancels the one before, every tenth moves it.
  void second(std::int64_t number) {
    const std::string payload = numbered_payload(number);
    const Result<Submitted> submitted =
        engine_->submit({.type = "work", .deadline = after(random_delay()), .payload = payload});
    ASSERT_TRUE(submitted.ok()) << submitted.status().text();
    if (number % 10 == 3) {
      ASSERT_TRUE(engine_->submit_cancel(last_));
      ++cancelled_;
    } else if (number % 10 == 7) {
      ASSERT_TRUE(engine_->submit_reschedule(last_, after(random_delay())));
      ++moved_;
    }
    last_ = submitted->id;
    sleep_until(clock_.now().boot_ns + 1'000'000'000);
  }

  // As a host would: woken whenever the engine says.
  void sleep_until(std::int64_t boot_ns) {
    engine_->poll();
    for (;;) {
      const Instant now = clock_.now();
      const Instant wake = engine_->next_wake();
      const std::int64_t left = boot_ns - now.boot_ns;
      const std::int64_t sleep =
          std::min({left,
                    wake.boot_ns == kNever ? left : wake.boot_ns - now.boot_ns,
                    wake.wall_ns == kNever ? left : wake.wall_ns - now.wall_ns});
      clock_.advance(nanoseconds(std::max<std::int64_t>(sleep, 0)));
      engine_->poll();
      if (sleep == left) {
        return;
      }
    }
  }

  // Each once, on time, with its own bytes.
  void check_runs() {
    for (const Run& run : runs_) {
      std::int64_t number = -1;
      ASSERT_GE(run.payload.size(), sizeof(number));
      std::memcpy(&number, run.payload.data(), sizeof(number));
      ASSERT_EQ(run.payload, numbered_payload(number));
      ASSERT_FALSE(seen_.at(static_cast<std::size_t>(number))) << number;
      seen_[static_cast<std::size_t>(number)] = true;
      ASSERT_GE(run.wall_ns, run.deadline_ns);
      late_ += run.lateness_ns > kTickNs ? 1 : 0;
      ++ran_;
    }
    runs_.clear();
  }
  void check_conserved() {
    const Stats stats = engine_->stats();
    ASSERT_EQ(stats.scheduled,
              stats.done + stats.cancelled + stats.dead + stats.replaced + stats.pending);
    ASSERT_EQ(engine_->check_invariants(), "");
  }

  std::mt19937_64 random_{seed_from_environment(39)};
  TaskId last_;
  std::vector<bool> seen_;
  std::int64_t cancelled_ = 0;
  std::int64_t moved_ = 0;
  std::int64_t ran_ = 0;
  std::int64_t late_ = 0;
};

// 2,592,000 tasks at the full length.
TEST_F(ThirtyDays, B39_DeliveryDoesNotStopAfterDays) {
  open();
  static_assert(kFull == 2'592'000);
  const std::int64_t accepted = share_of(kFull);
  seen_.resize(static_cast<std::size_t>(accepted));
  for (std::int64_t number = 0; number < accepted; ++number) {
    ASSERT_NO_FATAL_FAILURE(second(number));
    if (number % 10'000 == 0) {
      ASSERT_NO_FATAL_FAILURE(check_runs());
    }
    if (number % (accepted / 4) == accepted / 4 - 1 && number < accepted * 7 / 8) {
      ASSERT_NO_FATAL_FAILURE(check_conserved());
      poll();
      ASSERT_NO_FATAL_FAILURE(crash_and_open());  // 3 times
      EXPECT_EQ(report_.redelivered, 0U);
    }
  }
  sleep_until(clock_.now().boot_ns + 2 * 7'200'000'000'000);
  check_runs();
  check_conserved();
  EXPECT_EQ(cancelled_, accepted / 10);
  EXPECT_EQ(moved_, accepted / 10);
  EXPECT_EQ(ran_ + cancelled_, accepted);
  EXPECT_EQ(late_, 0);
  EXPECT_EQ(engine_->stats().pending, 0U);
}

}  // namespace
}  // namespace countwheel::testing
