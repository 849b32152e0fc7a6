#include "testing/power_cut_fs.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace countwheel::testing {
namespace {

namespace fs = std::filesystem;

bool is_log(const std::string& name) {
  return fs::path(name).extension() == ".log";
}

std::string normal(const std::string& path) {
  return fs::path(path).lexically_normal().string();
}

std::string directory_of(const std::string& path) {
  return fs::path(path).parent_path().string();
}

}  // namespace

class PowerCutFs::File final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(std::unique_ptr<rocksdb::FSWritableFile> file,
       PowerCutFs* owner,
       std::shared_ptr<Inode> inode)
      : FSWritableFileOwnerWrapper(std::move(file)), owner_(owner), inode_(std::move(inode)) {}

  IOStatus Append(const rocksdb::Slice& data,
                  const rocksdb::IOOptions& options,
                  rocksdb::IODebugContext* debug) override {
    IOStatus status;
    if (owner_->ends_here()) {
      const std::size_t done = owner_->planned_.random() % (data.size() + 1);
      status = append({data.data(), done}, options, debug);
      owner_->crash_now();
      if (status.ok()) {
        status = append({data.data() + done, data.size() - done}, options, debug);
      }
    } else {
      status = append(data, options, debug);
    }
    if (inode_->is_log) {
      owner_->stop_if_wanted();
    }
    return status;
  }
  IOStatus Append(const rocksdb::Slice& data,
                  const rocksdb::IOOptions& options,
                  const rocksdb::DataVerificationInfo&,
                  rocksdb::IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus PositionedAppend(const rocksdb::Slice&,
                            std::uint64_t,
                            const rocksdb::IOOptions&,
                            rocksdb::IODebugContext*) override {
    return owner_->unmodelled("PositionedAppend");
  }
  IOStatus Truncate(std::uint64_t size,
                    const rocksdb::IOOptions&,
                    rocksdb::IODebugContext*) override {
    return size == inode_->written_bytes ? IOStatus::OK() : owner_->unmodelled("Truncate");
  }
  IOStatus Sync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    owner_->count_change();
    const std::shared_lock gate(owner_->gate_);
    owner_->file_synced(*inode_, inode_->written_bytes);
    return IOStatus::OK();
  }
  IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* debug) override {
    return Sync(options, debug);
  }
  // Starts writing back, promises nothing.
  IOStatus RangeSync(std::uint64_t,
                     std::uint64_t,
                     const rocksdb::IOOptions&,
                     rocksdb::IODebugContext*) override {
    return IOStatus::OK();
  }

 private:
  IOStatus append(const rocksdb::Slice& data,
                  const rocksdb::IOOptions& options,
                  rocksdb::IODebugContext* debug) {
    const std::shared_lock gate(owner_->gate_);
    IOStatus status = target()->Append(data, options, debug);
    inode_->written_bytes += status.ok() ? data.size() : 0;
    return status;
  }

  PowerCutFs* const owner_;
  const std::shared_ptr<Inode> inode_;
};

class PowerCutFs::Directory final : public rocksdb::FSDirectoryWrapper {
 public:
  Directory(std::unique_ptr<rocksdb::FSDirectory> directory, PowerCutFs* owner, std::string path)
      : FSDirectoryWrapper(std::move(directory)), owner_(owner), path_(std::move(path)) {}

  IOStatus Fsync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    owner_->count_change();
    const std::shared_lock gate(owner_->gate_);
    owner_->directory_synced(path_);
    return IOStatus::OK();
  }
  IOStatus FsyncWithDirOptions(const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug,
                               const rocksdb::DirFsyncOptions&) override {
    return Fsync(options, debug);
  }

 private:
  PowerCutFs* const owner_;
  const std::string path_;
};

PowerCutFs::PowerCutFs(std::string root, std::string shadow)
    : FileSystemWrapper(rocksdb::FileSystem::Default()),
      root_(normal(root)),
      shadow_(normal(shadow)) {
  fs::create_directories(shadow_);
  if (fs::exists(root_)) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_)) {
      if (entry.is_regular_file() && is_rocksdb_file(entry.path())) {
        const std::shared_ptr<Inode> inode = adopt(entry.path().string());
        inode->written_bytes = inode->synced_bytes = entry.file_size();
        live_[entry.path().string()] = inode;
      }
    }
    remember_mapped_files();
  }
  durable_ = live_;
}

PowerCutFs::~PowerCutFs() {
  fs::remove_all(shadow_);
}

std::string PowerCutFs::shadow_path(const Inode& inode) const {
  return shadow_ + "/" + std::to_string(inode.number);
}

// The hard link keeps the bytes, whatever becomes of the name.
std::shared_ptr<PowerCutFs::Inode> PowerCutFs::adopt(const std::string& path) {
  auto inode = std::make_shared<Inode>();
  inode->number = next_number_++;
  inode->is_log = is_log(path);
  fs::create_hard_link(path, shadow_path(*inode));
  return inode;
}

void PowerCutFs::apply(const EntryChange& change, Names* names) {
  if (!change.removed_name.empty()) {
    names->erase(change.removed_name);
  }
  if (change.inode) {
    (*names)[change.name] = change.inode;
  } else {
    names->erase(change.name);
  }
}

void PowerCutFs::file_synced(Inode& inode, std::uint64_t bytes) {
  std::uint64_t before = inode.synced_bytes;
  while (before < bytes && !inode.synced_bytes.compare_exchange_weak(before, bytes)) {
  }
  if (inode.is_log) {
    ++log_sync_count_;
    remember_mapped_files();
  }
}

