// The images: what PowerCutFs leaves of a machine.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "testing/power_cut_fs.h"

namespace countwheel::testing {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kHistory = 12;  // contents kept of a mapped file

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_contents(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
}

}  // namespace

// By RocksDB's names: its files come through this file system, all others are mapped or locks.
bool PowerCutFs::is_rocksdb_file(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string extension = path.extension().string();
  return extension == ".log" || extension == ".sst" || extension == ".dbtmp" || name == "CURRENT" ||
         name == "IDENTITY" || name.starts_with("MANIFEST-") || name.starts_with("OPTIONS-");
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

// The write of a log stops behind its append until release_append().
void PowerCutFs::catch_append() {
  std::unique_lock lock(stop_mutex_);
  stop_wanted_ = true;
  stop_changed_.wait_for(lock, std::chrono::milliseconds(20), [&] { return append_stopped_; });
}

void PowerCutFs::release_append() {
  const std::lock_guard lock(stop_mutex_);
  stop_wanted_ = append_stopped_ = false;
  stop_changed_.notify_all();
}

void PowerCutFs::stop_if_wanted() {
  std::unique_lock lock(stop_mutex_);
  append_stopped_ = stop_wanted_;
  stop_changed_.notify_all();
  stop_changed_.wait(lock, [&] { return !stop_wanted_; });
}

void PowerCutFs::cut(const std::string& image, std::mt19937_64& random) {
  if (random() % 2 == 0) {
    catch_append();
  }
  take_image(image, random);
  release_append();
}

void PowerCutFs::crash_at(std::uint64_t nth,
                          End end,
                          std::string image,
                          std::uint64_t seed,
                          std::function<void()> note) {
  planned_ = {end, std::move(image), std::mt19937_64(seed), std::move(note)};
  changes_left_.store(static_cast<std::int64_t>(nth));
}

bool PowerCutFs::ends_here() noexcept {
  return changes_left_.load() > 0 && changes_left_.fetch_sub(1) == 1;
}

void PowerCutFs::count_change() {
  if (ends_here()) {
    crash_now();
  }
}

void PowerCutFs::crash_now() {
  changes_left_.store(0);
  const std::unique_lock gate(gate_);
  if (crashed_.load()) {
    return;
  }
  if (planned_.end == End::kMachine) {
    take_image_locked(planned_.image, planned_.random);
  } else {
    take_image_of_process(planned_.image);
  }
  planned_.note();
  crashed_.store(true);
}

// Every write that has returned is in the page cache, whatever was fsynced.
void PowerCutFs::take_image_of_process(const std::string& image) {
  const std::lock_guard lock(mutex_);
  fs::create_directory(image);
  fs::permissions(image, fs::perms::owner_all);
  for (const fs::directory_entry& entry : fs::directory_iterator(root_)) {
    if (!is_rocksdb_file(entry.path())) {
      write_contents(image + "/" + entry.path().filename().string(),
                     contents(entry.path().string()));
    }
  }
  for (const auto& [name, inode] : live_) {
    std::string bytes = contents(shadow_path(*inode));
    bytes.resize(inode->written_bytes);
    write_contents(image + "/" + fs::path(name).filename().string(), bytes);
  }
}

void PowerCutFs::take_image(const std::string& image, std::mt19937_64& random) {
  const std::unique_lock gate(gate_);
  take_image_locked(image, random);
}

void PowerCutFs::take_image_locked(const std::string& image, std::mt19937_64& random) {
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

}  // namespace countwheel::testing
