// TableDropper: gives dead parts of the log back to the disk.
//
// A table file holds a stretch of blobs. Once the low-water mark is past it, it is deleted as a
// whole: nothing is compacted and no tombstone is written. Deleting 16 MB takes some milliseconds,
// so it is done on RocksDB's background thread.
#ifndef COUNTWHEEL_WAL_TABLE_DROPPER_H_
#define COUNTWHEEL_WAL_TABLE_DROPPER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "store.h"

namespace countwheel::wal {

// Thread contract: one thread at a time calls it.
class TableDropper {
 public:
  // `store` must outlive this.
  explicit TableDropper(Store& store) : store_(store) {}
  TableDropper(const TableDropper&) = delete;
  TableDropper& operator=(const TableDropper&) = delete;
  // Waits for what is under way.
  ~TableDropper() { wait(); }

  // Deletes files whose blobs are all below. Returns at once; if it is still busy with the last
  // call, this one is left out, and a later one makes up for it.
  void drop_below(std::uint64_t sequence) noexcept;
  void wait() noexcept;

 private:
  static void run(void* dropper);
  void drop();

  Store& store_;
  std::atomic<std::uint64_t> below_{0};
  std::mutex mutex_;  // guards busy_
  std::condition_variable idle_;
  bool busy_ = false;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_TABLE_DROPPER_H_
