// Tables of the application beside a log when things break: threads that write them while the log
// is written, full and broken disks, flipped bits, torn tails. Seeded; set COUNTWHEEL_SEED.
#include <atomic>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "testing/directory.h"
#include "wal/app_log.h"
#include "wal/faulty_fs.h"
#include "wal/wal_scan.h"

namespace countwheel {
namespace {

using testing::AppLog;
using testing::copy_directory;
using testing::expect_no_divergence;
using testing::Fault;
using testing::FaultyEnv;
using testing::files_in;
using testing::LogContent;
using testing::Rows;
using testing::small_options;
using testing::TempDirectory;
using testing::with_tables;

WalOptions options_on(FaultyEnv& faulty) {
  WalOptions options = with_tables();
  options.env = faulty.env.get();
  faulty.files->skip_syncs();
  return options;
}

// RocksDB joins what threads write at once into one record of its log. The scan must see our blobs
// in it, and not take anything for damage.
TEST(TablesThatOthersWrite, HideNoBlobFromTheScan) {
  TempDirectory temp;
  WalOptions options = with_tables();
  options.memtable_bytes = std::size_t{64} << 20;
  AppLog log(temp / "log", options);
  ASSERT_EQ(log.open().text(), "ok");
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 3; ++writer) {
    writers.emplace_back([&log, &stop, writer] {
      rocksdb::DB& db = log.data().db();
      for (int i = 0; !stop.load(); ++i) {
        const std::string key = std::to_string(writer) + "." + std::to_string(i % 1000);
        ASSERT_TRUE(db.Put({}, log.table("trades"), key, std::string(100, 'v')).ok());
      }
    });
  }
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(log.commit_row(std::to_string(i), std::to_string(i), i % 4 == 0).text(), "ok");
  }
  stop.store(true);
  for (std::thread& writer : writers) {
    writer.join();
  }
  copy_directory(temp / "log", temp / "killed");
  const Result<wal::WalScan> scan = wal::scan_wal(temp / "killed");
  ASSERT_TRUE(scan.ok());
  EXPECT_TRUE(scan->clean());
  EXPECT_EQ(scan->last_sequence, 2001U);  // blob 1 was written when the log was made
  EXPECT_EQ(expect_no_divergence(temp / "killed"), 2000U);
}

// One log file in which every third record is of the application alone, killed.
std::string killed_log(const TempDirectory& temp, int blobs, std::vector<TaskId>* acknowledged) {
  WalOptions options = with_tables();
  options.memtable_bytes = std::size_t{64} << 20;
  AppLog log(temp / "live", options);
  EXPECT_EQ(log.open().text(), "ok");
  for (int i = 0; i < blobs; ++i) {
    EXPECT_EQ(log.commit_row(std::to_string(i), std::to_string(i)).text(), "ok");
    if (i % 3 == 0) {
      EXPECT_TRUE(log.data().db().Put({}, log.table("trades"), "t", std::string(70, 't')).ok());
    }
  }
  EXPECT_EQ(log.watermark().text(), "ok");
  *acknowledged = log.acknowledged();
  copy_directory(temp / "live", temp / "killed");
  return temp / "killed";
}

TEST(TablesBesideADamagedLog, HideNoFlipInWhatWasAcknowledged) {
  std::mt19937_64 random(testing::seed_from_environment(21));
  TempDirectory temp;
  std::vector<TaskId> acknowledged;
  const std::string killed = killed_log(temp, 60, &acknowledged);
  const std::uint64_t bytes =
      testing::used_bytes(killed + "/" + files_in(killed, ".log").back()) - 200;
  for (int round = 0; round < 40; ++round) {
    const std::string copy = temp / "copy";
    copy_directory(killed, copy);
    std::filesystem::remove(copy + "/countwheel.fence");
    testing::flip_byte(copy + "/" + files_in(copy, ".log").back(), random() % bytes);
    const Status status = Log::open(copy, with_tables()).status();
    ASSERT_EQ(status.code(), Code::kCorrupt) << "round " << round << ": " << status.text();
    ASSERT_NE(status.text().find("offset"), std::string::npos) << status.text();
    std::filesystem::remove_all(copy);
  }
}

