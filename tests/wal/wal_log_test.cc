// A log from the outside: what is appended is there after a restart, in order, and its end says
// where to go on.
#include <filesystem>
#include <string>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include <countwheel/wal.h>

#include "testing/directory.h"
#include "wal/log_writer.h"

namespace countwheel {
namespace {

using testing::BatchBuilder;
using testing::LogContent;
using testing::LogWriter;
using testing::small_options;
using testing::TempDirectory;

TEST(Log, ANewDirectoryIsAnEmptyLog) {
  TempDirectory temp;
  LogContent content;
  LogFacts facts;
  ASSERT_EQ(testing::restart(temp / "log", &content, &facts).text(), "ok");
  EXPECT_TRUE(facts.created);
  EXPECT_EQ(content.ops, 0U);
  EXPECT_EQ(facts.last_sequence, 1U);
  EXPECT_NE(facts.store, StoreUuid{});
  LogFacts again;
  ASSERT_EQ(testing::restart(temp / "log", &content, &again).text(), "ok");
  EXPECT_FALSE(again.created);
  EXPECT_EQ(again.store, facts.store);
  EXPECT_EQ(to_string(again.store).size(), 36U);
}

TEST(Log, WhatWasAppendedIsReadInOrderAfterTheRestart) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(writer.commit(10, 100, i % 3 == 0).text(), "ok");
  }
  writer.close();
  LogContent content;
  LogFacts facts;
  ASSERT_EQ(testing::restart(temp / "log", &content, &facts).text(), "ok");
  EXPECT_EQ(content.scheduled, writer.acknowledged());
  EXPECT_EQ(content.ops, 200U);
  EXPECT_EQ(facts.blobs, 21U);
  EXPECT_EQ(facts.ops, 200U);
  EXPECT_EQ(facts.last_sequence, 21U);
  EXPECT_EQ(facts.torn_bytes, 0U);
  EXPECT_EQ(facts.fence_disk_sequence, 20U);
  EXPECT_EQ(facts.fence_os_sequence, 21U);
  for (std::size_t i = 1; i < content.blobs.size(); ++i) {
    EXPECT_EQ(content.blobs[i].sequence, content.blobs[i - 1].sequence + 1);
    EXPECT_LT(content.blobs[i].watermark, content.blobs[i].sequence);
  }
  // A blob knows how far the log was synced when it was written: the third one, after one fsync.
  EXPECT_EQ(content.blobs[3].watermark, 2U);
}

TEST(Log, ItsEndSaysWhereToGoOn) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  BatchBuilder builder(1);
  builder.schedule(TaskId::of(1, 1), "k", "p");
  builder.add(OpKind::kCancel, TaskId::of(1, 1));
  Batch batch = builder.batch(true);
  batch.lsn_ceiling = 1234;
  batch.generation_ceiling = 99;
  batch.epoch = 42;
  batch.wall_ns = 1'718'000'000'000'000'000;
  batch.clean_stop = true;
  ASSERT_EQ(writer.journal().append(batch).text(), "ok");
  writer.close();
  const Result<std::unique_ptr<Log>> log = Log::open(temp / "log", small_options());
  ASSERT_TRUE(log.ok());
  const LogEnd end = (*log)->end();
  EXPECT_EQ(end.last_lsn, 2U);
  EXPECT_EQ(end.lsn_ceiling, 1234U);
  EXPECT_EQ(end.generation_ceiling, 99U);
  EXPECT_EQ(end.epoch, 42U);
  EXPECT_EQ(end.last_seen_wall_ns, 1'718'000'000'000'000'000);
  EXPECT_TRUE(end.clean_stop);
}

TEST(Log, ReadingProgressStartsAtNothingAndEndsAtAll) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(writer.commit(100, 1000, false).text(), "ok");
  }
  writer.close();
  Result<std::unique_ptr<Log>> log = Log::open(temp / "log", small_options());
  ASSERT_TRUE(log.ok());
  std::vector<std::pair<std::uint64_t, std::uint64_t>> reports;
  const Status status = (*log)->read(
      [](const BlobHeader&, std::span<const Op>) { return Status(); },
      [&reports](std::uint64_t done, std::uint64_t total) { reports.emplace_back(done, total); });
  ASSERT_EQ(status.text(), "ok");
  ASSERT_GT(reports.size(), 10U);
  EXPECT_EQ(reports.front().first, 0U);
  EXPECT_GT(reports.front().second, std::uint64_t{4'000'000});
  EXPECT_EQ(reports.back().first, reports.back().second);
  EXPECT_EQ(reports.back().first, (*log)->facts().bytes);
  for (std::size_t i = 1; i < reports.size(); ++i) {
    EXPECT_GE(reports[i].first, reports[i - 1].first);
    EXPECT_LE(reports[i].first, reports[i].second);
  }
}

TEST(Log, AVisitorThatSaysNoEndsTheReading) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  ASSERT_EQ(writer.commit(1, 1).text(), "ok");
  ASSERT_EQ(writer.commit(1, 1).text(), "ok");
  writer.close();
  Result<std::unique_ptr<Log>> log = Log::open(temp / "log", small_options());
  ASSERT_TRUE(log.ok());
  int visits = 0;
  const Status status = (*log)->read([&visits](const BlobHeader& header, std::span<const Op>) {
    ++visits;
    return header.op_count > 0 ? Status(Code::kCorrupt, "no such type") : Status();
  });
  EXPECT_EQ(status.text(), "corrupt: no such type");
  EXPECT_EQ(visits, 2);
}

