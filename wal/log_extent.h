// LogExtent: how many bytes of log there are from any blob on.
//
// Kept as one mark for each 64 KiB or so, not for each blob: the cleaner needs no better.
#ifndef COUNTWHEEL_WAL_LOG_EXTENT_H_
#define COUNTWHEEL_WAL_LOG_EXTENT_H_

#include <cstdint>
#include <deque>

namespace countwheel::wal {

class LogExtent {
 public:
  // REQUIRES: sequences ascend.
  void add(std::uint64_t sequence, std::uint64_t bytes) {
    if (marks_.empty() || total_ - marks_.back().bytes_before >= kMarkBytes) {
      marks_.push_back({sequence, total_});
    }
    total_ += bytes;
  }

  // Forgets what lies below.
  void trim(std::uint64_t low_water) noexcept {
    while (marks_.size() > 1 && marks_[1].sequence <= low_water) {
      marks_.pop_front();
    }
  }

  // From the last trim() on, up to one mark too many.
  std::uint64_t bytes() const noexcept {
    return marks_.empty() ? 0 : total_ - marks_.front().bytes_before;
  }

 private:
  static constexpr std::uint64_t kMarkBytes = 64 * 1024;

  struct Mark {
    std::uint64_t sequence;
    std::uint64_t bytes_before;
  };

  std::deque<Mark> marks_;
  std::uint64_t total_ = 0;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_LOG_EXTENT_H_
