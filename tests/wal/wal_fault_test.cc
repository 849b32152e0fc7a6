// Disks that are full or broken: what is refused, what comes back, and that the process lives.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "testing/directory.h"
#include "wal/faulty_fs.h"
#include "wal/log_writer.h"

namespace countwheel {
namespace {

using testing::Fault;
using testing::FaultyEnv;
using testing::LogContent;
using testing::LogWriter;
using testing::TempDirectory;

WalOptions options_on(FaultyEnv& faulty) {
  WalOptions options = testing::small_options();
  options.env = faulty.env.get();
  faulty.files->skip_syncs();
  return options;
}

void expect_holds(const std::string& directory, const std::vector<TaskId>& acknowledged) {
  LogContent content;
  ASSERT_EQ(testing::restart(directory, &content).text(), "ok");
  EXPECT_EQ(content.scheduled, acknowledged);
}

// Five commits are refused; nothing of them may ever be seen.
void expect_refusals(LogWriter& writer, const std::string& directory) {
  for (int i = 0; i < 5; ++i) {
    const Status status = writer.commit(100, 50, i % 2 == 0);
    EXPECT_EQ(status.code(), Code::kNoSpace);
    EXPECT_NE(status.text().find(directory), std::string::npos) << status.text();
  }
}

TEST(DiskFull, RefusedOperationsAreNotThereAndAcknowledgedOnesAre) {
  TempDirectory temp;
  FaultyEnv faulty;
  LogWriter writer(temp / "log", options_on(faulty));
  ASSERT_EQ(writer.open().text(), "ok");
  ASSERT_EQ(writer.commit(10, 50).text(), "ok");
  faulty.files->fail_log_reserve(Fault::kNoSpace);
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    status = writer.commit(100, 50);  // uses up the room that was asked for ahead
  }
  ASSERT_EQ(status.code(), Code::kNoSpace);
  expect_refusals(writer, temp / "log");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(writer.journal().recover().code(), Code::kNoSpace);
  }
  testing::copy_directory(temp / "log", temp / "crash");
  expect_holds(temp / "crash", writer.acknowledged());
  faulty.files->fail_log_reserve(Fault::kNone);
  ASSERT_EQ(writer.journal().recover().text(), "ok");
  ASSERT_EQ(writer.commit(10, 50).text(), "ok");
  writer.close();
  expect_holds(temp / "log", writer.acknowledged());
}

// Where no room can be asked for, an append fails half way and RocksDB has to be recovered.
TEST(DiskFull, AnAppendThatIsTornByItIsNeverSeenAgain) {
  for (const std::uint64_t torn : {0U, 1U, 7U, 100U, 4000U}) {
    SCOPED_TRACE("torn after " + std::to_string(torn));
    TempDirectory temp;
    FaultyEnv faulty;
    LogWriter writer(temp / "log", options_on(faulty));
    ASSERT_EQ(writer.open().text(), "ok");
    ASSERT_EQ(writer.commit(10, 50).text(), "ok");
    faulty.files->tear_failed_append(torn);
    faulty.files->fail_log_append(Fault::kNoSpace);
    expect_refusals(writer, temp / "log");
    // A crash now: nothing refused comes back.
    testing::copy_directory(temp / "log", temp / "crash");
    expect_holds(temp / "crash", writer.acknowledged());

    faulty.files->fail_log_append(Fault::kNone);
    // A table cannot be written yet: the recovery stops half way, with the old log file still live.
    faulty.files->fail_table_append(Fault::kNoSpace);
    EXPECT_EQ(writer.journal().recover().code(), Code::kNoSpace);
    testing::copy_directory(temp / "log", temp / "crash in recovery");
    expect_holds(temp / "crash in recovery", writer.acknowledged());

    faulty.files->fail_table_append(Fault::kNone);
    ASSERT_EQ(writer.journal().recover().text(), "ok");
    ASSERT_EQ(writer.commit(10, 50).text(), "ok");
    testing::copy_directory(temp / "log", temp / "later crash");
    expect_holds(temp / "later crash", writer.acknowledged());
    writer.close();
    expect_holds(temp / "log", writer.acknowledged());
  }
}

