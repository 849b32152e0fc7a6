// Writes of the application in the batch of a blob: which are taken, that both are there or
// neither, and what becomes of the tables beside a log.
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rocksdb/comparator.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>

#include "testing/directory.h"
#include "wal/app_log.h"
#include "wal/bytes.h"
#include "wal/faulty_fs.h"

namespace countwheel {
namespace {

using testing::AppLog;
using testing::LogContent;
using testing::LogWriter;
using testing::Rows;
using testing::small_options;
using testing::TempDirectory;
using testing::with_tables;

// Keeps the last operand.
class LastWins final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice&,
             const rocksdb::Slice*,
             const rocksdb::Slice& value,
             std::string* merged,
             rocksdb::Logger*) const override {
    *merged = value.ToString();
    return true;
  }
  const char* Name() const override { return "LastWins"; }
};

// Keys with a timestamp behind them, which a batch does not have.
class Timestamped final : public rocksdb::Comparator {
 public:
  Timestamped() : rocksdb::Comparator(8) {}
  int Compare(const rocksdb::Slice& left, const rocksdb::Slice& right) const override {
    return left.compare(right);
  }
  const char* Name() const override { return "Timestamped"; }
  void FindShortestSeparator(std::string*, const rocksdb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

WalOptions with_counters() {
  auto counters = std::make_shared<rocksdb::ColumnFamilyOptions>();
  counters->merge_operator = std::make_shared<LastWins>();
  WalOptions options = with_tables();
  options.app_column_families.push_back({"counters", counters});
  return options;
}

// A batch with every kind of entry an application may bring.
rocksdb::WriteBatch every_kind(AppLog& log) {
  rocksdb::WriteBatch batch;
  EXPECT_TRUE(batch.Put(log.table(), "a", "1").ok());
  EXPECT_TRUE(batch.Put(log.table("trades"), "b", std::string(300, '2')).ok());
  EXPECT_TRUE(batch.Delete(log.table(), "none").ok());
  EXPECT_TRUE(batch.SingleDelete(log.table(), "none either").ok());
  EXPECT_TRUE(batch.PutLogData("not stored").ok());
  EXPECT_TRUE(batch.DeleteRange(log.table(), "x", "y").ok());
  EXPECT_TRUE(batch.Merge(log.table("counters"), "c", "3").ok());
  EXPECT_TRUE(batch.Put(log.table(), "", "empty key").ok());
  return batch;
}

TEST(AppWritesInTheLog, AreThereWithTheBlobAndAfterARestart) {
  TempDirectory temp;
  AppLog log(temp / "log", with_counters());
  ASSERT_EQ(log.open().text(), "ok");
  const rocksdb::WriteBatch batch = every_kind(log);
  ASSERT_EQ(log.journal().check_writes(writes_of(batch).bytes).text(), "ok");
  ASSERT_EQ(log.commit_with(writes_of(batch).bytes, "task").text(), "ok");
  ASSERT_EQ(log.commit_row("a", "2").text(), "ok");  // later writes win
  for (int restarts = 0; restarts < 3; ++restarts) {
    EXPECT_EQ(log.rows(), (Rows{{"", "empty key"}, {"a", "2"}}));
    EXPECT_EQ(log.rows("trades"), (Rows{{"b", std::string(300, '2')}}));
    EXPECT_EQ(log.rows("counters"), (Rows{{"c", "3"}}));
    log.close();
    ASSERT_EQ(log.open().text(), "ok");
    EXPECT_EQ(log.content().payloads, (std::vector<std::string>{"task", "2"}));
  }
}

TEST(AppWritesInTheLog, OfManyOperationsAreOneBatch) {
  TempDirectory temp;
  AppLog log(temp / "log");
  ASSERT_EQ(log.open().text(), "ok");
  testing::BatchBuilder builder(log.next_lsn());
  for (int i = 0; i < 1000; ++i) {
    Op& op = builder.schedule(log.next_id(), {}, std::to_string(i));
    if (i % 3 == 0) {
      rocksdb::WriteBatch batch;
      ASSERT_TRUE(batch.Put(log.table(), std::to_string(i), std::string(200, 'r')).ok());
      ASSERT_TRUE(batch.Put(log.table(), "last", std::to_string(i)).ok());
      builder.write_with(&op, writes_of(batch).bytes);
    }
  }
  const rocksdb::SequenceNumber before = log.data().db().GetLatestSequenceNumber();
  ASSERT_EQ(log.commit(builder, true).text(), "ok");
  EXPECT_EQ(log.data().db().GetLatestSequenceNumber(), before + 1 + 2 * 334);
  EXPECT_EQ(log.rows().size(), 335U);
  EXPECT_EQ(log.rows()["last"], "999");
  testing::copy_directory(temp / "log", temp / "killed");
  AppLog killed(temp / "killed");
  ASSERT_EQ(killed.open().text(), "ok");
  EXPECT_EQ(killed.rows(), log.rows());
  EXPECT_EQ(killed.content().scheduled.size(), 1000U);
}

// Everything that RocksDB would refuse while it writes, which would end the log.
TEST(AppWritesInTheLog, AreRefusedWhenTheyAreNotTheApplications) {
  TempDirectory temp;
  AppLog log(temp / "log", with_counters());
  ASSERT_EQ(log.open().text(), "ok");
  rocksdb::DB& db = log.data().db();
  const auto refused = [&](const rocksdb::WriteBatch& batch, const char* why) {
    const Status status = log.journal().check_writes(writes_of(batch).bytes);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << why;
    EXPECT_NE(status.text().find(why), std::string::npos) << status.text();
  };
  rocksdb::WriteBatch to_default;
  ASSERT_TRUE(to_default.Put(log.table(), "a", "1").ok());
  ASSERT_TRUE(to_default.Put(db.DefaultColumnFamily(), "a", "1").ok());
  refused(to_default, "entry 2 of the application's writes names column family 0");

  // The log's own family has the number 1 in every directory of ours.
  std::string own = to_default.Data().substr(0, 8) + std::string("\1\0\0\0\5\1\1a\1b", 10);
  refused(rocksdb::WriteBatch(own), "names column family 1, which is not of WalOptions::app_col");

  rocksdb::WriteBatch merge;
  ASSERT_TRUE(merge.Merge(log.table(), "a", "1").ok());
  refused(merge, "merge operator");

  rocksdb::WriteBatch range;
  ASSERT_TRUE(range.DeleteRange(log.table(), "b", "a").ok());
  refused(range, "range");

  rocksdb::WriteBatch prepared;
  own[12] = 0xD;  // a mark of two-phase commits
  refused(rocksdb::WriteBatch(own.substr(0, 13)), "is neither a put, a delete nor a merge");
  EXPECT_EQ(log.rows(), Rows{});
  EXPECT_EQ(log.commit_row("a", "1").text(), "ok");
}

TEST(AppWritesInTheLog, AreRefusedWhenTheyAreNoWholeBatch) {
  TempDirectory temp;
  AppLog log(temp / "log", with_counters());
  ASSERT_EQ(log.open().text(), "ok");
  const std::string whole = every_kind(log).Data();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    ASSERT_EQ(log.journal().check_writes(std::string_view(whole).substr(0, bytes)).code(),
              Code::kInvalidArgument)
        << bytes;
  }
  EXPECT_EQ(log.journal().check_writes(whole + "x").code(), Code::kInvalidArgument);
  std::string miscounted = whole;
  ++miscounted[8];
  EXPECT_EQ(log.journal().check_writes(miscounted).code(), Code::kInvalidArgument);
  const rocksdb::WriteBatch none;
  EXPECT_EQ(log.journal().check_writes(writes_of(none).bytes).text(), "ok");
  EXPECT_EQ(log.commit_with(writes_of(none).bytes, "task").text(), "ok");
}

// Any bytes: nothing is read beyond them, and what passes never ends the log.
TEST(AppWritesInTheLog, ThatPassTheCheckNeverEndTheLog) {
  std::mt19937_64 random(testing::seed_from_environment(14));
  TempDirectory temp;
  WalOptions options = with_counters();
  options.memtable_bytes = std::size_t{64} << 20;
  AppLog log(temp / "log", options);
  ASSERT_EQ(log.open().text(), "ok");
  const std::string whole = every_kind(log).Data();
  int passed = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string bytes = whole;
    for (std::uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    // A copy of its own size, so that a sanitizer sees what is read beyond it.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    if (log.journal().check_writes({exact.data(), exact.size()}).ok() && ++passed <= 5'000) {
      ASSERT_EQ(log.commit_with({exact.data(), exact.size()}, "task", false).text(), "ok")
          << "round " << round;
    }
  }
  EXPECT_GT(passed, 1000);
  log.close();
  ASSERT_EQ(log.open().text(), "ok");
}

