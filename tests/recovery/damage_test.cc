// Damage and crashes, told apart through open(): a flipped byte among what was acknowledged is
// refused with file and offset, a torn tail opens, is written on, and opens again.
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recovery/restart_fixture.h"

namespace countwheel::testing {
namespace {

namespace fs = std::filesystem;

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::HasSubstr;

class Damage : public Restart {
 protected:
  // 200 tasks, each acknowledged at disk on its own.
  void fill() {
    open();
    for (int i = 0; i < 200; ++i) {
      schedule({.type = "work", .deadline = after(hours(1)), .payload = "sixteen bytes..."});
    }
    crash();
  }

  std::string newest_log() const {
    const std::vector<std::string> logs = files_in(directory_, ".log");
    EXPECT_FALSE(logs.empty());
    return logs.empty() ? "" : directory_ + "/" + logs.back();
  }

  std::string copy() {
    const std::string name = temp_ / ("copy" + std::to_string(++copies_));
    copy_directory(directory_, name);
    return name;
  }

  // Writes on, and opens three times more.
  void write_on_and_reopen(std::uint64_t live) {
    open();
    EXPECT_EQ(report_.live, live);
    for (std::uint64_t more = 1; more <= 3; ++more) {
      schedule({.type = "work", .deadline = after(hours(1))});
      crash_and_open();
      EXPECT_EQ(report_.live, live + more);
      EXPECT_EQ(report_.torn_bytes, 0U);
    }
    engine_.reset();
  }

