// Which bad logs are refused and which are opened: no acknowledged operation is ever missing from a
// log that opens, and nothing a crash may leave is ever refused. Seeded; set COUNTWHEEL_SEED.
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "testing/directory.h"
#include "wal/log_writer.h"

namespace countwheel {
namespace {

using testing::copy_directory;
using testing::files_in;
using testing::flip_byte;
using testing::LogContent;
using testing::LogWriter;
using testing::TempDirectory;

// A log whose process was killed: a copy taken while it was open.
class KilledLog {
 public:
  explicit KilledLog(int synced_blobs, int unsynced_blobs = 0, std::size_t ops = 20) {
    // One log file, because a copy taken while RocksDB removes another would be no crash image.
    WalOptions options = testing::small_options();
    options.memtable_bytes = std::size_t{64} << 20;
    LogWriter writer(temp_ / "live", options);
    EXPECT_EQ(writer.open().text(), "ok");
    for (int i = 0; i < synced_blobs + unsynced_blobs; ++i) {
      if (i == synced_blobs) {
        const std::string log = temp_ / "live/" + files_in(temp_ / "live", ".log").front();
        synced_bytes_ = std::filesystem::file_size(log);
      }
      EXPECT_EQ(writer.commit(ops, 40, i < synced_blobs).text(), "ok");
    }
    acknowledged_ = writer.acknowledged();
    durable_.assign(acknowledged_.begin(),
                    acknowledged_.begin() + static_cast<std::ptrdiff_t>(writer.durable_count()));
    copy_directory(temp_ / "live", temp_ / "killed");
    if (unsynced_blobs == 0) {
      synced_bytes_ = std::filesystem::file_size(log_file("killed"));
    }
  }

  // A fresh copy to damage.
  std::string copy() {
    const std::string name = "copy" + std::to_string(++copies_);
    copy_directory(temp_ / "killed", temp_ / name);
    return temp_ / name;
  }
  static std::string log_file_in(const std::string& directory) {
    return directory + "/" + files_in(directory, ".log").back();
  }
  std::string log_file(const std::string& name) { return log_file_in(temp_ / name); }

  const std::vector<TaskId>& acknowledged() const { return acknowledged_; }
  const std::vector<TaskId>& durable() const { return durable_; }
  std::uint64_t synced_bytes() const { return synced_bytes_; }

