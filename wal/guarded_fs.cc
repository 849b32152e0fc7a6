#include "guarded_fs.h"

#include <algorithm>
#include <string_view>
#include <sys/stat.h>
#include <utility>

namespace countwheel::wal {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

namespace {

// Room is asked for in such steps, and in smaller ones when that does not fit.
constexpr std::uint64_t kReserveBytes = std::uint64_t{1} << 20;

// The directory is 0700 already, so that the moment between creation and this is not open to
// others. A file system that is not the real one has no such path; then there is nothing to guard.
void keep_to_owner(const std::string& name) noexcept {
  static_cast<void>(::chmod(name.c_str(), 0600));
}

bool is_log(std::string_view name) noexcept {
  return name.size() > 4 && name.substr(name.size() - 4) == ".log";
}

}  // namespace

class GuardedFs::LogFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LogFile(std::unique_ptr<rocksdb::FSWritableFile>&& target, GuardedFs* files)
      : FSWritableFileOwnerWrapper(std::move(target)), files_(files) {
    const std::lock_guard<std::mutex> lock(files_->mutex_);
    files_->newest_log_ = this;
  }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;
  ~LogFile() override {
    const std::lock_guard<std::mutex> lock(files_->mutex_);
    if (files_->newest_log_ == this) {
      files_->newest_log_ = nullptr;
    }
  }

  bool torn() const noexcept { return torn_.load(); }

  bool reserve(std::uint64_t bytes) noexcept {
    const std::uint64_t needed = written_bytes_.load() + bytes;
    if (reserved_bytes_ >= needed) {
      return true;
    }
    for (const std::uint64_t end : {needed + kReserveBytes, needed}) {
      const IOStatus status =
          Allocate(reserved_bytes_, end - reserved_bytes_, IOOptions(), nullptr);
      if (status.ok()) {
        reserved_bytes_ = end;
        return true;
      }
      if (!status.IsNoSpace()) {
        reserved_bytes_ = UINT64_MAX;  // a file system that cannot reserve: not asked again
        return true;
      }
    }
    return false;
  }

  IOStatus Append(const rocksdb::Slice& data,
                  const IOOptions& options,
                  IODebugContext* debug) override {
    if (torn_.load() && files_->recovering_.load()) {
      return IOStatus::OK();  // what RocksDB would write is the record that was refused
    }
    return watch_append(FSWritableFileOwnerWrapper::Append(data, options, debug), data.size());
  }
  IOStatus Append(const rocksdb::Slice& data,
                  const IOOptions& options,
                  const rocksdb::DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return watch_sync(FSWritableFileOwnerWrapper::Sync(options, debug));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return watch_sync(FSWritableFileOwnerWrapper::Fsync(options, debug));
  }

 private:
  IOStatus watch_append(IOStatus status, std::size_t bytes) noexcept {
    if (status.ok()) {
      written_bytes_.fetch_add(bytes);
    } else {
      torn_.store(true);
    }
    return status;
  }
  IOStatus watch_sync(IOStatus status) noexcept {
    if (!status.ok()) {
      files_->sync_failed_.store(true);
    }
    return status;
  }

  GuardedFs* files_;
  std::atomic<std::uint64_t> written_bytes_{0};
  std::uint64_t reserved_bytes_ = 0;  // of the thread that appends, through reserve()
  std::atomic<bool> torn_{false};
};

class GuardedFs::Directory final : public rocksdb::FSDirectoryWrapper {
 public:
  Directory(std::unique_ptr<rocksdb::FSDirectory>&& target, GuardedFs* files)
      : FSDirectoryWrapper(std::move(target)), files_(files) {}

  IOStatus FsyncWithDirOptions(const IOOptions& options,
                               IODebugContext* debug,
                               const rocksdb::DirFsyncOptions& what) override {
    IOStatus status = FSDirectoryWrapper::FsyncWithDirOptions(options, debug, what);
    if (!status.ok()) {
      files_->sync_failed_.store(true);
    }
    return status;
  }

 private:
  GuardedFs* files_;
};

// A file that ends before its end.
class GuardedFs::Beginning final : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  Beginning(std::unique_ptr<rocksdb::FSSequentialFile>&& target, std::uint64_t bytes)
      : FSSequentialFileOwnerWrapper(std::move(target)), left_(bytes) {}

  IOStatus Read(std::size_t count,
                const IOOptions& options,
                rocksdb::Slice* result,
                char* scratch,
                IODebugContext* debug) override {
    IOStatus status = FSSequentialFileOwnerWrapper::Read(
        std::min<std::uint64_t>(count, left_), options, result, scratch, debug);
    left_ -= std::min<std::uint64_t>(left_, result->size());
    return status;
  }
  IOStatus Skip(std::uint64_t count) override {
    const std::uint64_t skipped = std::min(count, left_);
    left_ -= skipped;
    return FSSequentialFileOwnerWrapper::Skip(skipped);
  }

 private:
  std::uint64_t left_;
};

bool GuardedFs::reserve(std::uint64_t bytes) noexcept {
  if (!spare_.hold(bytes)) {
    return false;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (newest_log_ == nullptr || newest_log_->reserve(bytes)) {
    return true;
  }
  spare_.trim(bytes);
  return newest_log_->reserve(bytes);
}

// Not of a torn one, which is recovered from and not written on.
IOStatus GuardedFs::sync_newest_log() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return newest_log_ == nullptr || newest_log_->torn() ? IOStatus::OK()
                                                       : newest_log_->Sync(IOOptions(), nullptr);
}

bool GuardedFs::log_torn() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return newest_log_ != nullptr && newest_log_->torn();
}

IOStatus GuardedFs::NewWritableFile(const std::string& name,
                                    const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    IODebugContext* debug) {
  if (is_log(name)) {
    spare_.let_go();
    if (IOStatus synced = sync_newest_log(); !synced.ok()) {
      return synced;
    }
  }
  IOStatus status = FileSystemWrapper::NewWritableFile(name, options, result, debug);
  if (!status.ok()) {
    return status;
  }
  keep_to_owner(name);
  if (is_log(name)) {
    *result = std::make_unique<LogFile>(std::move(*result), this);
  }
  return status;
}

IOStatus GuardedFs::NewSequentialFile(const std::string& name,
                                      const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* result,
                                      IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::NewSequentialFile(name, options, result, debug);
  if (status.ok() && name == manifest_.path) {
    *result = std::make_unique<Beginning>(std::move(*result), manifest_.bytes);
  }
  return status;
}

IOStatus GuardedFs::NewDirectory(const std::string& name,
                                 const IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* result,
                                 IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::NewDirectory(name, options, result, debug);
  if (status.ok()) {
    *result = std::make_unique<Directory>(std::move(*result), this);
  }
  return status;
}

GuardedEnv::GuardedEnv(rocksdb::Env* base,
                       const std::string& directory,
                       std::uint64_t spare_bytes,
                       FileView manifest)
    : rocksdb::EnvWrapper(base),
      files_(std::make_shared<GuardedFs>(base->GetFileSystem(),
                                         directory,
                                         spare_bytes,
                                         std::move(manifest))) {
  file_system_ = files_;
}

rocksdb::Status GuardedEnv::LockFile(const std::string& name, rocksdb::FileLock** lock) {
  rocksdb::Status status = EnvWrapper::LockFile(name, lock);
  if (status.ok()) {
    keep_to_owner(name);
  }
  return status;
}

}  // namespace countwheel::wal
