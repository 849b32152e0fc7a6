// RocksdbJournal: the Journal that writes on behind the end of an opened log.
#ifndef COUNTWHEEL_WAL_ROCKSDB_JOURNAL_H_
#define COUNTWHEEL_WAL_ROCKSDB_JOURNAL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rocksdb/write_batch.h>

#include <countwheel/journal.h>
#include <countwheel/wal.h>

#include "data_dir.h"
#include "fence.h"
#include "log_extent.h"
#include "mapped_file.h"
#include "store.h"
#include "table_dropper.h"

namespace countwheel::wal {

// What an opened log hands on. In this order: the lock is given up last.
struct LogParts {
  std::unique_ptr<DataDir> directory;
  Fence fence;
  MappedFile cells;
  std::unique_ptr<Store> store;
  WalOptions options;
  BlobHeader newest;
  LogExtent extent;  // from newest.low_water on
};

// As cells of a mapped file. Their bytes were written by another process, or are zero.
std::span<AttemptCell> cells_of(const MappedFile& file) noexcept;

// What the newest blob says, as a batch without operations: a watermark.
Batch watermark_after(const BlobHeader& newest) noexcept;

// Thread contract: that of Journal.
class RocksdbJournal final : public Journal {
 public:
  explicit RocksdbJournal(LogParts parts);
  RocksdbJournal(const RocksdbJournal&) = delete;
  RocksdbJournal& operator=(const RocksdbJournal&) = delete;
  ~RocksdbJournal() override;

  Status append(const Batch& batch) noexcept override;
  Status recover() noexcept override;
  bool next_to_clean(std::uint64_t live_bytes, CleanRequest* request) noexcept override;
  std::span<AttemptCell> attempt_cells() noexcept override { return cells_of(parts_.cells); }
  bool durable() const noexcept override { return true; }
  std::string_view path() const noexcept override { return parts_.directory->path(); }
  Status check_writes(std::string_view bytes) const noexcept override;
  AppDatabase* app_database() noexcept override { return parts_.store->app(); }
  JournalStats stats() const noexcept override;

 private:
  Status check_usable() const noexcept;
  Status make_room(const Batch& batch) noexcept;
  BlobHeader header_for(const Batch& batch) const noexcept;
  rocksdb::Status write(const Batch& batch, std::uint64_t sequence, std::size_t bytes) noexcept;
  rocksdb::WriteBatch joined(const Batch& batch, std::string_view key, std::string_view blob);
  void note_written(const Batch& batch, std::size_t bytes) noexcept;
  void drop_dead_files() noexcept;
  Status refuse(const rocksdb::Status& status) noexcept;
  Status no_room() const noexcept;
  Status fail(const std::string& reason) noexcept;
  Status collect(std::uint64_t budget_bytes, CleanRequest* request);

  LogParts parts_;
  std::unique_ptr<TableDropper> dropper_;

  // Of the thread that appends.
  BlobHeader last_;  // the newest blob written
  std::uint64_t synced_sequence_;
  std::uint64_t synced_low_water_;
  std::uint64_t requested_low_water_ = 0;  // asked of the engine and not yet answered
  std::uint64_t dropped_bytes_ = 0;        // of the log, when files were last looked at
  std::uint64_t appended_bytes_ = 0;
  std::vector<char> blob_;
  rocksdb::WriteBatch write_batch_;
  std::size_t write_batch_bytes_ = 0;
  std::string joined_;    // blob and writes of the application, while they are put together
  bool stopped_ = false;  // RocksDB refuses writes until it is told to recover
  Status failure_;        // not ok: nothing is accepted any more

  // Relaxed: figures for people, no other memory is read after them.
  std::atomic<std::uint64_t> blobs_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> syncs_{0};
  std::atomic<std::uint64_t> log_bytes_{0};
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_ROCKSDB_JOURNAL_H_
