// Fence: what was acknowledged, on a page beside the log.
//
// RocksDB opens happily when the newest log file is gone or cut short. The fence knows better: it
// holds the highest blob that was fsynced and the highest that was written, each stored after the
// fact and before anyone is told.
//   disk  binds always: what was fsynced must be there
//   os    binds while the machine has not been restarted since: kill -9 loses no page cache
// Stored without fsync: exact after kill -9, and after a power failure any older content, which is
// a lower bound. Missing, zero, torn or of another log: no bound, and never a reason to refuse.
#ifndef COUNTWHEEL_WAL_FENCE_H_
#define COUNTWHEEL_WAL_FENCE_H_

#include <cstdint>
#include <string>

#include <countwheel/status.h>
#include <countwheel/wal.h>

#include "data_dir.h"
#include "mapped_file.h"

namespace countwheel::wal {

// A blob and the last LSN in it; 0 is none.
struct FenceMark {
  std::uint64_t sequence = 0;
  std::uint64_t lsn = 0;
};

// The kernel's name for this start of the machine; empty when it does not say.
std::string kernel_boot_id();

// Thread contract: one thread at a time.
class Fence {
 public:
  // `boot_id`: the start of the machine that marks are made in.
  static Result<Fence> open(const DataDir& directory, const std::string& boot_id);

  // What binds a log with this identity. A log that has lost its identity is bound too.
  FenceMark disk(const StoreUuid* store) const noexcept;
  FenceMark os(const StoreUuid* store) const noexcept;

  // Says whose fence this is from now on, with nothing acknowledged beyond `mark`.
  void begin(const StoreUuid& store, FenceMark mark) noexcept;
  // After fsync; after write(). Marks never go back between two begin().
  void store_disk(FenceMark mark) noexcept;
  void store_os(FenceMark mark) noexcept;

 private:
  Fence(MappedFile page, std::uint64_t boot_hash) : page_(std::move(page)), boot_hash_(boot_hash) {}
  bool binds(const StoreUuid* store) const noexcept;

  MappedFile page_;
  std::uint64_t boot_hash_;
  unsigned next_disk_ = 0;  // which of the two copies is written next
  unsigned next_os_ = 0;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_FENCE_H_