void PowerCutFs::directory_synced(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  std::erase_if(unsynced_changes_, [&](const EntryChange& change) {
    if (change.directory != directory) {
      return false;
    }
    apply(change, &durable_);
    return true;
  });
}

PowerCutFs::IOStatus PowerCutFs::NewWritableFile(const std::string& name,
                                                 const rocksdb::FileOptions& options,
                                                 std::unique_ptr<rocksdb::FSWritableFile>* result,
                                                 rocksdb::IODebugContext* debug) {
  count_change();
  const std::shared_lock gate(gate_);
  std::unique_ptr<rocksdb::FSWritableFile> file;
  const std::string path = normal(name);
  std::error_code ignored;
  fs::remove(path, ignored);  // a new inode, not the truncated old one that shadow/ may hold
  if (const IOStatus status = target()->NewWritableFile(name, options, &file, debug);
      !status.ok()) {
    return status;
  }
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Inode> inode = adopt(path);
  if (inode->is_log) {
    early_log_count_ += std::any_of(live_.begin(), live_.end(), [](const auto& entry) {
      return entry.second->is_log && entry.second->synced_bytes < entry.second->written_bytes;
    });
  }
  unsynced_changes_.push_back({directory_of(path), path, inode, {}});
  apply(unsynced_changes_.back(), &live_);
  *result = std::make_unique<File>(std::move(file), this, inode);
  return IOStatus::OK();
}

PowerCutFs::IOStatus PowerCutFs::NewDirectory(const std::string& name,
                                              const rocksdb::IOOptions& options,
                                              std::unique_ptr<rocksdb::FSDirectory>* result,
                                              rocksdb::IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSDirectory> directory;
  const IOStatus status = target()->NewDirectory(name, options, &directory, debug);
  if (status.ok()) {
    std::string path = normal(name);
    if (path.ends_with('/')) {
      path.pop_back();
    }
    *result = std::make_unique<Directory>(std::move(directory), this, path);
  }
  return status;
}

PowerCutFs::IOStatus PowerCutFs::DeleteFile(const std::string& name,
                                            const rocksdb::IOOptions& options,
                                            rocksdb::IODebugContext* debug) {
  count_change();
  const std::shared_lock gate(gate_);
  const IOStatus status = target()->DeleteFile(name, options, debug);
  if (status.ok()) {
    const std::lock_guard lock(mutex_);
    const std::string path = normal(name);
    unsynced_changes_.push_back({directory_of(path), path, nullptr, {}});
    apply(unsynced_changes_.back(), &live_);
  }
  return status;
}

PowerCutFs::IOStatus PowerCutFs::RenameFile(const std::string& source,
                                            const std::string& target_name,
                                            const rocksdb::IOOptions& options,
                                            rocksdb::IODebugContext* debug) {
  count_change();
  const std::shared_lock gate(gate_);
  const IOStatus status = target()->RenameFile(source, target_name, options, debug);
  if (status.ok()) {
    const std::lock_guard lock(mutex_);
    const std::string from = normal(source);
    const std::string to = normal(target_name);
    const auto found = live_.find(from);
    if (found == live_.end()) {
      return unmodelled("RenameFile of a file that was not made here");
    }
    unsynced_changes_.push_back({directory_of(to), to, found->second, from});
    apply(unsynced_changes_.back(), &live_);
  }
  return status;
}

PowerCutFs::IOStatus PowerCutFs::unmodelled(const char* call) {
  ++unmodelled_count_;
  std::fprintf(stderr, "power_cut_fs: %s is not modelled\n", call);
  return IOStatus::NotSupported(call);
}

PowerCutFs::IOStatus PowerCutFs::LinkFile(const std::string&,
                                          const std::string&,
                                          const rocksdb::IOOptions&,
                                          rocksdb::IODebugContext*) {
  return unmodelled("LinkFile");
}

PowerCutFs::IOStatus PowerCutFs::Truncate(const std::string&,
                                          std::size_t,
                                          const rocksdb::IOOptions&,
                                          rocksdb::IODebugContext*) {
  return unmodelled("Truncate");
}

// RocksDB does it to the last log after a replay, to give back what was preallocated.
PowerCutFs::IOStatus PowerCutFs::ReopenWritableFile(
    const std::string& name,
    const rocksdb::FileOptions& options,
    std::unique_ptr<rocksdb::FSWritableFile>* result,
    rocksdb::IODebugContext* debug) {
  const std::shared_lock gate(gate_);
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(normal(name));
  if (found == live_.end()) {
    return unmodelled("ReopenWritableFile of a file that was not made here");
  }
  const IOStatus status = target()->ReopenWritableFile(name, options, result, debug);
  if (status.ok()) {
    *result = std::make_unique<File>(std::move(*result), this, found->second);
  }
  return status;
}

PowerCutFs::IOStatus PowerCutFs::ReuseWritableFile(const std::string&,
                                                   const std::string&,
                                                   const rocksdb::FileOptions&,
                                                   std::unique_ptr<rocksdb::FSWritableFile>*,
                                                   rocksdb::IODebugContext*) {
  return unmodelled("ReuseWritableFile");
}

PowerCutFs::IOStatus PowerCutFs::NewRandomRWFile(const std::string&,
                                                 const rocksdb::FileOptions&,
                                                 std::unique_ptr<rocksdb::FSRandomRWFile>*,
                                                 rocksdb::IODebugContext*) {
  return unmodelled("NewRandomRWFile");
}

std::unique_ptr<rocksdb::Env> make_env(const std::shared_ptr<PowerCutFs>& fs) {
  return rocksdb::NewCompositeEnv(fs);
}

}  // namespace countwheel::testing