// Table files hold a part of the log. Were those of the application behind, damage could take its
// writes and leave the blobs they came with.
TEST(TablesBesideADamagedLog, AreNeverBehindItsTableFiles) {
  std::mt19937_64 random(testing::seed_from_environment(22));
  TempDirectory temp;
  WalOptions options = with_tables();
  options.memtable_bytes = std::size_t{64} << 10;
  AppLog log(temp / "live", options);
  ASSERT_EQ(log.open().text(), "ok");
  // RocksDB writes them on a thread of its own.
  for (int i = 0; i < 1000 && files_in(temp / "live", ".sst").size() < 4; ++i) {
    ASSERT_EQ(log.commit_row(std::to_string(i), std::to_string(i)).text(), "ok");
    ASSERT_EQ(log.commit(1, 4000, i % 2 == 0).text(), "ok");
  }
  ASSERT_GE(files_in(temp / "live", ".sst").size(), 4U);
  int opened = 0;
  for (int round = 0; round < 40; ++round) {
    const std::string copy = temp / "copy";
    copy_directory(temp / "live", copy);
    std::filesystem::remove(copy + "/countwheel.fence");
    const std::vector<std::string> logs = files_in(copy, ".log");
    const std::string file = copy + "/" + logs[random() % logs.size()];
    if (round % 10 == 0) {
      std::filesystem::remove(file);
    } else {
      testing::flip_byte(file, random() % (testing::used_bytes(file) + 1));
    }
    AppLog damaged(copy, options);
    const Status status = damaged.open();
    ASSERT_TRUE(status.ok() || status.code() == Code::kCorrupt) << status.text();
    if (status.ok()) {
      ++opened;
      std::size_t with_rows = 0;
      for (const std::string& payload : damaged.content().payloads) {
        with_rows += payload.size() < 100 ? 1U : 0U;
      }
      ASSERT_EQ(damaged.rows().size(), with_rows) << "round " << round;
    }
    damaged.close();
    std::filesystem::remove_all(copy);
  }
  EXPECT_GT(opened, 0);
  EXPECT_LT(opened, 40);
}

// A tail that a power failure may leave, at every length: both or neither, and three more starts.
TEST(TablesBesideATornLog, AgreeWithItAtEveryLength) {
  TempDirectory temp;
  std::vector<TaskId> acknowledged;
  const std::string killed = killed_log(temp, 12, &acknowledged);
  const std::string name = files_in(killed, ".log").back();
  const std::uint64_t bytes = testing::used_bytes(killed + "/" + name);
  std::size_t most = 0;
  for (std::uint64_t length = 0; length < bytes; length += 211) {
    const std::string copy = temp / "copy";
    copy_directory(killed, copy);
    std::filesystem::remove(copy + "/countwheel.fence");  // older than the log: no bound
    std::filesystem::resize_file(copy + "/" + name, length);
    SCOPED_TRACE("cut at " + std::to_string(length));
    // The first blob, which is synced before anybody gets the log.
    LogContent content;
    if (const Status status = Log::open_read_only(copy, small_options()).status(); !status.ok()) {
      ASSERT_LT(length, 400U) << status.text();
      std::filesystem::remove_all(copy);
      continue;
    }
    const std::size_t rows = expect_no_divergence(copy);
    EXPECT_GE(rows, most);
    most = rows;
    {
      AppLog log(copy);
      ASSERT_EQ(log.open().text(), "ok");
      ASSERT_EQ(log.commit_row("later", "later").text(), "ok");
    }
    EXPECT_EQ(expect_no_divergence(copy), rows + 1);
    EXPECT_EQ(expect_no_divergence(copy), rows + 1);
    std::filesystem::remove_all(copy);
  }
  EXPECT_GE(most, 11U);
}

