// GuardedFs: what RocksDB sees as its file system.
//
// It passes everything on, and adds what RocksDB does not offer:
//   - Files that nobody else may read. RocksDB makes them 0644.
//   - Room for the next append, asked for before RocksDB writes. A full disk is then refused by us,
//     with nothing written and nothing to recover from.
//   - Where room cannot be asked for: a log file whose append failed stays torn. RocksDB's recovery
//     would write the refused record again, whole, just before it abandons the file.
//   - Log files that are fsynced before the next one begins. RocksDB leaves that for later; a power
//     failure could then keep a later record and lose an earlier one, without a trace.
//   - A manifest that ends where it can be read. RocksDB takes a torn one for damage, but that is
//   what
//     a power failure may leave; whether anything is missing, the blobs tell.
//   - Whether an fsync has failed: the record is then whole, and its outcome unknown.
#ifndef COUNTWHEEL_WAL_GUARDED_FS_H_
#define COUNTWHEEL_WAL_GUARDED_FS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include "spare_space.h"
#include "wal_scan.h"

namespace countwheel::wal {

// Thread contract: any thread; RocksDB calls it from its own.
class GuardedFs final : public rocksdb::FileSystemWrapper {
 public:
  // `spare_bytes`: of disk held back, see SpareSpace. `manifest`: what is shown of it.
  GuardedFs(const std::shared_ptr<rocksdb::FileSystem>& target,
            const std::string& directory,
            std::uint64_t spare_bytes,
            FileView manifest)
      : rocksdb::FileSystemWrapper(target),
        spare_(directory + "/countwheel.spare", spare_bytes),
        manifest_(std::move(manifest)) {}

  // Whether the next append of `bytes` to the log will find room, also in a new log file.
  bool reserve(std::uint64_t bytes) noexcept;

  // True once an fsync of a log file or of the directory has failed.
  bool sync_failed() const noexcept { return sync_failed_.load(); }
  // True while the newest log file is one that an append has failed on.
  bool log_torn() noexcept;
  // RocksDB is told to recover between these.
  void begin_recovery() noexcept { recovering_.store(true); }
  void end_recovery() noexcept { recovering_.store(false); }

  const char* Name() const override { return "GuardedFs"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name,
                                    const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewSequentialFile(const std::string& name,
                                      const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* result,
                                      rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& name,
                                 const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* result,
                                 rocksdb::IODebugContext* debug) override;

 private:
  rocksdb::IOStatus sync_newest_log();

  class LogFile;
  class Directory;
  class Beginning;

  SpareSpace spare_;
  const FileView manifest_;
  std::atomic<bool> sync_failed_{false};
  std::atomic<bool> recovering_{false};
  std::mutex mutex_;  // guards newest_log_
  LogFile* newest_log_ = nullptr;
};

// `base` with its file system replaced; threads and clocks stay those of `base`, which must outlive
// this.
class GuardedEnv final : public rocksdb::EnvWrapper {
 public:
  GuardedEnv(rocksdb::Env* base,
             const std::string& directory,
             std::uint64_t spare_bytes,
             FileView manifest);

  GuardedFs& files() const noexcept { return *files_; }

  // RocksDB asks the environment, not its file system, for the lock.
  rocksdb::Status LockFile(const std::string& name, rocksdb::FileLock** lock) override;

 private:
  std::shared_ptr<GuardedFs> files_;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_GUARDED_FS_H_
