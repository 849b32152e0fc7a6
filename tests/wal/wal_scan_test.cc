// Finding our blobs in RocksDB's log files, whole or damaged, without RocksDB.
#include "wal/wal_scan.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "testing/directory.h"
#include "wal/bytes.h"
#include "wal/crc32c.h"
#include "wal/log_writer.h"
#include "wal/record.h"
#include "wal/rocksdb_log_format.h"

namespace countwheel::wal {
namespace {

using testing::BatchBuilder;
using testing::TempDirectory;

// Writes RocksDB's log format, as plainly as can be.
class LogFile {
 public:
  void add_record(const std::string& record) {
    std::size_t done = 0;
    bool first = true;
    do {
      const std::size_t left = kLogBlockBytes - bytes_.size() % kLogBlockBytes;
      if (left < kLogHeaderBytes) {
        bytes_.append(left, '\0');
        continue;
      }
      const std::size_t count = std::min(record.size() - done, left - kLogHeaderBytes);
      const bool last = done + count == record.size();
      add_fragment(first ? (last ? 1 : 2) : (last ? 4 : 3), record.substr(done, count));
      done += count;
      first = false;
    } while (done < record.size());
  }

  // A record of ours: a write batch with one blob.
  void add_blob(std::uint64_t sequence, std::uint64_t watermark, std::size_t payload_bytes) {
    BatchBuilder builder(sequence * 10);
    builder.schedule(TaskId::of(1, 1), {}, std::string(payload_bytes, 'p'));
    BlobHeader header;
    header.sequence = sequence;
    header.previous = sequence - 1;
    header.low_water = 1;
    header.watermark = watermark;
    std::string blob(encoded_bytes_max(builder.batch(true)), '\0');
    blob.resize(encode(header, builder.batch(true), blob.data()));
    std::string key(kBlobKeyBytes, kBlobKeyPrefix);
    store_u64_big_endian(key.data() + 1, sequence);
    add_record(std::string(12, '\0') + before_ + '\x05' + '\x01' + prefixed(key) + prefixed(blob) +
               behind_);
  }
  // Entries of a write batch that stand before and behind the blobs from now on.
  void surround(std::string before, std::string behind) {
    before_ = std::move(before);
    behind_ = std::move(behind);
  }

  static std::string prefixed(const std::string& bytes) {
    char length[kVarintBytesMax];
    return std::string(length, store_varint(length, bytes.size())) + bytes;
  }

  FileScan scan(const std::string& path) const {
    std::ofstream(path, std::ios::trunc | std::ios::binary) << bytes_;
    Result<FileScan> scanned = scan_log_file(path);
    EXPECT_TRUE(scanned.ok());
    return *scanned;
  }

  std::string& bytes() { return bytes_; }

 private:
  void add_fragment(char type, const std::string& data) {
    std::string checked = type + data;
    char header[6];
    store_u32(header, mask_crc32c(crc32c(checked)));
    header[4] = static_cast<char>(data.size() & 0xff);
    header[5] = static_cast<char>(data.size() >> 8);
    bytes_.append(header, 6).append(checked);
  }

