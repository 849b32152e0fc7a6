// The application's tables beside the log, in the same RocksDB: read them, write them, and write
// them together with a task.
//
//   countwheel::OpenOptions options;
//   options.wal.app_column_families = {{"orders"}};
//   auto opened = countwheel::open("/var/lib/exchange", options);
//   countwheel::AppDatabase& data = *opened->engine->app_database();
//   rocksdb::WriteBatch batch;
//   batch.Put(data.family("orders"), "order-42", row);
//   opened->engine->schedule(spec, countwheel::writes_of(batch));   // both or neither
//   data.db().Get({}, data.family("orders"), "order-42", &row);
//
// The application may read, iterate and write its own column families through db() as it likes,
// also with Write(sync = true), flush and compact them. What it writes by itself commits by itself
// and costs the log nothing but room on the disk: when that is full, both are told.
//
// It must not
//   - write to the column family "countwheel", drop any, or make others;
//   - change options of the database: they are what the log was tested with;
//   - call Close(), SyncWAL(), FlushWAL(), LockWAL() or Resume(): after a failed write some of them
//     end the process, and recovery is the log's;
//   - keep an iterator or a snapshot beyond the engine: closing the database would end the process.
//
// Writes that come with a call are refused as `invalid_argument` when they are not the whole bytes
// of a WriteBatch, when an entry is something else than a put, (single) delete, deleted range or
// merge, or when RocksDB would refuse it: a merge without a merge operator, a range that ends
// before it begins.
//
// This is the only public header that needs RocksDB: link countwheel::rocksdb.
#ifndef COUNTWHEEL_ROCKSDB_H_
#define COUNTWHEEL_ROCKSDB_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <countwheel/wal.h>
#include <countwheel/writes.h>

namespace countwheel {

// `batch` must outlive the call that takes the writes, unchanged.
inline Writes writes_of(const rocksdb::WriteBatch& batch) noexcept {
  return {std::string_view(batch.Data().data(), batch.Data().size())};
}

// Engine::app_database(). Lives as long as its engine.
// Thread contract: safe for concurrent use.
class AppDatabase {
 public:
  // A member of WalOptions::app_column_families; null for another name.
  rocksdb::ColumnFamilyHandle* family(std::string_view name) const noexcept {
    for (const auto& [its_name, handle] : families_) {
      if (its_name == name) {
        return handle;
      }
    }
    return nullptr;
  }
  rocksdb::DB& db() const noexcept { return *database_; }

  // The log makes it.
  AppDatabase(rocksdb::DB* database,
              std::vector<std::pair<std::string, rocksdb::ColumnFamilyHandle*>> families)
      : database_(database), families_(std::move(families)) {}
  AppDatabase(const AppDatabase&) = delete;
  AppDatabase& operator=(const AppDatabase&) = delete;

 private:
  rocksdb::DB* database_;
  std::vector<std::pair<std::string, rocksdb::ColumnFamilyHandle*>> families_;
};

}  // namespace countwheel

#endif  // COUNTWHEEL_ROCKSDB_H_
