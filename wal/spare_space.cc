#include "spare_space.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/statvfs.h>

namespace countwheel::wal {
namespace {

bool has_free(int file, std::uint64_t bytes) noexcept {
  struct statvfs facts {};
  return ::fstatvfs(file, &facts) != 0 || std::uint64_t{facts.f_bavail} * facts.f_frsize >= bytes;
}

}  // namespace

bool SpareSpace::hold(std::uint64_t bytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (cannot_hold_) {
    return has_free(file_.get(), bytes);
  }
  if (held_bytes_ >= bytes) {
    return true;
  }
  if (!file_.valid()) {
    file_ = Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file_.valid()) {
      return errno != ENOSPC && errno != EDQUOT;
    }
  }
  for (const std::uint64_t size : {std::max(bytes, usual_bytes_), bytes}) {
    if (::fallocate(file_.get(), 0, 0, static_cast<off_t>(size)) == 0) {
      held_bytes_ = size;
      return true;
    }
    if (errno != ENOSPC && errno != EDQUOT) {
      cannot_hold_ = true;  // a file system that cannot reserve: not asked again
      return has_free(file_.get(), bytes);
    }
  }
  return false;
}

void SpareSpace::let_go() noexcept {
  trim(0);
}

void SpareSpace::trim(std::uint64_t bytes) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (held_bytes_ > bytes && ::ftruncate(file_.get(), static_cast<off_t>(bytes)) == 0) {
    held_bytes_ = bytes;
  }
}

}  // namespace countwheel::wal