TEST(TablesOnAFullDisk, ShowNothingOfWhatWasRefused) {
  TempDirectory temp;
  FaultyEnv faulty;
  AppLog log(temp / "log", options_on(faulty));
  ASSERT_EQ(log.open().text(), "ok");
  ASSERT_EQ(log.commit_row("before", "before").text(), "ok");
  faulty.files->fail_log_reserve(Fault::kNoSpace);
  Status status;
  Rows expected = log.rows();
  for (int i = 0; i < 100 && status.ok(); ++i) {
    const std::string row = std::to_string(i) + std::string(100'000, 'r');
    status = log.commit_row(std::to_string(i), row);
    if (status.ok()) {
      expected[std::to_string(i)] = row;
    }
  }
  ASSERT_EQ(status.code(), Code::kNoSpace);
  EXPECT_EQ(log.rows(), expected);
  copy_directory(temp / "log", temp / "killed");
  EXPECT_EQ(expect_no_divergence(temp / "killed"), expected.size());
  faulty.files->fail_log_reserve(Fault::kNone);
  ASSERT_EQ(log.journal().recover().text(), "ok");
  ASSERT_EQ(log.commit_row("after", "after").text(), "ok");
  log.close();
  EXPECT_EQ(expect_no_divergence(temp / "log"), expected.size() + 1);
}

// Where no room can be asked for, an append fails half way, ours or the application's own, and
// RocksDB has to be recovered: all column families, or a crash meanwhile would part them.
TEST(TablesOnAFullDisk, DoNotPartFromTheLogWhenAnAppendIsTorn) {
  for (const bool by_application : {false, true}) {
    for (const std::uint64_t torn : {0U, 1U, 7U, 100U, 4000U}) {
      SCOPED_TRACE(std::to_string(by_application) + ", torn after " + std::to_string(torn));
      TempDirectory temp;
      FaultyEnv faulty;
      AppLog log(temp / "log", options_on(faulty));
      ASSERT_EQ(log.open().text(), "ok");
      ASSERT_EQ(log.commit_row("before", "before").text(), "ok");
      faulty.files->tear_failed_append(torn);
      faulty.files->fail_log_append(Fault::kNoSpace);
      const std::string large(5000, 'r');
      if (by_application) {
        EXPECT_TRUE(log.data().db().Put({}, log.table("trades"), "t", large).IsNoSpace());
      }
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(log.commit_row("refused", large).code(), Code::kNoSpace);
      }
      copy_directory(temp / "log", temp / "killed");
      EXPECT_EQ(expect_no_divergence(temp / "killed"), 1U);

      faulty.files->fail_log_append(Fault::kNone);
      // A table cannot be written yet: the recovery stops half way.
      for (const int nth : {1, 2, 3}) {
        faulty.files->fail_table_append(Fault::kNoSpace, nth);
        (void)log.journal().recover();
        copy_directory(temp / "log", temp / "half");
        EXPECT_EQ(expect_no_divergence(temp / "half"), 1U) << nth;
        std::filesystem::remove_all(temp / "half");
      }
      faulty.files->fail_table_append(Fault::kNone);
      ASSERT_EQ(log.journal().recover().text(), "ok");
      ASSERT_EQ(log.commit_row("after", "after").text(), "ok");
      EXPECT_TRUE(log.data().db().Put({}, log.table("trades"), "t", large).ok());
      copy_directory(temp / "log", temp / "later");
      EXPECT_EQ(expect_no_divergence(temp / "later"), 2U);
      log.close();
      EXPECT_EQ(expect_no_divergence(temp / "log"), 2U);
    }
  }
}

TEST(TablesOnABrokenDisk, AreUnknownTogetherWithTheLog) {
  for (const bool fsync : {false, true}) {
    TempDirectory temp;
    FaultyEnv faulty;
    AppLog log(temp / "log", options_on(faulty));
    ASSERT_EQ(log.open().text(), "ok");
    ASSERT_EQ(log.commit_row("before", "before").text(), "ok");
    if (fsync) {
      faulty.files->fail_log_sync(Fault::kInputOutput);
    } else {
      faulty.files->fail_log_append(Fault::kInputOutput);
    }
    EXPECT_EQ(log.commit_row("unknown", "unknown").code(), Code::kJournalFailed);
    EXPECT_EQ(log.commit_row("later", "later").code(), Code::kJournalFailed);
    EXPECT_EQ(log.rows().size(), 1U);  // reading goes on
    log.close();
    const std::size_t rows = expect_no_divergence(temp / "log");
    EXPECT_EQ(rows, fsync ? 2U : 1U);
  }
}

}  // namespace
}  // namespace countwheel
