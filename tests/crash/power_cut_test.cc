// Power failures of a running engine, 200 times at random moments: a file system remembers what was
// fsynced and leaves an image of what a dead machine could find, the fence and the attempt cells
// included; the next engine opens the image and works on it. What was acknowledged at `disk` must
// be there, what was cancelled at `disk` must not.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <rocksdb/env.h>

#include <countwheel/recovery.h>

#include "testing/directory.h"
#include "testing/power_cut_fs.h"
#include "testing/truth.h"
#include "testing/workload.h"

namespace countwheel::testing {
namespace {

namespace fs = std::filesystem;

using std::chrono::steady_clock;

class PowerCut : public ::testing::Test {
 protected:
  PowerCut() : truth_(new Truth()) {}

  // A machine that is switched on with what the last one left.
  void power_on() {
    const std::string start = std::to_string(++starts_);
    fs_ = std::make_shared<PowerCutFs>(directory_, temp_ / ("shadow" + start));
    env_ = make_env(fs_);
    OpenOptions options;
    options.wal.env = env_.get();
    options.wal.boot_id = "boot" + start;
    options.wal.memtable_bytes = 256 << 10;
    options.wal.min_log_bytes = 256 << 10;
    options.wal.attempt_cells = 512;  // two pages
    Result<Opened> opened = countwheel::open(directory_, options);
    ASSERT_TRUE(opened.ok()) << "start " << start << ": " << opened.status().text();
    engine_ = std::move(opened->engine);
    report_ = std::move(opened->report);
    ++truth_->recoveries;
    truth_->torn += report_.torn_bytes > 0 ? 1 : 0;
    truth_->redelivered += static_cast<std::uint32_t>(report_.redelivered);
  }

  void power_off() {
    engine_.reset();
    ASSERT_EQ(fs_->unmodelled_count(), 0U);
    ASSERT_EQ(fs_->early_log_count(), 0U);
    env_.reset();
    dropped_bytes_ += fs_->dropped_bytes();
    fs_.reset();
  }

