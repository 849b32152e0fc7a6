#include "testing/power_cut_fs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace countwheel::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHistory = 12;  // contents kept of a mapped file

bool is_log(const std::string& name) {
  return fs::path(name).extension() == ".log";
}

// By RocksDB's names: its files come through this file system, all others are mapped or locks.
bool is_rocksdb_file(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string extension = path.extension().string();
  return extension == ".log" || extension == ".sst" || extension == ".dbtmp" || name == "CURRENT" ||
         name == "IDENTITY" || name.starts_with("MANIFEST-") || name.starts_with("OPTIONS-");
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_contents(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
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
    const std::shared_lock gate(owner_->gate_);
    const IOStatus status = target()->Append(data, options, debug);
    inode_->written_bytes += status.ok() ? data.size() : 0;
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
  PowerCutFs* const owner_;
  const std::shared_ptr<Inode> inode_;
};

class PowerCutFs::Directory final : public rocksdb::FSDirectoryWrapper {
 public:
  Directory(std::unique_ptr<rocksdb::FSDirectory> directory, PowerCutFs* owner, std::string path)
      : FSDirectoryWrapper(std::move(directory)), owner_(owner), path_(std::move(path)) {}

  IOStatus Fsync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
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

void PowerCutFs::remember_mapped_files() {
  const std::lock_guard lock(mutex_);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_)) {
    if (!entry.is_regular_file() || is_rocksdb_file(entry.path()) || entry.file_size() == 0) {
      continue;
    }
    std::deque<std::string>& history = mapped_history_[entry.path().string()];
    history.push_back(contents(entry.path().string()));
    if (history.size() > kHistory) {
      // The oldest stays: anything may come back.
      history.erase(history.begin() + 1);
    }
  }
}

void PowerCutFs::write_file(const Inode& inode,
                            const std::string& target,
                            std::mt19937_64& random) {
  std::string bytes = contents(shadow_path(inode));
  bytes.resize(inode.written_bytes);  // what is preallocated behind is not in the file
  const std::size_t synced_bytes = inode.synced_bytes;
  const std::size_t unsynced_bytes = bytes.size() - synced_bytes;
  const std::size_t kept_bytes = random() % (unsynced_bytes + 1);
  const auto tail = bytes.end() - static_cast<std::ptrdiff_t>(kept_bytes);
  switch (random() % 5) {
    case 0:
      bytes.resize(synced_bytes);
      break;
    case 1:  // Everything had been written back already.
      break;
    case 2:
      bytes.resize(synced_bytes + kept_bytes);
      break;
    case 3:  // The length reached the disk, the end of the bytes did not.
      std::fill(tail, bytes.end(), '\0');
      break;
    default:
      std::generate(tail, bytes.end(), [&random] { return static_cast<char>(random()); });
      break;
  }
  dropped_bytes_ += unsynced_bytes;
  write_contents(target, bytes);
}

void PowerCutFs::write_mapped_file(const std::string& name,
                                   const std::string& target,
                                   std::mt19937_64& random) {
  const std::deque<std::string>& history = mapped_history_[name];
  if (history.empty()) {
    return write_contents(target, {});  // a lock file
  }
  if (random() % 8 == 0) {
    return;  // its directory entry was never fsynced
  }
  std::string bytes = history.back();
  for (std::size_t at = 0; at < bytes.size(); at += kPageBytes) {
    const std::size_t length = std::min(kPageBytes, bytes.size() - at);
    if (random() % 4 == 0) {
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), length, '\0');
      continue;
    }
    const std::string& source = history[random() % history.size()];
    if (at + length <= source.size()) {
      bytes.replace(at, length, source, at, length);
    }
  }
  write_contents(target, bytes);
}

void PowerCutFs::cut(const std::string& image, std::mt19937_64& random) {
  const std::unique_lock gate(gate_);
  remember_mapped_files();
  const std::lock_guard lock(mutex_);
  fs::create_directory(image);
  fs::permissions(image, fs::perms::owner_all);
  Names names = durable_;
  const std::size_t kept = random() % (unsynced_changes_.size() + 1);
  for (std::size_t i = 0; i < kept; ++i) {
    apply(unsynced_changes_[i], &names);
  }
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_)) {
    const std::string target = image + "/" + entry.path().lexically_relative(root_).string();
    if (entry.is_directory()) {
      fs::create_directory(target);
      fs::permissions(target, entry.status().permissions());
    } else if (!is_rocksdb_file(entry.path())) {
      write_mapped_file(entry.path().string(), target, random);
    }
  }
  for (const auto& [name, inode] : names) {
    write_file(*inode, image + "/" + fs::path(name).lexically_relative(root_).string(), random);
  }
}

PowerCutFs::IOStatus PowerCutFs::NewWritableFile(const std::string& name,
                                                 const rocksdb::FileOptions& options,
                                                 std::unique_ptr<rocksdb::FSWritableFile>* result,
                                                 rocksdb::IODebugContext* debug) {
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

PowerCutFs::IOStatus PowerCutFs::ReopenWritableFile(const std::string&,
                                                    const rocksdb::FileOptions&,
                                                    std::unique_ptr<rocksdb::FSWritableFile>*,
                                                    rocksdb::IODebugContext*) {
  return unmodelled("ReopenWritableFile");
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