TEST(TablesBesideALog, AreRefusedByNameWhenTheyCannotBe) {
  TempDirectory temp;
  for (const std::string name : {"", "countwheel", "default", "twice"}) {
    WalOptions options = small_options();
    options.app_column_families = {{name}, {"twice"}};
    const Status status = Log::open(temp / "log", options).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_NE(status.text().find("app_column_families: \"" + name + "\""), std::string::npos)
        << status.text();
  }
  auto timestamped = std::make_shared<rocksdb::ColumnFamilyOptions>();
  const Timestamped comparator;
  timestamped->comparator = &comparator;
  WalOptions options = small_options();
  options.app_column_families = {{"history", timestamped}};
  EXPECT_EQ(Log::open(temp / "log", options).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(testing::files_in(temp.path()).size(), 0U);
}

TEST(TablesBesideALog, AreAllNamedAtEachOpenAndMayBecomeMore) {
  TempDirectory temp;
  LogWriter plain(temp / "log");
  ASSERT_EQ(plain.open().text(), "ok");
  ASSERT_EQ(plain.commit(3, 10).text(), "ok");
  EXPECT_EQ(plain.journal().app_database(), nullptr);
  const rocksdb::WriteBatch none;
  EXPECT_EQ(plain.journal().check_writes(writes_of(none).bytes).code(), Code::kInvalidArgument);
  plain.close();

  WalOptions options = with_tables();
  options.create_if_missing = false;
  AppLog log(temp / "log", options);
  ASSERT_EQ(log.open().text(), "ok");
  EXPECT_EQ(log.content().ops, 3U);
  EXPECT_EQ(log.data().family("nobody"), nullptr);
  EXPECT_EQ(log.data().family("countwheel"), nullptr);
  ASSERT_EQ(log.commit_row("a", "1").text(), "ok");
  log.close();

  const Status fewer = plain.open();
  EXPECT_EQ(fewer.code(), Code::kInvalidArgument);
  EXPECT_NE(fewer.text().find("does not name \"orders\""), std::string::npos) << fewer.text();
  LogContent content;
  EXPECT_EQ(testing::read_directory(temp / "log", &content).text(), "ok");
  EXPECT_EQ(content.ops, 4U);
  ASSERT_EQ(log.open().text(), "ok");
  EXPECT_EQ(log.rows(), (Rows{{"a", "1"}}));
}

// The application's own reads and writes, with and without fsync, flushes and compactions.
TEST(TablesBesideALog, AreTheApplicationsToUse) {
  TempDirectory temp;
  AppLog log(temp / "log");
  ASSERT_EQ(log.open().text(), "ok");
  rocksdb::DB& db = log.data().db();
  rocksdb::WriteOptions synced;
  synced.sync = true;
  Rows expected;
  for (int i = 0; i < 300; ++i) {
    const std::string key = std::to_string(i);
    ASSERT_TRUE(db.Put(i % 2 == 0 ? synced : rocksdb::WriteOptions(), log.table(), key, key).ok());
    expected[key] = key;
    if (i % 3 == 0) {
      ASSERT_EQ(log.commit(20, 1000, i % 2 == 1).text(), "ok");
    }
    if (i % 100 == 50) {
      ASSERT_TRUE(db.Flush({}, log.table()).ok());
      ASSERT_TRUE(db.CompactRange({}, log.table(), nullptr, nullptr).ok());
    }
  }
  testing::copy_directory(temp / "log", temp / "killed");
  AppLog killed(temp / "killed");
  ASSERT_EQ(killed.open().text(), "ok");
  EXPECT_EQ(killed.rows(), expected);
  EXPECT_EQ(killed.content().scheduled, log.acknowledged());
}

}  // namespace
}  // namespace countwheel
