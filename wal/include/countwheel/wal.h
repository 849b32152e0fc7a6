// The write-ahead log: an engine's Journal on RocksDB.
//
// A data directory is opened once, read to its end once, and then written on:
//
//   auto log = countwheel::Log::open("/var/lib/orders");
//   if (!log) return log.status();        // "locked: /var/lib/orders: pid 4711 has it open"
//   log->get()->read(visitor);            // every operation since the low-water mark, in order
//   auto journal = std::move(**log).into_journal();
//
// What is on disk is a sequence of blobs, one for each group commit, under contiguous numbers. A
// blob says which blobs before it were synced; a page beside the log (the fence) says which blobs
// were acknowledged. Both together tell a torn tail, which a crash may leave and which is cut off,
// from a hole in acknowledged work, which is refused as `corrupt` with file and offset. RocksDB by
// itself tells neither. docs/log-format.md has the bytes.
#ifndef COUNTWHEEL_WAL_H_
#define COUNTWHEEL_WAL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <countwheel/journal.h>
#include <countwheel/restore.h>
#include <countwheel/status.h>

namespace rocksdb {
struct ColumnFamilyOptions;
class Env;
}  // namespace rocksdb

namespace countwheel {

// A column family of the application beside the log (countwheel/rocksdb.h).
struct AppColumnFamily {
  std::string name;
  // Null: RocksDB's defaults. The comparator is fixed once the family is made.
  std::shared_ptr<const rocksdb::ColumnFamilyOptions> options = {};
};

struct WalOptions {
  // -- Behaviour --

  // Whether a directory that is missing or empty becomes a new log.
  // Default: true. False: a missing log is `not_a_directory`.
  bool create_if_missing = true;

  // How many bits of a task's index name its shard; the rest is its slot.
  // Default: 4. Range: [0, 16]. Fixed for the life of a log: another value is refused by name.
  std::uint32_t shard_bits = 4;

  // The application's tables in the same database, so that writes to them can commit with a task.
  // Those that are not there are made. All that are there have to be named at every open(); reading
  // the log alone (Log::open_read_only(), check()) needs none. "default" and "countwheel" are
  // taken. All are flushed together: write_buffer_size of the smallest counts.
  // Default: none. Each more: two memtables of its own, and its writes in the log's files.
  std::vector<AppColumnFamily> app_column_families = {};

  // -- Performance --

  // One of the two buffers in which RocksDB collects the log before it is a table file.
  // Default: 16 MiB. Unit: bytes. Range: [64 KiB, 1 GiB]. Raised: fewer files, more memory, and
  // more to read again at open.
  std::size_t memtable_bytes = std::size_t{16} << 20;

  // -- Limits --

  // The log is never cleaned while it is smaller than this; when larger, it is kept below twice
  // the live bytes.
  // Default: 64 MiB. Unit: bytes. Raised: fewer tasks are written again, more disk.
  std::uint64_t min_log_bytes = std::uint64_t{64} << 20;

  // Running deliveries that can be marked at once.
  // Default: 65,536. Range: [1, 2^24]. Unit: cells of 16 bytes, reserved on disk at open.
  std::uint32_t attempt_cells = 65536;

  // -- Tests --

  // Where RocksDB does its input and output. Must outlive the log.
  // Default: null, RocksDB's own. Given: fault injection.
  rocksdb::Env* env = nullptr;

  // Which start of the machine this is. Marks of work that was only written bind only within one.
  // Default: empty, the kernel's. Given: a test that cuts the power.
  std::string boot_id = {};
};

// Names the option, the value given and the values allowed.
Status validate(const WalOptions& options);

// The identity of a log, drawn when its directory is made.
using StoreUuid = std::array<std::uint8_t, 16>;
std::string to_string(const StoreUuid& uuid);

// What a blob says about itself (docs/log-format.md).
struct BlobHeader {
  std::uint32_t format = 1;
  bool clean_stop = false;  // nothing follows until the next start
  bool synced = false;      // its writer waited for fsync
  std::uint8_t shard_bits = 0;
  std::uint8_t slot_bits = 0;
  std::uint32_t op_count = 0;
  std::uint32_t generation_ceiling = 0;
  std::uint64_t sequence = 0;  // of blobs; contiguous, the first is 1
  std::uint64_t previous = 0;  // sequence of the blob before
  std::uint64_t first_lsn = 0;
  std::uint64_t last_lsn = 0;
  std::uint64_t lsn_ceiling = 0;
  std::uint64_t epoch = 0;
  std::uint64_t session_hash = 0;
  std::int64_t wall_ns = 0;
  std::uint64_t low_water = 0;  // replay starts at this sequence
  std::uint64_t watermark = 0;  // highest sequence known synced before this blob was written
  std::uint64_t bytes = 0;      // the whole blob, header included
  StoreUuid store = {};
};

// What opening and reading found.
struct LogFacts {
  std::string path;  // the data directory, links resolved
  StoreUuid store = {};
  std::uint32_t format = 1;
  bool created = false;              // by this open()
  std::uint64_t first_sequence = 0;  // where replay starts
  std::uint64_t last_sequence = 0;
  std::uint64_t blobs = 0;       // read
  std::uint64_t ops = 0;         // read
  std::uint64_t bytes = 0;       // of the blobs read
  std::uint64_t disk_bytes = 0;  // of the files in the directory
  std::uint64_t torn_bytes = 0;  // of a tail that nobody was told about, left by a crash
  std::string torn_file;         // where, if torn_bytes > 0
  std::uint64_t fence_disk_sequence =
      0;                                // what the fence says was acknowledged at disk; 0: nothing
  std::uint64_t fence_os_sequence = 0;  // and at os, since the machine started
};

// An opened data directory. Thread contract: one thread at a time.
class Log {
 public:
  // The views of the operations live until the call returns. A Status that is not ok ends read().
  using Visitor = std::function<Status(const BlobHeader&, std::span<const Op>)>;
  using Progress = std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_total)>;

  // Takes the lock of the directory, checks it, and opens the log for read() and into_journal().
  //   locked, insecure_dir, not_a_directory, permission, read_only, resource, no_space
  //   corrupt   acknowledged operations cannot be read; nothing was changed
  //   version   another format, or another shard_bits
  static Result<std::unique_ptr<Log>> open(const std::string& directory,
                                           const WalOptions& options = {});

  // The same for those who only look: changes nothing on disk. `locked` while an engine is there.
  static Result<std::unique_ptr<Log>> open_read_only(const std::string& directory,
                                                     const WalOptions& options = {});

  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  virtual ~Log() = default;

  // Every blob from the low-water mark on, in order, each checked against its checksum and its
  // neighbours. `corrupt` names where it stopped; nothing is skipped.
  virtual Status read(const Visitor& visitor, const Progress& progress = {}) = 0;

  // What the newest blob says. Right from open() on, before read().
  virtual LogEnd end() const = 0;
  // The counts are of the last read().
  virtual const LogFacts& facts() const = 0;

  // Where running deliveries were marked when the log was last written. Read only: a copy.
  virtual std::span<AttemptCell> attempt_cells() noexcept = 0;

  // The journal that writes on behind the end. The log is spent.
  // REQUIRES: open(), and read() was ok.
  virtual Result<std::unique_ptr<Journal>> into_journal() && = 0;

 protected:
  Log() = default;
};

}  // namespace countwheel

#endif  // COUNTWHEEL_WAL_H_