 private:
  TempDirectory temp_;
  int copies_ = 0;
  std::vector<TaskId> acknowledged_;
  std::vector<TaskId> durable_;
  std::uint64_t synced_bytes_ = 0;
};

void remove_fence(const std::string& directory) {
  std::filesystem::remove(directory + "/countwheel.fence");
}

void append_bytes(const std::string& file, const std::string& bytes) {
  std::ofstream(file, std::ios::app | std::ios::binary) << bytes;
}

bool is_prefix(const std::vector<TaskId>& prefix, const std::vector<TaskId>& all) {
  return prefix.size() <= all.size() && std::equal(prefix.begin(), prefix.end(), all.begin());
}

// Opens, writes on, and opens three times more: a tail that is legal once stays legal.
void expect_lives_on(const std::string& directory, const std::vector<TaskId>& must_have) {
  LogContent first;
  {
    LogWriter writer(directory);
    ASSERT_EQ(writer.open().text(), "ok");
    first = writer.content();
    ASSERT_TRUE(is_prefix(must_have, first.scheduled));
    ASSERT_EQ(writer.commit(3, 10).text(), "ok");
    ASSERT_EQ(writer.commit(3, 10, false).text(), "ok");
  }
  for (int i = 0; i < 3; ++i) {
    LogContent content;
    ASSERT_EQ(testing::restart(directory, &content).text(), "ok");
    ASSERT_EQ(content.scheduled.size(), first.scheduled.size() + 6);
    ASSERT_TRUE(is_prefix(first.scheduled, content.scheduled));
  }
}

TEST(WalDamage, AFlipInTheAcknowledgedPrefixIsRefusedWithFileAndOffset) {
  KilledLog log(60);
  std::mt19937_64 random(testing::seed_from_environment(11));
  for (int round = 0; round < 150; ++round) {
    const std::string directory = log.copy();
    const std::string file = KilledLog::log_file_in(directory);
    const std::uint64_t place = random() % log.synced_bytes();
    SCOPED_TRACE("offset " + std::to_string(place));
    flip_byte(file, place, static_cast<unsigned char>(1U << (random() % 8)));
    LogContent content;
    const Status status = round % 2 == 0 ? testing::restart(directory, &content)
                                         : testing::read_directory(directory, &content);
    ASSERT_EQ(status.code(), Code::kCorrupt);
    ASSERT_NE(status.text().find(file + ": unreadable from offset "), std::string::npos)
        << status.text();
    ASSERT_NE(status.text().find("LSN "), std::string::npos);
    // Refused means untouched: what a rescue needs is still there, and it is refused again.
    ASSERT_EQ(testing::restart(directory, &content).code(), Code::kCorrupt);
    std::filesystem::remove_all(directory);
  }
}

TEST(WalDamage, AFlipBeforeALaterWatermarkIsRefusedWithoutAFence) {
  KilledLog log(60);
  std::mt19937_64 random(testing::seed_from_environment(12));
  // The last blob's watermark speaks for all blobs but itself and the one whose sync it followed.
  const std::uint64_t covered = log.synced_bytes() * 58 / 61;
  for (int round = 0; round < 100; ++round) {
    const std::string directory = log.copy();
    remove_fence(directory);
    const std::uint64_t place = random() % covered;
    SCOPED_TRACE("offset " + std::to_string(place));
    flip_byte(
        KilledLog::log_file_in(directory), place, static_cast<unsigned char>(1U << (random() % 8)));
    LogContent content;
    ASSERT_EQ(testing::restart(directory, &content).code(), Code::kCorrupt);
    std::filesystem::remove_all(directory);
  }
}

TEST(WalDamage, AFlipInALogOfLargeBlobsIsRefused) {
  KilledLog log(30, 0, 2000);  // each blob spans blocks of the file
  std::mt19937_64 random(testing::seed_from_environment(13));
  for (int round = 0; round < 20; ++round) {
    const std::string directory = log.copy();
    if (round % 2 == 0) {
      remove_fence(directory);
    }
    const std::string file = KilledLog::log_file_in(directory);
    flip_byte(file,
              random() % (std::filesystem::file_size(file) * 28 / 31),
              static_cast<unsigned char>(1U << (random() % 8)));
    LogContent content;
    ASSERT_EQ(testing::restart(directory, &content).code(), Code::kCorrupt);
    std::filesystem::remove_all(directory);
  }
}

TEST(WalCases, B40_TheLastBytesOfTheLogAreCutOff) {
  // Cut the last 1..64 bytes of a log whose last blob nobody was told about: it opens by itself,
  // every acknowledged operation is there, the torn one is absent or whole.
  KilledLog log(10, 1, 1);
  for (std::uint64_t cut = 1; cut <= 64; ++cut) {
    SCOPED_TRACE("cut " + std::to_string(cut));
    const std::string directory = log.copy();
    const std::string file = KilledLog::log_file_in(directory);
    remove_fence(directory);  // it says the blob was written, which a power failure takes back
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - cut);
    LogContent content;
    LogFacts facts;
    ASSERT_EQ(testing::read_directory(directory, &content, &facts).text(), "ok");
    EXPECT_EQ(content.scheduled, log.durable());
    EXPECT_GT(facts.torn_bytes, 0U);
    EXPECT_EQ(facts.torn_file, file);
    if (cut % 8 == 0) {
      expect_lives_on(directory, log.durable());
    }
    std::filesystem::remove_all(directory);
  }
}

TEST(WalCases, B41_TwoFlippedBytesInTheMiddle) {
  // 1 000 acknowledged synced schedules, crash, flip 2 bytes at half of the log file: refused with
  // file and offset, never a silent open with fewer than acknowledged.
  KilledLog log(1000, 0, 1);
  ASSERT_EQ(log.durable().size(), 1000U);
  const std::string directory = log.copy();
  const std::string file = KilledLog::log_file_in(directory);
  const std::uint64_t half = log.synced_bytes() / 2;
  flip_byte(file, half);
  flip_byte(file, half + 1);
  LogContent content;
  const Status status = testing::restart(directory, &content);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.text().find(file + ": unreadable from offset "), std::string::npos)
      << status.text();
  EXPECT_NE(status.text().find("to 1001 cannot be read"), std::string::npos) << status.text();
  EXPECT_NE(status.text().find("to 1000)"), std::string::npos) << status.text();
}

