// DataDir: the directory of one log, checked and locked.
//
// It is made with mode 0700 and refused when others could write or read it. The lock is a flock on
// a file of ours: RocksDB's own is an fcntl lock, which any close() of that file anywhere in the
// process gives up, and which one process may take twice under two names.
#ifndef COUNTWHEEL_WAL_DATA_DIR_H_
#define COUNTWHEEL_WAL_DATA_DIR_H_

#include <cstdint>
#include <memory>
#include <string>

#include <countwheel/status.h>

#include "descriptor.h"
#include "fork_guard.h"

namespace countwheel::wal {

inline constexpr char kLockFile[] = "countwheel.lock";
inline constexpr char kFenceFile[] = "countwheel.fence";
inline constexpr char kCellsFile[] = "countwheel.cells";

enum class Access : std::uint8_t {
  kRead,    // Nothing on disk changes.
  kWrite,   // The directory must be there.
  kCreate,  // It is made if it is missing.
};

class DataDir {
 public:
  // `locked` names the process that has it.
  static Result<std::unique_ptr<DataDir>> open(const std::string& directory, Access access);
  DataDir(const DataDir&) = delete;
  DataDir& operator=(const DataDir&) = delete;
  // Unlocks.
  ~DataDir();

  // Links resolved: the path of every name of this directory.
  const std::string& path() const noexcept { return path_; }
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  bool writable() const noexcept { return access_ != Access::kRead; }
  int descriptor() const noexcept { return directory_.get(); }

  // True in a fork of the process that opened the directory.
  bool forked() const noexcept { return fork_guard_ != nullptr && fork_guard_->forked(); }

  // CURRENT is the file RocksDB starts from; without it there is no database yet, or no more.
  bool has_current() const;
  bool has_log_files() const;
  // Sizes of all files together.
  std::uint64_t disk_bytes() const noexcept;

 private:
  DataDir(std::string path, Access access) : path_(std::move(path)), access_(access) {}
  Status check_owner() const;
  Status lock();
  Status locked_by() const;

  std::string path_;
  Access access_;
  Descriptor directory_;
  Descriptor lock_;
  std::unique_ptr<ForkGuard> fork_guard_;
};

// `resource` when the process may not open as many files as the log will need. RocksDB finds out
// when it is too late: its next file is then a fatal error.
Status check_descriptor_limit(const DataDir& directory);

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_DATA_DIR_H_
