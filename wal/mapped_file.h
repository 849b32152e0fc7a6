// MappedFile: a small file that is written by storing to memory.
//
// What is stored survives the process (kill -9) because the pages belong to the kernel; nothing
// survives a power failure for sure, because nobody syncs them.
#ifndef COUNTWHEEL_WAL_MAPPED_FILE_H_
#define COUNTWHEEL_WAL_MAPPED_FILE_H_

#include <cstddef>
#include <string>

#include <countwheel/status.h>

#include "data_dir.h"

namespace countwheel::wal {

class MappedFile {
 public:
  MappedFile() noexcept = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Maps `name` with at least `bytes`, all of it if it is longer; new bytes are zero. Of a
  // directory that is only read the mapping is a copy, and empty when the file is missing.
  static Result<MappedFile> open(const DataDir& directory, const char* name, std::size_t bytes);

  char* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_MAPPED_FILE_H_