TEST(DiskFull, AgainOnTheFirstAppendAfterARecoveryEndsTheJournalAndNotTheProcess) {
  TempDirectory temp;
  FaultyEnv faulty;
  LogWriter writer(temp / "log", options_on(faulty));
  ASSERT_EQ(writer.open().text(), "ok");
  ASSERT_EQ(writer.commit(10, 50).text(), "ok");
  faulty.files->fail_log_append(Fault::kNoSpace);
  EXPECT_EQ(writer.commit(10, 50).code(), Code::kNoSpace);
  EXPECT_EQ(writer.journal().recover().code(), Code::kNoSpace);
  // RocksDB keeps a log file whose first append failed; a write to it would abort.
  EXPECT_EQ(writer.journal().recover().code(), Code::kJournalFailed);
  EXPECT_EQ(writer.commit(10, 50).code(), Code::kJournalFailed);
  writer.close();
  expect_holds(temp / "log", writer.acknowledged());
}

TEST(DiskFull, WhileATableIsWritten) {
  TempDirectory temp;
  FaultyEnv faulty;
  LogWriter writer(temp / "log", options_on(faulty));
  ASSERT_EQ(writer.open().text(), "ok");
  faulty.files->fail_table_append(Fault::kNoSpace);
  Status status;
  for (int i = 0; i < 200 && status.ok(); ++i) {
    status = writer.commit(100, 1000);
  }
  ASSERT_EQ(status.code(), Code::kNoSpace) << status.text();
  faulty.files->fail_table_append(Fault::kNone);
  ASSERT_EQ(writer.journal().recover().text(), "ok");
  ASSERT_EQ(writer.commit(100, 1000).text(), "ok");
  writer.close();
  expect_holds(temp / "log", writer.acknowledged());
}

TEST(BrokenDisk, AnAppendThatFailsEndsTheJournalAndNotTheProcess) {
  TempDirectory temp;
  FaultyEnv faulty;
  LogWriter writer(temp / "log", options_on(faulty));
  ASSERT_EQ(writer.open().text(), "ok");
  ASSERT_EQ(writer.commit(10, 50).text(), "ok");
  faulty.files->fail_log_append(Fault::kInputOutput);
  EXPECT_EQ(writer.commit(1, 1).code(), Code::kJournalFailed);
  faulty.files->fail_log_append(Fault::kNone);
  // Sticky: the outcome of that blob is unknown, so none may follow it.
  EXPECT_EQ(writer.commit(1, 1).code(), Code::kJournalFailed);
  EXPECT_EQ(writer.journal().recover().code(), Code::kJournalFailed);
  writer.close();
  LogContent content;
  ASSERT_EQ(testing::restart(temp / "log", &content).text(), "ok");
  EXPECT_EQ(content.scheduled, writer.acknowledged());
}

TEST(BrokenDisk, AnFsyncThatFailsLeavesTheOutcomeUnknown) {
  for (const Fault fault : {Fault::kInputOutput, Fault::kNoSpace}) {
    TempDirectory temp;
    FaultyEnv faulty;
    LogWriter writer(temp / "log", options_on(faulty));
    ASSERT_EQ(writer.open().text(), "ok");
    ASSERT_EQ(writer.commit(10, 50).text(), "ok");
    faulty.files->fail_log_sync(fault);
    // Also when it says "no space": the record is whole and may come back, so it is not `no_space`.
    EXPECT_EQ(writer.commit(1, 1).code(), Code::kJournalFailed);
    EXPECT_EQ(writer.journal().recover().code(), Code::kJournalFailed);
    writer.close();
    LogContent content;
    ASSERT_EQ(testing::restart(temp / "log", &content).text(), "ok");
    EXPECT_GE(content.scheduled.size(), 10U);
    EXPECT_LE(content.scheduled.size(), 11U);
  }
}

