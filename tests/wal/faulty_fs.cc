#include "faulty_fs.h"

#include <utility>

namespace countwheel::testing {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

namespace {

bool ends_with(const std::string& name, const std::string& suffix) {
  return name.size() > suffix.size() &&
         name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0;
}

}  // namespace

IOStatus FaultyFs::Trigger::fire() {
  const Fault fault = fault_.load();
  if (fault == Fault::kNone || left_.fetch_sub(1) > 1) {
    return IOStatus::OK();
  }
  return fault == Fault::kNoSpace ? IOStatus::NoSpace("planted", "No space left on device")
                                  : IOStatus::IOError("planted", "Input/output error");
}

class FaultyFs::File final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(std::unique_ptr<rocksdb::FSWritableFile>&& target, FaultyFs* files, bool log)
      : FSWritableFileOwnerWrapper(std::move(target)), files_(files), log_(log) {}

  IOStatus Append(const rocksdb::Slice& data,
                  const IOOptions& options,
                  IODebugContext* debug) override {
    IOStatus status = (log_ ? files_->append_ : files_->table_append_).fire();
    if (status.ok()) {
      return FSWritableFileOwnerWrapper::Append(data, options, debug);
    }
    const std::size_t torn = std::min<std::size_t>(data.size(), files_->torn_bytes_.load());
    if (torn > 0) {
      FSWritableFileOwnerWrapper::Append(rocksdb::Slice(data.data(), torn), options, debug)
          .PermitUncheckedError();
    }
    return status;
  }
  IOStatus Append(const rocksdb::Slice& data,
                  const IOOptions& options,
                  const rocksdb::DataVerificationInfo&,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Allocate(std::uint64_t offset,
                    std::uint64_t count,
                    const IOOptions& options,
                    IODebugContext* debug) override {
    IOStatus status = log_ ? files_->reserve_.fire() : IOStatus::OK();
    return status.ok() ? FSWritableFileOwnerWrapper::Allocate(offset, count, options, debug)
                       : status;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    if (log_) {
      if (IOStatus status = files_->sync_.fire(); !status.ok()) {
        return status;
      }
      files_->log_sync_count_.fetch_add(1);
    }
    return files_->skip_syncs_.load() ? IOStatus::OK()
                                      : FSWritableFileOwnerWrapper::Sync(options, debug);
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }

 private:
  FaultyFs* files_;
  bool log_;
};

class FaultyFs::Table final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  Table(std::unique_ptr<rocksdb::FSRandomAccessFile>&& target, FaultyFs* files)
      : FSRandomAccessFileOwnerWrapper(std::move(target)), files_(files) {}

  IOStatus Read(std::uint64_t offset,
                std::size_t count,
                const IOOptions& options,
                rocksdb::Slice* result,
                char* scratch,
                IODebugContext* debug) const override {
    IOStatus status = files_->table_read_.fire();
    return status.ok() ? FSRandomAccessFileOwnerWrapper::Read(
                             offset, count, options, result, scratch, debug)
                       : status;
  }

 private:
  FaultyFs* files_;
};

class FaultyFs::Directory final : public rocksdb::FSDirectoryWrapper {
 public:
  Directory(std::unique_ptr<rocksdb::FSDirectory>&& target, FaultyFs* files)
      : FSDirectoryWrapper(std::move(target)), files_(files) {}

  IOStatus FsyncWithDirOptions(const IOOptions& options,
                               IODebugContext* debug,
                               const rocksdb::DirFsyncOptions& what) override {
    return files_->skip_syncs_.load()
               ? IOStatus::OK()
               : FSDirectoryWrapper::FsyncWithDirOptions(options, debug, what);
  }

 private:
  FaultyFs* files_;
};

IOStatus FaultyFs::NewWritableFile(const std::string& name,
                                   const rocksdb::FileOptions& options,
                                   std::unique_ptr<rocksdb::FSWritableFile>* result,
                                   IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::NewWritableFile(name, options, result, debug);
  if (status.ok() && (ends_with(name, ".log") || ends_with(name, ".sst") || skip_syncs_.load())) {
    // Tables only fail when asked; other files are here for their syncs.
    *result = std::make_unique<File>(std::move(*result), this, ends_with(name, ".log"));
  }
  return status;
}

IOStatus FaultyFs::NewRandomAccessFile(const std::string& name,
                                       const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                       IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::NewRandomAccessFile(name, options, result, debug);
  if (status.ok() && ends_with(name, ".sst")) {
    *result = std::make_unique<Table>(std::move(*result), this);
  }
  return status;
}

IOStatus FaultyFs::NewDirectory(const std::string& name,
                                const IOOptions& options,
                                std::unique_ptr<rocksdb::FSDirectory>* result,
                                IODebugContext* debug) {
  IOStatus status = FileSystemWrapper::NewDirectory(name, options, result, debug);
  if (status.ok()) {
    *result = std::make_unique<Directory>(std::move(*result), this);
  }
  return status;
}

rocksdb::Env* env_without_syncs() {
  static FaultyEnv* const faulty = [] {
    auto* made = new FaultyEnv();  // never destroyed: RocksDB's threads may outlive main()
    made->files->skip_syncs();
    return made;
  }();
  return faulty->env.get();
}

}  // namespace countwheel::testing
