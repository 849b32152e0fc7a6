// GuardedFs: what RocksDB sees as its file system.
//
// It passes everything on, and adds two things RocksDB does not offer: files that nobody else may
// read (RocksDB makes them 0644), and the knowledge whether a failed write has left something that
// may come back. An append to the log that failed left at most a torn record, which no replay
// accepts. A failed fsync leaves a whole one: its outcome is unknown.
#ifndef COUNTWHEEL_WAL_GUARDED_FS_H_
#define COUNTWHEEL_WAL_GUARDED_FS_H_

#include <atomic>
#include <memory>
#include <string>

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

namespace countwheel::wal {

// Thread contract: any thread; RocksDB calls it from its own.
class GuardedFs final : public rocksdb::FileSystemWrapper {
 public:
  explicit GuardedFs(const std::shared_ptr<rocksdb::FileSystem>& target)
      : rocksdb::FileSystemWrapper(target) {}

  // True once an fsync of a log file or of the directory has failed.
  const std::atomic<bool>& log_sync_failed() const noexcept { return log_sync_failed_; }

  const char* Name() const override { return "GuardedFs"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name,
                                    const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& name,
                                 const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* result,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus LockFile(const std::string& name,
                             const rocksdb::IOOptions& options,
                             rocksdb::FileLock** lock,
                             rocksdb::IODebugContext* debug) override;

 private:
  std::atomic<bool> log_sync_failed_{false};
};

// `base` with its file system replaced; threads and clocks stay those of `base`, which must outlive
// this.
class GuardedEnv final : public rocksdb::EnvWrapper {
 public:
  explicit GuardedEnv(rocksdb::Env* base);

  const GuardedFs& files() const noexcept { return *files_; }

 private:
  std::shared_ptr<GuardedFs> files_;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_GUARDED_FS_H_