  void work_for(Workload* workload, std::chrono::microseconds duration) {
    const steady_clock::time_point until = steady_clock::now() + duration;
    while (steady_clock::now() < until) {
      workload->sweep();
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }

  // One machine with one truth: power cuts until there were `wanted` in all or the truth has no
  // room for more, then everything that is owed runs. How many cuts fit depends on how fast the
  // machine is.
  void cut_until_full(int wanted, std::mt19937_64& random, int* cuts) {
    std::vector<TruthState> before;
    std::vector<TruthState> after;
    for (;;) {
      power_on();
      if (HasFatalFailure()) {
        return;
      }
      verify_and_resync(*engine_, before, after, level_of(Durability::kDisk), truth_.get());
      ASSERT_EQ(truth_->violation_count, 0U) << truth_->violations.data();
      Workload workload(*engine_, *truth_);
      ASSERT_TRUE(engine_->start().ok());
      if (*cuts == wanted || truth_->size() > Truth::kCapacity / 2) {
        EXPECT_TRUE(drain(*engine_, workload, 60));
        EXPECT_TRUE(engine_->stop().ok());
        break;
      }
      workload.drive({Durability::kDisk, Durability::kOs, Durability::kMemory, Durability::kDisk},
                     random());
      work_for(&workload, std::chrono::microseconds(500 + random() % 25'000));
      before = snapshot(*truth_);
      cut(random, &workload, cuts);
      after = snapshot(*truth_);
      ASSERT_EQ(truth_->violation_count, 0U) << "cut " << *cuts << "\n"
                                             << truth_->violations.data();
    }
    verify_at_rest(truth_.get());
    EXPECT_EQ(truth_->violation_count, 0U) << truth_->violations.data();
    power_off();
    fs::remove_all(directory_);
  }

  // The power fails; directory_ becomes what the next start finds.
  void cut(std::mt19937_64& random, Workload* workload, int* cuts) {
    const std::string image = temp_ / ("machine" + std::to_string(++*cuts));
    fs_->cut(image, random);
    workload->abandon();
    workload->join();
    // What runs on is the ghost of a machine without power.
    EXPECT_TRUE(engine_->stop().ok());
    power_off();
    fs::remove_all(directory_);
    directory_ = image;
  }

  struct Figures {
    unsigned long long tasks = 0;
    unsigned long long redelivered = 0;
    unsigned long long torn = 0;
  };

  TempDirectory temp_;
  std::string directory_ = temp_ / "machine0";
  int starts_ = 0;
  std::unique_ptr<Truth> truth_;
  std::shared_ptr<PowerCutFs> fs_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<Engine> engine_;
  RecoveryReport report_;
  unsigned long long dropped_bytes_ = 0;
};

int cuts_wanted() {
  const char* const seconds = std::getenv("COUNTWHEEL_SOAK_SECONDS");
  return seconds == nullptr ? 200 : std::max(200, std::atoi(seconds) * 8);
}

TEST_F(PowerCut, NothingAcknowledgedAtDiskIsLostAndNothingCancelledComesBack) {
  std::mt19937_64 random(seed_from_environment(8));
  const int wanted = cuts_wanted();
  int cuts = 0;
  Figures sum;
  while (cuts < wanted) {
    const int before = cuts;
    cut_until_full(wanted, random, &cuts);
    if (HasFatalFailure()) {
      return;
    }
    ASSERT_GT(cuts, before);
    sum.tasks += truth_->size();
    sum.redelivered += truth_->redelivered;
    sum.torn += truth_->torn;
    truth_ = std::make_unique<Truth>();
  }
  EXPECT_GT(sum.redelivered, 0U);
  EXPECT_GT(dropped_bytes_, 0U);
  std::printf("%d cuts, %llu tasks, %llu redelivered, %llu torn tails, %llu unsynced bytes\n",
              cuts,
              sum.tasks,
              sum.redelivered,
              sum.torn,
              dropped_bytes_);
}

// The test of the test: power failures do take what was only written, and it would be noticed.
TEST_F(PowerCut, WhatWasOnlyWrittenMayBeLost) {
  std::mt19937_64 random(seed_from_environment(5));
  std::vector<TruthState> before;
  std::vector<TruthState> after;
  for (int cuts = 0; cuts < 30 && truth_->violation_count == 0;) {
    power_on();
    if (HasFatalFailure()) {
      return;
    }
    verify_and_resync(*engine_, before, after, level_of(Durability::kOs), truth_.get());
    // Nothing is due, so no completion asks for an fsync.
    Workload workload(*engine_, *truth_, std::chrono::hours(1));
    ASSERT_TRUE(engine_->start().ok());
    workload.drive({Durability::kOs, Durability::kOs}, random());
    work_for(&workload, std::chrono::milliseconds(10));
    before = snapshot(*truth_);
    cut(random, &workload, &cuts);
    after = snapshot(*truth_);
  }
  EXPECT_GT(truth_->violation_count, 0U);
  EXPECT_NE(std::string(truth_->violations.data()).find("acknowledged and is lost"),
            std::string::npos)
      << truth_->violations.data();
}

TEST_F(PowerCut, EveryAcknowledgementAtDiskHasItsFsync) {
  power_on();
  ASSERT_TRUE(engine_->start().ok());
  const Deadline tomorrow = countwheel::after(std::chrono::hours(24));
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t before = fs_->log_sync_count();
    const Result<TaskId> id = engine_->schedule({.type = "later", .deadline = tomorrow});
    ASSERT_TRUE(id.ok());
    // One caller: no other operation can have synced it.
    ASSERT_GT(fs_->log_sync_count(), before) << "schedule " << i;
    const std::uint64_t scheduled = fs_->log_sync_count();
    if (i % 3 == 0) {
      ASSERT_TRUE(engine_->cancel(*id));
      ASSERT_GT(fs_->log_sync_count(), scheduled) << "cancel " << i;
    } else if (i % 3 == 1) {
      ASSERT_TRUE(engine_->reschedule(*id, tomorrow));
      ASSERT_GT(fs_->log_sync_count(), scheduled) << "reschedule " << i;
    }
  }
  EXPECT_TRUE(engine_->stop().ok());
  power_off();
}

// Threads share fsyncs, but nobody is acknowledged by one that began before its call.
TEST_F(PowerCut, CallersShareFsyncsButNoneGoesWithout) {
  power_on();
  ASSERT_TRUE(engine_->start().ok());
  std::atomic<int> without{0};
  std::vector<std::thread> callers;
  constexpr int kCallers = 8;
  constexpr int kCalls = 100;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < kCalls; ++i) {
        const std::uint64_t before = fs_->log_sync_count();
        const bool ok =
            engine_
                ->schedule({.type = "later", .deadline = countwheel::after(std::chrono::hours(1))})
                .ok();
        without += ok && fs_->log_sync_count() == before ? 1 : 0;
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(without, 0);
  EXPECT_EQ(engine_->stats().pending, std::uint64_t{kCallers} * kCalls);
  EXPECT_TRUE(engine_->stop().ok());
  power_off();
}

TEST_F(PowerCut, WhatWasAcknowledgedAtOsIsSyncedSoon) {
  power_on();
  ASSERT_TRUE(engine_->start().ok());
  const Result<Submitted> submitted =
      engine_->submit({.type = "later",
                       .deadline = countwheel::after(std::chrono::hours(1)),
                       .durability = Durability::kOs});
  ASSERT_TRUE(submitted.ok());
  ASSERT_TRUE(engine_->wait_durable(submitted->lsn, Durability::kOs).ok());
  // The bound is 100 ms, also when nothing else happens; ten times that is liveness.
  const steady_clock::time_point until = steady_clock::now() + std::chrono::seconds(1);
  while (engine_->durable_lsn() < submitted->lsn && steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_GE(engine_->durable_lsn(), submitted->lsn);
  std::mt19937_64 random(seed_from_environment(3));
  const std::string image = temp_ / "machine1";
  fs_->cut(image, random);
  EXPECT_TRUE(engine_->stop().ok());
  power_off();
  directory_ = image;
  power_on();
  EXPECT_EQ(report_.live, 1U);
  power_off();
}

}  // namespace
}  // namespace countwheel::testing
