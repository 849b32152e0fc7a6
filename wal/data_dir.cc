#include "data_dir.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <string_view>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "os_error.h"

namespace countwheel::wal {
namespace {

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;
// Files that RocksDB opens and closes beside the tables: logs, manifest, options, and room for the
// program's own.
constexpr std::uint64_t kSpareDescriptors = 64;

// Calls `visit(name)` for each entry; answers an errno.
template <class Visit>
int for_each_entry(const std::string& path, Visit visit) {
  DIR* entries = ::opendir(path.c_str());
  if (entries == nullptr) {
    return errno;
  }
  // readdir() is safe here: the stream is not shared.
  while (const dirent* entry = ::readdir(entries)) {  // NOLINT(concurrency-mt-unsafe)
    visit(std::string_view(entry->d_name));
  }
  ::closedir(entries);
  return 0;
}

std::string parent_of(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  const std::size_t slash = end == std::string::npos ? end : path.find_last_of('/', end);
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A new directory is durable only once its parent is: without this a power failure takes all of it.
Status sync_directory(const std::string& path) {
  const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || ::fsync(directory.get()) != 0) {
    return os_error(errno, path, "sync the directory");
  }
  return {};
}

Status make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), kDirectoryMode) != 0) {
    return errno == EEXIST ? Status() : os_error(errno, path, "make the directory");
  }
  // mkdir() takes bits away by the umask, which may be our own.
  if (::chmod(path.c_str(), kDirectoryMode) != 0) {
    return os_error(errno, path, "set the mode of the directory");
  }
  return sync_directory(parent_of(path));
}

std::string octal(mode_t mode) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), mode & 07777U, 8);
  return "0" + std::string(digits.data(), end.ptr);
}

bool ends_with(std::string_view name, std::string_view suffix) {
  return name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix;
}

}  // namespace

Result<std::unique_ptr<DataDir>> DataDir::open(const std::string& directory, Access access) {
  if (directory.empty() || directory.find('\0') != std::string::npos) {
    return Status(Code::kInvalidArgument, "directory: the path is empty or has a zero byte");
  }
  if (access == Access::kCreate) {
    if (Status status = make_directory(directory); !status.ok()) {
      return status;
    }
  }
  // The alias is resolved here and never used again: one directory, one path, one lock.
  const std::unique_ptr<char, void (*)(void*)> resolved(::realpath(directory.c_str(), nullptr),
                                                        &std::free);
  if (resolved == nullptr) {
    return os_error(errno, directory, "open the directory");
  }
  std::unique_ptr<DataDir> opened(new DataDir(resolved.get(), access));
  opened->directory_ =
      Descriptor(::open(resolved.get(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened->directory_.valid()) {
    return os_error(errno, opened->path_, "open the directory");
  }
  if (Status status = opened->check_owner(); !status.ok()) {
    return status;
  }
  if (Status status = opened->lock(); !status.ok()) {
    return status;
  }
  if (ForkGuard::threads_lost()) {
    return Status(Code::kForked,
                  opened->path_ +
                      ": this process is a fork of one that had a log open; the "
                      "threads that write tables are in its parent");
  }
  opened->fork_guard_ = std::make_unique<ForkGuard>(opened->lock_.get());
  return opened;
}

DataDir::~DataDir() {
  if (!lock_.valid()) {
    return;
  }
  if (forked()) {
    // Closed already, and the number may be another file by now.
    lock_.release();
    return;
  }
  if (writable() && ::ftruncate(lock_.get(), 0) != 0) {
    // The number of a process that has gone stays in the file, which only makes a text wrong.
    return;
  }
}

Status DataDir::check_owner() const {
  struct stat facts {};
  if (::fstat(directory_.get(), &facts) != 0) {
    return os_error(errno, path_, "look at the directory");
  }
  if (facts.st_uid != ::geteuid()) {
    return Status(Code::kInsecureDir,
                  path_ + ": belongs to user " + std::to_string(facts.st_uid) + ", not to user " +
                      std::to_string(::geteuid()) + " who opens it");
  }
  if ((facts.st_mode & 077U) != 0) {
    return Status(
        Code::kInsecureDir,
        path_ + ": mode " + octal(facts.st_mode) + " lets others in; allowed is 0700 (chmod 700)");
  }
  return {};
}

Status DataDir::lock() {
  const int flags = O_NOFOLLOW | O_CLOEXEC | (writable() ? O_RDWR | O_CREAT : O_RDONLY);
  lock_ = Descriptor(::openat(directory_.get(), kLockFile, flags, kFileMode));
  if (!lock_.valid()) {
    // A directory that nobody ever opened for writing has no lock to look at.
    return errno == ENOENT && !writable() ? Status()
                                          : os_error(errno, path_of(kLockFile), "open the lock");
  }
  if (::flock(lock_.get(), (writable() ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
    Status status =
        errno == EWOULDBLOCK ? locked_by() : os_error(errno, path_of(kLockFile), "lock");
    lock_.close();  // it is another's to clear
    return status;
  }
  if (!writable()) {
    return {};
  }
  // Readable at once by whoever is refused. That it may not fit on a full disk is no reason to
  // fail.
  const std::string pid = std::to_string(::getpid()) + "\n";
  if (::fchmod(lock_.get(), kFileMode) != 0 || ::ftruncate(lock_.get(), 0) != 0) {
    return os_error(errno, path_of(kLockFile), "write the lock");
  }
  if (::pwrite(lock_.get(), pid.data(), pid.size(), 0) < 0 && errno != ENOSPC) {
    return os_error(errno, path_of(kLockFile), "write the lock");
  }
  return {};
}

Status DataDir::locked_by() const {
  std::array<char, 32> text{};
  const ssize_t count = ::pread(lock_.get(), text.data(), text.size() - 1, 0);
  const auto pid = count > 0 ? std::strtol(text.data(), nullptr, 10) : 0;
  if (pid <= 0) {
    return Status(Code::kLocked, path_ + ": another process has it open");
  }
  return Status(Code::kLocked, path_ + ": pid " + std::to_string(pid) + " has it open");
}

bool DataDir::has_current() const {
  return ::faccessat(directory_.get(), "CURRENT", F_OK, 0) == 0;
}

bool DataDir::has_log_files() const {
  bool found = false;
  for_each_entry(path_, [&found](std::string_view name) {
    found = found || ends_with(name, ".sst") || ends_with(name, ".log");
  });
  return found;
}

std::uint64_t DataDir::disk_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for_each_entry(path_, [this, &bytes](std::string_view name) {
    struct stat facts {};
    // Entries of a directory end in a zero byte.
    if (::fstatat(directory_.get(), name.data(), &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(facts.st_mode)) {
      bytes += static_cast<std::uint64_t>(facts.st_size);
    }
  });
  return bytes;
}

Status check_descriptor_limit(const DataDir& directory) {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return os_error(errno, directory.path(), "read RLIMIT_NOFILE");
  }
  std::uint64_t needed = kSpareDescriptors;
  for_each_entry("/proc/self/fd", [&needed](std::string_view) { ++needed; });
  for_each_entry(directory.path(),
                 [&needed](std::string_view name) { needed += ends_with(name, ".sst") ? 1U : 0U; });
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= needed) {
    return {};
  }
  return Status(Code::kResource,
                directory.path() + ": RLIMIT_NOFILE is " + std::to_string(limit.rlim_cur) +
                    ", at least " + std::to_string(needed) + " needed (ulimit -n)");
}

}  // namespace countwheel::wal