TEST(Log, ABlobOfTheLargestPayloadComesBack) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(writer.commit(1, std::size_t{1} << 20).text(), "ok");
  }
  writer.close();
  LogContent content;
  ASSERT_EQ(testing::restart(temp / "log", &content).text(), "ok");
  ASSERT_EQ(content.payloads.size(), 5U);
  EXPECT_EQ(content.payloads[4], std::string(std::size_t{1} << 20, 'a'));
}

TEST(Log, LookingChangesNothingOnDisk) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  ASSERT_EQ(writer.commit(10, 100).text(), "ok");
  writer.journal().attempt_cells()[3].id.store(77);
  writer.close();
  const auto listing = [&temp] {
    std::string all;
    for (const std::string& name : testing::files_in(temp / "log")) {
      struct stat facts {};
      EXPECT_EQ(::stat((temp / "log/" + name).c_str(), &facts), 0);
      all += name + " " + std::to_string(facts.st_size) + " " +
             std::to_string(facts.st_mtim.tv_nsec) + "\n";
    }
    return all;
  };
  const std::string before = listing();
  {
    Result<std::unique_ptr<Log>> log = Log::open_read_only(temp / "log", small_options());
    ASSERT_EQ(log.status().text(), "ok");
    LogContent content;
    ASSERT_EQ(testing::read_content(**log, &content).text(), "ok");
    EXPECT_EQ(content.scheduled, writer.acknowledged());
    // A copy: what is stored in it is nobody else's.
    EXPECT_EQ((*log)->attempt_cells()[3].id.load(), 77U);
    (*log)->attempt_cells()[3].id.store(78);
  }
  EXPECT_EQ(listing(), before);
  ASSERT_EQ(writer.open().text(), "ok");
  EXPECT_EQ(writer.journal().attempt_cells()[3].id.load(), 77U);
}

TEST(Log, LookingWhereThereIsNoLogMakesNone) {
  TempDirectory temp;
  LogContent content;
  EXPECT_EQ(testing::read_directory(temp / "missing", &content).code(), Code::kNotADirectory);
  std::filesystem::create_directory(temp / "empty");
  std::filesystem::permissions(temp / "empty", std::filesystem::perms::owner_all);
  EXPECT_EQ(testing::read_directory(temp / "empty", &content).code(), Code::kNotADirectory);
  EXPECT_TRUE(testing::files_in(temp / "empty").empty());
  WalOptions options = small_options();
  options.create_if_missing = false;
  EXPECT_EQ(Log::open(temp / "missing", options).code(), Code::kNotADirectory);
  EXPECT_EQ(Log::open(temp / "empty", options).code(), Code::kNotADirectory);
}

TEST(Log, AnotherShardCountIsRefusedByName) {
  TempDirectory temp;
  LogContent content;
  ASSERT_EQ(testing::restart(temp / "log", &content).text(), "ok");
  WalOptions options = small_options();
  options.shard_bits = 5;
  const Result<std::unique_ptr<Log>> log = Log::open(temp / "log", options);
  EXPECT_EQ(log.code(), Code::kVersion);
  EXPECT_NE(log.status().text().find("shard_bits: 5 given, the log was made with 4"),
            std::string::npos)
      << log.status().text();
}

TEST(Log, OptionsOutOfRangeAreRefusedByNameAndNothingIsMade) {
  TempDirectory temp;
  const auto text_with = [&temp](auto change) {
    WalOptions options;
    change(options);
    const Result<std::unique_ptr<Log>> log = Log::open(temp / "log", options);
    EXPECT_EQ(log.code(), Code::kInvalidArgument);
    return log.status().detail();
  };
  EXPECT_EQ(text_with([](WalOptions& options) { options.shard_bits = 17; }),
            "shard_bits: 17 given, allowed is 0 to 16");
  EXPECT_EQ(text_with([](WalOptions& options) { options.memtable_bytes = 1; }),
            "memtable_bytes: 1 given, allowed is 65536 to 1073741824");
  EXPECT_EQ(text_with([](WalOptions& options) { options.attempt_cells = 0; }),
            "attempt_cells: 0 given, allowed is 1 to 16777216");
  EXPECT_FALSE(std::filesystem::exists(temp / "log"));
}

TEST(Log, MarksOfRunningDeliveriesOutliveTheProcess) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  ASSERT_EQ(writer.journal().attempt_cells().size(), 64U);
  EXPECT_EQ(writer.journal().attempt_cells()[63].id.load(), 0U);
  writer.journal().attempt_cells()[63].id.store(5);
  writer.journal().attempt_cells()[63].mark.store(3);
  // What kill -9 leaves: the directory as it is, with nothing closed.
  testing::copy_directory(temp / "log", temp / "copy");
  LogWriter next(temp / "copy");
  ASSERT_EQ(next.open().text(), "ok");
  EXPECT_EQ(next.journal().attempt_cells()[63].id.load(), 5U);
  EXPECT_EQ(next.journal().attempt_cells()[63].mark.load(), 3U);
}

}  // namespace
}  // namespace countwheel
