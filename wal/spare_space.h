// SpareSpace: a little room on the disk that is given up when it is needed.
//
// RocksDB lives through a full disk, except when the first append to a new log file fails: then it
// keeps that file, and its next write fails an assertion. So as much as one append needs is held
// back in a file of ours, and let go at the moment a new log file is made.
#ifndef COUNTWHEEL_WAL_SPARE_SPACE_H_
#define COUNTWHEEL_WAL_SPARE_SPACE_H_

#include <cstdint>
#include <mutex>
#include <string>

#include "descriptor.h"

namespace countwheel::wal {

// Thread contract: any thread.
class SpareSpace {
 public:
  // `path`: the file, made when it is first needed. `usual_bytes`: how much is held if no more is
  // asked for, so that it is hardly ever resized.
  SpareSpace(std::string path, std::uint64_t usual_bytes)
      : path_(std::move(path)), usual_bytes_(usual_bytes) {}

  // Whether at least `bytes` are held, after trying. Where the file system cannot reserve, whether
  // as many are free.
  bool hold(std::uint64_t bytes) noexcept;
  void let_go() noexcept;
  // Gives up what is held beyond `bytes`.
  void trim(std::uint64_t bytes) noexcept;

 private:
  const std::string path_;
  const std::uint64_t usual_bytes_;
  std::mutex mutex_;  // guards what follows
  Descriptor file_;
  std::uint64_t held_bytes_ = 0;
  bool cannot_hold_ = false;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_SPARE_SPACE_H_