TEST(BrokenDisk, ATableThatCannotBeReadIsAnErrorAndNotAShorterLog) {
  TempDirectory temp;
  FaultyEnv faulty;
  {
    LogWriter writer(temp / "log", options_on(faulty));
    ASSERT_EQ(writer.open().text(), "ok");
    for (int i = 0; i < 60; ++i) {
      ASSERT_EQ(writer.commit(100, 1000).text(), "ok");
    }
  }
  Result<std::unique_ptr<Log>> log = Log::open(temp / "log", options_on(faulty));
  ASSERT_EQ(log.status().text(), "ok");
  faulty.files->fail_table_read(Fault::kInputOutput, 2);
  LogContent content;
  const Status status = testing::read_content(**log, &content);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.text().find("cannot read blob"), std::string::npos) << status.text();
}

TEST(BrokenDisk, AFlipInATableIsRefusedWithFileAndOffset) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(writer.commit(100, 1000).text(), "ok");
  }
  writer.close();
  const std::vector<std::string> tables = testing::files_in(temp / "log", ".sst");
  ASSERT_GE(tables.size(), 3U);
  int with_offset = 0;
  for (int round = 0; round < 20; ++round) {
    const std::string copy = temp / "copy";
    testing::copy_directory(temp / "log", copy);
    const std::string& name = tables[static_cast<std::size_t>(round) % tables.size()];
    const std::string file = copy + "/" + name;
    const auto size = std::filesystem::file_size(file);
    testing::flip_byte(file, size * static_cast<std::uint64_t>(round) / 20, 0x10);
    LogContent content;
    const Status status = testing::restart(copy, &content);
    ASSERT_EQ(status.code(), Code::kCorrupt) << round << ": " << status.text();
    ASSERT_NE(status.text().find(name), std::string::npos) << status.text();
    with_offset += status.text().find("offset") != std::string::npos ? 1 : 0;
    std::filesystem::remove_all(copy);
  }
  EXPECT_GE(with_offset, 18);
}

TEST(BrokenDisk, ATableThatIsGoneIsRefused) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(writer.commit(100, 1000).text(), "ok");
  }
  writer.close();
  const std::string name = testing::files_in(temp / "log", ".sst").front();
  std::filesystem::remove(temp / "log/" + name);
  LogContent content;
  const Status status = testing::restart(temp / "log", &content);
  EXPECT_EQ(status.code(), Code::kCorrupt) << status.text();
  // RocksDB looks for it under an older ending last, and names that.
  EXPECT_NE(status.text().find("/" + name.substr(0, name.find('.'))), std::string::npos)
      << status.text();
}

// A real full disk: RocksDB's own text log on it is what used to take the process along.
TEST(DiskFull, ASmallTmpfsFillsUpAndHealsWithinTenSeconds) {
  TempDirectory temp;
  const std::string disk = temp / "disk";
  ASSERT_EQ(::mkdir(disk.c_str(), 0700), 0);
  if (::mount("countwheel-test", disk.c_str(), "tmpfs", 0, "size=12m,mode=0700") != 0) {
    GTEST_SKIP() << "needs root to mount a tmpfs";
  }
  {
    WalOptions options = testing::small_options();
    options.env = nullptr;
    LogWriter writer(disk + "/log", options);
    ASSERT_EQ(writer.open().text(), "ok");
    std::ofstream(disk + "/ballast") << std::string(std::size_t{5} << 20, 'x');
    Status status;
    while (status.ok()) {
      status = writer.commit(50, 1000);
    }
    EXPECT_EQ(status.code(), Code::kNoSpace) << status.text();
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(writer.commit(1, 1000).code(), Code::kNoSpace);
    }
    // Storing to the mapped pages must not need space either.
    writer.journal().attempt_cells().back().id.store(1);
    EXPECT_FALSE(writer.journal().recover().ok());
    std::filesystem::remove(disk + "/ballast");
    const auto before = std::chrono::steady_clock::now();
    ASSERT_EQ(writer.journal().recover().text(), "ok");
    ASSERT_EQ(writer.commit(10, 1000).text(), "ok");
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(10));
    writer.close();
    expect_holds(disk + "/log", writer.acknowledged());
  }
  EXPECT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
}

}  // namespace
}  // namespace countwheel
