// PowerCutFs on a bare RocksDB: what is fsynced must be in every image, what is not must be missing
// from some. A power cut that loses nothing would prove nothing about `disk`.
#include "testing/power_cut_fs.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include "testing/directory.h"

namespace countwheel::testing {
namespace {

namespace fs = std::filesystem;

rocksdb::Options options_with(rocksdb::Env* env) {
  rocksdb::Options options;
  options.env = env;
  options.create_if_missing = true;
  options.write_buffer_size = 64 << 10;
  options.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;
  return options;
}

std::set<std::string> keys_in(const std::string& directory) {
  rocksdb::DB* raw = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::Open(options_with(rocksdb::Env::Default()), directory, &raw);
  EXPECT_TRUE(status.ok()) << status.ToString();
  const std::unique_ptr<rocksdb::DB> db(raw);
  std::set<std::string> keys;
  if (db) {
    const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator({}));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      keys.insert(it->key().ToString());
    }
    EXPECT_TRUE(it->status().ok()) << it->status().ToString();
  }
  return keys;
}

class PowerCutFsTest : public ::testing::Test {
 protected:
  void open() {
    fs::create_directory(temp_ / "db");
    power_ = std::make_shared<PowerCutFs>(temp_ / "db", temp_ / "shadow");
    env_ = make_env(power_);
    rocksdb::DB* raw = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options_with(env_.get()), temp_ / "db", &raw);
    ASSERT_TRUE(status.ok()) << status.ToString();
    db_.reset(raw);
  }

  void put(int number, bool sync) {
    rocksdb::WriteOptions write;
    write.sync = sync;
    char key[16];
    std::snprintf(key, sizeof key, "%08d", number);
    ASSERT_TRUE(db_->Put(write, key, std::string(1000, 'v')).ok());
  }

  TempDirectory temp_;
  std::shared_ptr<PowerCutFs> power_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
  std::mt19937_64 random_{seed_from_environment(1)};
};

TEST_F(PowerCutFsTest, WhatIsSyncedIsInEveryImageAndWhatIsNotIsMissingFromSome) {
  open();
  int number = 0;
  int images_with_loss = 0;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 7; ++i) {
      put(number++, /*sync=*/i == 3);
    }
    const int synced = number - 3;
    const std::string image = temp_ / ("image" + std::to_string(round));
    power_->cut(image, random_);
    const std::set<std::string> keys = keys_in(image);
    // A prefix: synced keys, and what more is there has no hole.
    EXPECT_GE(static_cast<int>(keys.size()), synced) << "round " << round;
    EXPECT_EQ(std::stoi(*keys.rbegin()) + 1, static_cast<int>(keys.size())) << "round " << round;
    images_with_loss += static_cast<int>(keys.size()) < number ? 1 : 0;
    fs::remove_all(image);
  }
  EXPECT_GT(images_with_loss, 5);
  EXPECT_GE(power_->log_sync_count(), 40U);
  EXPECT_GT(power_->dropped_bytes(), 0U);
  EXPECT_EQ(power_->unmodelled_count(), 0U);
}

TEST_F(PowerCutFsTest, AFlushUnderWayLosesNothingThatWasSynced) {
  open();
  int number = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 50; ++i) {
      put(number++, /*sync=*/i == 49);
    }
    const std::string image = temp_ / ("image" + std::to_string(round));
    power_->cut(image, random_);
    EXPECT_GE(static_cast<int>(keys_in(image).size()), number) << "round " << round;
    fs::remove_all(image);
  }
}

TEST_F(PowerCutFsTest, AMappedFileComesBackOldZeroOrNotAtAll) {
  open();
  const std::string mapped = temp_ / "db/fence";
  std::set<std::string> seen;
  for (int round = 0; round < 60; ++round) {
    if (round < 5) {
      std::ofstream(mapped, std::ios::binary) << std::string(4096, static_cast<char>('a' + round));
      put(round, /*sync=*/true);
    }
    const std::string image = temp_ / ("image" + std::to_string(round));
    power_->cut(image, random_);
    if (!fs::exists(image + "/fence")) {
      seen.insert("missing");
    } else {
      std::ifstream in(image + "/fence", std::ios::binary);
      const char first = static_cast<char>(in.get());
      seen.insert(first == '\0' ? "zero" : first == 'e' ? "newest" : "older");
    }
    fs::remove_all(image);
  }
  EXPECT_EQ(seen, (std::set<std::string>{"missing", "newest", "older", "zero"}));
}

}  // namespace
}  // namespace countwheel::testing
