// Store: the RocksDB database of one data directory, opened the one way that was found to work.
//
// Each option that differs from RocksDB's default is there because something else was tried; the
// reasons stand in store.cc.
#ifndef COUNTWHEEL_WAL_STORE_H_
#define COUNTWHEEL_WAL_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rocksdb/db.h>

#include <countwheel/rocksdb.h>
#include <countwheel/status.h>
#include <countwheel/wal.h>

#include "app_families.h"
#include "guarded_fs.h"

namespace countwheel::wal {

inline constexpr char kFamilyName[] = "countwheel";

std::string blob_key(std::uint64_t sequence);
// 0 when the key is not one of a blob.
std::uint64_t sequence_of_key(const rocksdb::Slice& key) noexcept;

// A table file of the log and the blobs in it.
struct TableFile {
  std::string name;  // as RocksDB wants it: "/000012.sst"
  std::uint64_t bytes = 0;
  std::uint64_t first_sequence = 0;
  std::uint64_t last_sequence = 0;
};

class Store {
 public:
  // `path` is the checked and locked directory. `manifest`: what is shown of it, if it is torn.
  static Result<std::unique_ptr<Store>> open(const std::string& path,
                                             const WalOptions& options,
                                             bool create,
                                             const FileView& manifest = {});
  // Changes nothing on disk. Fails as `not_a_directory` when there is no log in the directory.
  static Result<std::unique_ptr<Store>> open_read_only(const std::string& path,
                                                       const WalOptions& options,
                                                       const FileView& manifest = {});
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  // Closes the database. REQUIRES: no iterator is left.
  ~Store();

  // In a forked child nothing may be closed: the threads that would do it are in the parent.
  void abandon() noexcept;

  rocksdb::DB& database() noexcept { return *database_; }
  rocksdb::ColumnFamilyHandle* family() const noexcept { return families_[1]; }
  // Null when the application has none, and when the database is read only.
  AppDatabase* app() noexcept { return app_.get(); }
  const AppFamilies& app_families() const noexcept { return app_families_; }
  GuardedFs& files() const noexcept { return env_->files(); }

  // Over all blobs; caches nothing. `read_ahead_bytes`: for who reads all of them; 0 for a few.
  std::unique_ptr<rocksdb::Iterator> iterate(std::size_t read_ahead_bytes = 0) const;
  // Oldest first.
  std::vector<TableFile> table_files();
  // An upper bound for the bytes of blobs, for progress.
  std::uint64_t approximate_bytes();

 private:
  Store() = default;
  void adopt_families(const WalOptions& options);

  std::unique_ptr<GuardedEnv> env_;  // outlives the database
  std::unique_ptr<rocksdb::DB> database_;
  // RocksDB's default one, ours, then the application's.
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  AppFamilies app_families_;
  std::unique_ptr<AppDatabase> app_;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_STORE_H_