  std::string bytes_;
  std::string before_;
  std::string behind_;
};

TEST(WalScan, AWholeFileIsReadToItsEnd) {
  TempDirectory temp;
  LogFile log;
  for (std::uint64_t sequence = 7; sequence <= 40; ++sequence) {
    log.add_blob(sequence, sequence - 2, sequence * sequence * 50);  // up to 80 KB: three blocks
  }
  const FileScan scan = log.scan(temp / "000004.log");
  EXPECT_TRUE(scan.whole());
  EXPECT_EQ(scan.bytes, log.bytes().size());
  EXPECT_EQ(scan.first_sequence, 7U);
  EXPECT_EQ(scan.last_sequence, 40U);
  EXPECT_EQ(scan.highest_watermark, 38U);
  EXPECT_EQ(scan.gap_offset, 0U);
}

// What the application writes with a blob stands behind it; what another thread has written in the
// same moment, RocksDB may have put before it.
TEST(WalScan, BlobsAreFoundAmongWhatOthersHaveWrittenWithThem) {
  TempDirectory temp;
  LogFile log;
  const std::string put = std::string("\x05\x02") + LogFile::prefixed("key") +
                          LogFile::prefixed(std::string(50'000, 'v'));
  const std::string erase = std::string("\x04\x02") + LogFile::prefixed("key");
  const std::string range =
      std::string("\x0e\x03") + LogFile::prefixed("a") + LogFile::prefixed("b");
  const std::string data = '\x03' + LogFile::prefixed("log data");
  const std::string decoy = std::string("\x05\x02") + LogFile::prefixed("L2345678") +
                            LogFile::prefixed("looks like one of ours");
  log.add_blob(1, 0, 10);
  log.surround({}, put + erase);
  log.add_blob(2, 1, 10);
  log.surround(put + range, {});
  log.add_blob(3, 2, 70'000);
  log.surround(decoy + data + erase, decoy);
  log.add_blob(4, 3, 10);
  log.surround({}, {});
  log.add_blob(5, 4, 10);
  const FileScan scan = log.scan(temp / "000004.log");
  EXPECT_TRUE(scan.whole());
  EXPECT_EQ(scan.last_sequence, 5U);
  EXPECT_EQ(scan.gap_offset, 0U);
  EXPECT_EQ(scan.highest_watermark, 4U);
}

TEST(WalScan, RecordsOfOthersAreSkipped) {
  TempDirectory temp;
  LogFile log;
  log.add_blob(1, 0, 10);
  log.add_record(std::string(12, '\0') + '\x01' + LogFile::prefixed("app key") +
                 LogFile::prefixed("app value"));
  log.add_record(std::string(12, '\0') + '\x03' + LogFile::prefixed("log data"));
  log.add_record("short");
  log.add_record("");
  log.add_record(std::string(12, '\0') + '\x05' + '\x01' +
                 LogFile::prefixed(std::string("L") + std::string(8, '\x01')) +
                 LogFile::prefixed("looks like one of ours"));
  log.add_blob(2, 1, 10);
  const FileScan scan = log.scan(temp / "000004.log");
  EXPECT_TRUE(scan.whole());
  EXPECT_EQ(scan.last_sequence, 2U);
  EXPECT_EQ(scan.gap_offset, 0U);
}

TEST(WalScan, DamageEndsTheGoodPartAndWhatLiesBehindStillSpeaks) {
  TempDirectory temp;
  std::mt19937_64 random(testing::seed_from_environment(21));
  for (int round = 0; round < 200; ++round) {
    LogFile log;
    for (std::uint64_t sequence = 1; sequence <= 60; ++sequence) {
      log.add_blob(sequence, sequence - 1, random() % 3000);
    }
    const std::size_t place = random() % (log.bytes().size() * 9 / 10);
    log.bytes()[place] = static_cast<char>(log.bytes()[place] ^ (1 << (random() % 8)));
    const FileScan scan = log.scan(temp / "000004.log");
    SCOPED_TRACE("flip at " + std::to_string(place));
    ASSERT_FALSE(scan.whole());
    ASSERT_LE(scan.good_bytes, place);
    ASSERT_LT(scan.last_sequence, 60U);
    ASSERT_EQ(scan.highest_watermark, 59U);
  }
}

TEST(WalScan, TornZeroAndRandomTailsAreNotPartOfTheGood) {
  TempDirectory temp;
  std::mt19937_64 random(testing::seed_from_environment(22));
  LogFile log;
  for (std::uint64_t sequence = 1; sequence <= 20; ++sequence) {
    log.add_blob(sequence, sequence - 1, 5000);
  }
  const std::string whole = log.bytes();
  for (int round = 0; round < 60; ++round) {
    log.bytes() = whole;
    std::string tail(1 + random() % 100'000, '\0');
    if (round % 3 == 0) {
      log.bytes().resize(whole.size() - 1 - random() % 4000);  // inside the last blob
    } else {
      for (char& byte : tail) {
        byte = round % 3 == 1 ? '\0' : static_cast<char>(random());
      }
      log.bytes() += tail;
    }
    const FileScan scan = log.scan(temp / "000004.log");
    ASSERT_EQ(scan.last_sequence, round % 3 == 0 ? 19U : 20U);
    ASSERT_LE(scan.highest_watermark, scan.last_sequence);
  }
}

TEST(WalScan, ABlobThatDoesNotFollowTheOneBeforeIsAGap) {
  TempDirectory temp;
  LogFile log;
  log.add_blob(1, 0, 10);
  log.add_blob(2, 0, 10);
  const std::uint64_t gap = log.bytes().size();
  log.add_blob(4, 0, 10);
  const FileScan scan = log.scan(temp / "000004.log");
  EXPECT_TRUE(scan.whole());
  EXPECT_EQ(scan.gap_offset, gap);
}

TEST(WalScan, AnyBytesAreSafe) {
  TempDirectory temp;
  std::mt19937_64 random(testing::seed_from_environment(23));
  LogFile source;
  for (std::uint64_t sequence = 1; sequence <= 10; ++sequence) {
    source.add_blob(sequence, sequence - 1, 20'000);
  }
  for (int round = 0; round < 100; ++round) {
    LogFile log;
    log.bytes() = source.bytes();
    for (int i = 0; i < 50; ++i) {
      const std::size_t from = random() % log.bytes().size();
      const std::size_t to = random() % log.bytes().size();
      const std::size_t count =
          std::min({log.bytes().size() - std::max(from, to), std::size_t{5000}});
      log.bytes().replace(to, count, log.bytes().substr(from, count));
    }
    const FileScan scan = log.scan(temp / "000004.log");
    ASSERT_LE(scan.good_bytes, scan.bytes);
    ASSERT_LE(scan.last_sequence, 10U);
  }
}

TEST(WalScan, FilesAreTakenInTheOrderOfTheirNumbersAndOthersLeftAlone) {
  TempDirectory temp;
  LogFile first;
  first.add_blob(1, 0, 10);
  LogFile second;
  second.add_blob(2, 1, 10);
  second.scan(temp / "1000000.log");
  first.scan(temp / "999999.log");
  std::ofstream(temp / "notes.log") << "not a log of RocksDB's";
  std::ofstream(temp / "12x.log") << "neither";
  Result<WalScan> scan = scan_wal(temp.path());
  ASSERT_TRUE(scan.ok());
  ASSERT_EQ(scan->files.size(), 2U);
  EXPECT_EQ(scan->files[0].number, 999999U);
  EXPECT_EQ(scan->last_sequence, 2U);
  EXPECT_EQ(scan->highest_watermark, 1U);
  EXPECT_TRUE(scan->clean());
  // Without the second the first still is a log; without the first there is a gap before it.
  LogFile third;
  third.add_blob(4, 1, 10);
  third.scan(temp / "1000001.log");
  EXPECT_FALSE(scan_wal(temp.path())->clean());
}

}  // namespace
}  // namespace countwheel::wal