  int copies_ = 0;
};

TEST_F(Damage, B41_AFlippedByteInTheAcknowledgedPartIsRefusedWithFileAndOffset) {
  fill();
  const std::string log = fs::path(newest_log()).lexically_relative(directory_).string();
  const std::uint64_t bytes = used_bytes(directory_ + "/" + log);
  ASSERT_GT(bytes, 10'000U);
  std::mt19937_64 random(seed_from_environment(41));
  for (int round = 0; round < 60; ++round) {
    const std::uint64_t offset = round == 0 ? bytes / 2 : random() % bytes;
    const std::string damaged = copy();
    flip_byte(damaged + "/" + log, offset, static_cast<unsigned char>(1U << random() % 8));
    const Result<Opened> opened = countwheel::open(damaged, options_);
    ASSERT_FALSE(opened.ok()) << "flip at " << offset << " of " << bytes;
    EXPECT_EQ(opened.code(), Code::kCorrupt) << opened.status().text();
    EXPECT_THAT(opened.status().text(), HasSubstr(fs::path(log).filename().string()));
    EXPECT_THAT(opened.status().text(), HasSubstr("offset"));

    const Result<CheckReport> report = check(damaged);
    ASSERT_TRUE(report.ok()) << report.status().text();
    ASSERT_EQ(report->problems.size(), 1U);
    EXPECT_EQ(report->problems[0].file, log);
    EXPECT_LE(report->problems[0].offset, offset);
    EXPECT_GT(report->problems[0].offset + 40'000, offset);
    // Refusing changes nothing: it is refused again.
    EXPECT_EQ(countwheel::open(damaged, options_).code(), Code::kCorrupt);
    fs::remove_all(damaged);
  }
}

TEST_F(Damage, AMissingLogIsRefused) {
  fill();
  fs::remove(newest_log());
  const Result<Opened> opened = countwheel::open(directory_, options_);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.code(), Code::kCorrupt) << opened.status().text();
}

TEST_F(Damage, GarbageBehindTheEndIsATornTail) {
  fill();
  const std::string log = newest_log();
  for (const std::size_t length : {1U, 7U, 64U, 4096U, 40'000U}) {
    const std::string original = directory_;
    directory_ = copy();
    const std::uint64_t end = used_bytes(newest_log());
    fs::resize_file(newest_log(), end + length);
    std::mt19937_64 random(length);
    for (std::size_t i = 0; i < length; ++i) {
      flip_byte(newest_log(), end + i, static_cast<unsigned char>(random()));
    }
    write_on_and_reopen(200);
    directory_ = original;
  }
}

// Work that was only written, and a power failure that keeps a part of it.
TEST_F(Damage, B40_ATornTailOpensIsWrittenOnAndOpensThreeTimesMore) {
  fill();
  open();
  const std::uint64_t synced_bytes = used_bytes(newest_log());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(engine_
                    ->schedule({.type = "work",
                                .deadline = after(hours(1)),
                                .payload = std::string(100, 'p'),
                                .durability = Durability::kOs})
                    .ok());
  }
  crash();
  options_.wal.boot_id = "another-start-of-the-machine";
  const std::string image = directory_;
  const std::uint64_t bytes = used_bytes(newest_log());
  ASSERT_GT(bytes, synced_bytes);
  for (std::uint64_t cut = 1; cut <= 64; cut += 9) {
    directory_ = image;
    directory_ = copy();
    fs::resize_file(newest_log(), bytes - cut);
    open();
    EXPECT_GE(report_.live, 200U);  // all that was acknowledged at disk
    EXPECT_LT(report_.live, 210U);  // the torn one is absent
    EXPECT_GT(report_.torn_bytes, 0U);
    EXPECT_THAT(report_.text(), HasSubstr("torn tail"));
    const std::uint64_t live = report_.live;
    crash();
    write_on_and_reopen(live);
  }
}

TEST_F(Damage, ACutInsideTheAcknowledgedPartIsNoTornTail) {
  fill();
  const std::uint64_t bytes = used_bytes(newest_log());
  fs::resize_file(newest_log(), bytes / 2);
  const Result<Opened> opened = countwheel::open(directory_, options_);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.code(), Code::kCorrupt) << opened.status().text();
}

// -- check() --

TEST_F(Damage, CheckOfASoundLogCountsAndChangesNothing) {
  keep_ = true;
  open();
  for (int i = 0; i < 10; ++i) {
    schedule({.type = "work", .deadline = after(seconds(i < 2 ? 1 : 100))});
  }
  run_for(seconds(1));
  ASSERT_EQ(kept_.size(), 2U);
  ASSERT_TRUE(engine_->cancel(engine_->list(TaskId{}, 10).back().id));
  crash();
  const std::vector<std::string> before = files_in(directory_);
  std::vector<std::uint64_t> sizes;
  for (const std::string& file : before) {
    sizes.push_back(fs::file_size(directory_ + "/" + file));
  }
  for (int again = 0; again < 2; ++again) {
    const Result<CheckReport> report = check(directory_);
    ASSERT_TRUE(report.ok()) << report.status().text();
    EXPECT_TRUE(report->ok()) << report->text();
    EXPECT_EQ(report->log.live, 9U);
    EXPECT_EQ(report->log.dead, 0U);
    EXPECT_EQ(report->running_cells, 2U);
    EXPECT_EQ(report->first_lsn, 1U);
    EXPECT_GE(report->last_lsn, 12U);
    EXPECT_EQ(report->format, 1U);
    EXPECT_GT(report->disk_bytes, 0U);
    EXPECT_THAT(report->text(), HasSubstr("sound"));
    EXPECT_THAT(report->text(), HasSubstr("2 handlers were running"));
  }
  EXPECT_EQ(files_in(directory_), before);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(fs::file_size(directory_ + "/" + before[i]), sizes[i]) << before[i];
  }
  open();
  EXPECT_EQ(report_.live, 9U);
  EXPECT_EQ(report_.redelivered, 2U);
}

TEST_F(Damage, CheckNamesFilesThatOthersMayRead) {
  fill();
  const std::string log = newest_log();
  fs::permissions(log, fs::perms::others_read, fs::perm_options::add);
  const Result<CheckReport> report = check(directory_);
  ASSERT_TRUE(report.ok()) << report.status().text();
  ASSERT_EQ(report->problems.size(), 1U);
  EXPECT_EQ(report->problems[0].code, Code::kInsecureDir);
  EXPECT_EQ(report->problems[0].file, fs::path(log).lexically_relative(directory_).string());
}

TEST_F(Damage, CheckIsRefusedWhileAnEngineIsThere) {
  open();
  EXPECT_EQ(check(directory_).code(), Code::kLocked);
}

TEST_F(Damage, CheckOfNothingSaysSo) {
  const Result<CheckReport> report = check(temp_ / "nothing");
  ASSERT_FALSE(report.ok());
  EXPECT_FALSE(fs::exists(temp_ / "nothing"));
}

}  // namespace
}  // namespace countwheel::testing
