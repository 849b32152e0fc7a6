#include "guarded_fs.h"

#include <sys/stat.h>

#include <string_view>
#include <utility>

namespace countwheel::wal {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

// The directory is 0700 already, so that the moment between creation and this is not open to
// others. A file system that is not the real one has no such path; then there is nothing to guard.
void keep_to_owner(const std::string& name) noexcept {
  static_cast<void>(::chmod(name.c_str(), 0600));
}

bool is_log(std::string_view name) noexcept {
  return name.size() > 4 && name.substr(name.size() - 4) == ".log";
}

class WatchedLogFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WatchedLogFile(std::unique_ptr<rocksdb::FSWritableFile>&& target, std::atomic<bool>* failed)
      : FSWritableFileOwnerWrapper(std::move(target)), failed_(failed) {}

  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return watch(FSWritableFileOwnerWrapper::Sync(options, debug));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return watch(FSWritableFileOwnerWrapper::Fsync(options, debug));
  }

 private:
  IOStatus watch(IOStatus status) noexcept {
    if (!status.ok()) {
      failed_->store(true);
    }
    return status;
  }

  std::atomic<bool>* failed_;
};

class WatchedDirectory final : public rocksdb::FSDirectoryWrapper {
 public:
  WatchedDirectory(std::unique_ptr<rocksdb::FSDirectory>&& target, std::atomic<bool>* failed)
      : FSDirectoryWrapper(std::move(target)), failed_(failed) {}

  IOStatus FsyncWithDirOptions(const IOOptions& options,
                               IODebugContext* debug,
                               const rocksdb::DirFsyncOptions& what) override {
    IOStatus status = FSDirectoryWrapper::FsyncWithDirOptions(options, debug, what);
    if (!status.ok()) {
      failed_->store(true);
    }
    return status;
  }

 private:
  std::atomic<bool>* failed_;
};

}  // namespace

IOStatus GuardedFs::NewWritableFile(const std::string& name,
                                    const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::NewWritableFile(name, options, result, debug);
  if (!status.ok()) {
    return status;
  }
  keep_to_owner(name);
  if (is_log(name)) {
    *result = std::make_unique<WatchedLogFile>(std::move(*result), &log_sync_failed_);
  }
  return status;
}

IOStatus GuardedFs::NewDirectory(const std::string& name,
                                 const IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* result,
                                 IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::NewDirectory(name, options, result, debug);
  if (status.ok()) {
    *result = std::make_unique<WatchedDirectory>(std::move(*result), &log_sync_failed_);
  }
  return status;
}

IOStatus GuardedFs::LockFile(const std::string& name,
                             const IOOptions& options,
                             rocksdb::FileLock** lock,
                             IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::LockFile(name, options, lock, debug);
  if (status.ok()) {
    keep_to_owner(name);
  }
  return status;
}

GuardedEnv::GuardedEnv(rocksdb::Env* base)
    : rocksdb::EnvWrapper(base), files_(std::make_shared<GuardedFs>(base->GetFileSystem())) {
  file_system_ = files_;
}

}  // namespace countwheel::wal
