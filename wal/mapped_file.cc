#include "mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utility>

#include "descriptor.h"
#include "os_error.h"

namespace countwheel::wal {
namespace {

// A mapping that reaches past the end of its file, or into a hole on a full disk, kills the process
// at the store. So every byte is reserved here, and no longer file than that is mapped.
Result<std::size_t> reserve(int descriptor, const std::string& path, std::size_t bytes) {
  struct stat facts {};
  if (::fstat(descriptor, &facts) != 0) {
    return os_error(errno, path, "look at");
  }
  if (!S_ISREG(facts.st_mode)) {
    return Status(Code::kCorrupt, path + ": not a regular file");
  }
  const std::size_t size = std::max(bytes, static_cast<std::size_t>(facts.st_size));
  if (const int error = ::posix_fallocate(descriptor, 0, static_cast<off_t>(size)); error != 0) {
    return os_error(error, path, "reserve " + std::to_string(size) + " bytes");
  }
  return size;
}

}  // namespace

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(data_, size_);
  }
}

Result<MappedFile> MappedFile::open(const DataDir& directory, const char* name, std::size_t bytes) {
  const std::string path = directory.path_of(name);
  const bool writable = directory.writable();
  const int flags = O_NOFOLLOW | O_CLOEXEC | (writable ? O_RDWR | O_CREAT : O_RDONLY);
  const Descriptor descriptor(::openat(directory.descriptor(), name, flags, 0600));
  if (!descriptor.valid()) {
    return !writable && errno == ENOENT ? Result<MappedFile>(MappedFile())
                                        : Result<MappedFile>(os_error(errno, path, "open"));
  }
  MappedFile mapped;
  if (writable) {
    Result<std::size_t> size = reserve(descriptor.get(), path, bytes);
    if (!size.ok()) {
      return size.status();
    }
    mapped.size_ = *size;
  } else {
    struct stat facts {};
    if (::fstat(descriptor.get(), &facts) != 0) {
      return os_error(errno, path, "look at");
    }
    mapped.size_ = static_cast<std::size_t>(facts.st_size);
  }
  if (mapped.size_ == 0) {
    return mapped;
  }
  void* address = ::mmap(nullptr,
                         mapped.size_,
                         PROT_READ | PROT_WRITE,
                         writable ? MAP_SHARED : MAP_PRIVATE,
                         descriptor.get(),
                         0);
  if (address == MAP_FAILED) {
    return os_error(errno, path, "map");
  }
  mapped.data_ = static_cast<char*>(address);
  return mapped;
}

}  // namespace countwheel::wal