TEST(WalDamage, TailsThatACrashMayLeaveAreOpenedAndWrittenOn) {
  KilledLog log(20);
  std::mt19937_64 random(testing::seed_from_environment(14));
  for (int round = 0; round < 24; ++round) {
    const std::string directory = log.copy();
    std::string tail(1 + random() % 70'000, '\0');
    if (round % 2 == 0) {
      for (char& byte : tail) {
        byte = static_cast<char>(random());
      }
    }
    append_bytes(KilledLog::log_file_in(directory), tail);
    SCOPED_TRACE(std::to_string(tail.size()) + (round % 2 == 0 ? " random bytes" : " zeroes"));
    expect_lives_on(directory, log.acknowledged());
    std::filesystem::remove_all(directory);
  }
}

TEST(WalDamage, AHoleInWhatWasNeverSyncedIsAPrefixAndNotRefused) {
  // A power failure may keep later pages and lose earlier ones, if none of them was synced.
  KilledLog log(10, 30, 200);
  std::mt19937_64 random(testing::seed_from_environment(15));
  for (int round = 0; round < 20; ++round) {
    const std::string directory = log.copy();
    remove_fence(directory);
    const std::string file = KilledLog::log_file_in(directory);
    const std::uint64_t size = std::filesystem::file_size(file);
    ASSERT_GT(size, log.synced_bytes() + 8192);
    const std::uint64_t hole = log.synced_bytes() + random() % (size - log.synced_bytes() - 4096);
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
            .seekp(static_cast<std::streamoff>(hole))
        << std::string(4096, '\0');
    SCOPED_TRACE("hole at " + std::to_string(hole));
    LogContent content;
    ASSERT_EQ(testing::read_directory(directory, &content).text(), "ok");
    ASSERT_TRUE(is_prefix(content.scheduled, log.acknowledged()));
    expect_lives_on(directory, log.durable());
    std::filesystem::remove_all(directory);
  }
}

TEST(WalDamage, ALiveLogFileThatIsGoneIsRefused) {
  KilledLog log(20);
  const std::string directory = log.copy();
  std::filesystem::remove(KilledLog::log_file_in(directory));
  LogContent content;
  const Status status = testing::restart(directory, &content);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.text().find(directory), std::string::npos) << status.text();
  EXPECT_NE(status.text().find("acknowledged blobs 1 to 21"), std::string::npos) << status.text();
}

TEST(WalDamage, ALiveLogFileThatIsCutShortIsRefused) {
  KilledLog log(20);
  std::mt19937_64 random(testing::seed_from_environment(16));
  for (int round = 0; round < 20; ++round) {
    const std::string directory = log.copy();
    const std::string file = KilledLog::log_file_in(directory);
    const std::uint64_t size = random() % log.synced_bytes();
    std::filesystem::resize_file(file, size);
    SCOPED_TRACE("cut to " + std::to_string(size));
    LogContent content;
    const Status status = testing::restart(directory, &content);
    ASSERT_EQ(status.code(), Code::kCorrupt);
    ASSERT_NE(status.text().find(file), std::string::npos) << status.text();
    ASSERT_NE(status.text().find("offset"), std::string::npos) << status.text();
    std::filesystem::remove_all(directory);
  }
}

TEST(WalDamage, TheFileThatNamesTheManifestIsGone) {
  KilledLog log(5);
  const std::string directory = log.copy();
  std::filesystem::remove(directory + "/CURRENT");
  LogContent content;
  const Status status = testing::restart(directory, &content);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_NE(status.text().find(directory + "/CURRENT"), std::string::npos) << status.text();
}

TEST(WalDamage, AFlipInTheManifestIsRefusedAndNamesIt) {
  KilledLog log(5);
  const std::string manifest = files_in(log.copy()).empty() ? "" : "MANIFEST-";
  std::mt19937_64 random(testing::seed_from_environment(17));
  for (int round = 0; round < 30; ++round) {
    const std::string directory = log.copy();
    std::string file;
    for (const std::string& name : files_in(directory)) {
      file = name.rfind(manifest, 0) == 0 ? directory + "/" + name : file;
    }
    const std::uint64_t place = random() % std::filesystem::file_size(file);
    flip_byte(file, place, static_cast<unsigned char>(1U << (random() % 8)));
    SCOPED_TRACE("offset " + std::to_string(place));
    LogContent content;
    const Status status = testing::restart(directory, &content);
    ASSERT_EQ(status.code(), Code::kCorrupt) << status.text();
    ASSERT_NE(status.text().find(directory), std::string::npos) << status.text();
    std::filesystem::remove_all(directory);
  }
}

// Its last record was being written when the power failed. RocksDB by itself takes all but a
// shorter file for damage.
TEST(WalDamage, AManifestWithATornTailIsOpened) {
  KilledLog log(20);
  std::mt19937_64 random(testing::seed_from_environment(18));
  for (int round = 0; round < 12; ++round) {
    const std::string directory = log.copy();
    std::string tail(1 + random() % 200, '\0');
    if (round % 3 != 0) {
      for (char& byte : tail) {
        byte = static_cast<char>(random());
      }
    }
    for (const std::string& name : files_in(directory)) {
      if (name.starts_with("MANIFEST-")) {
        append_bytes(directory + "/" + name, tail);
      }
    }
    LogContent content;
    ASSERT_EQ(testing::read_directory(directory, &content).text(), "ok");
    ASSERT_EQ(content.scheduled, log.acknowledged());
    expect_lives_on(directory, log.acknowledged());
    std::filesystem::remove_all(directory);
  }
}

}  // namespace
}  // namespace countwheel
