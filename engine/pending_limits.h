// Limits: how much is pending, against what is allowed.
#ifndef COUNTWHEEL_ENGINE_PENDING_LIMITS_H_
#define COUNTWHEEL_ENGINE_PENDING_LIMITS_H_

#include <atomic>
#include <cstdint>

namespace countwheel::detail {

// Thread contract: safe for concurrent use. The counters order nothing: relaxed.
class Limits {
 public:
  Limits(std::uint64_t max_count, std::uint64_t max_bytes) noexcept
      : max_count_(max_count), max_bytes_(max_bytes) {}

  // Room for one more task of `bytes`; false and unchanged when there is none.
  bool take(std::uint64_t bytes) noexcept {
    if (count_.fetch_add(1, std::memory_order_relaxed) >= max_count_) {
      count_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    if (!take_bytes(bytes)) {
      count_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    return true;
  }
  bool take_bytes(std::uint64_t bytes) noexcept {
    if (bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes > max_bytes_) {
      bytes_.fetch_sub(bytes, std::memory_order_relaxed);
      return false;
    }
    return true;
  }
  void give(std::uint64_t count, std::uint64_t bytes) noexcept {
    count_.fetch_sub(count, std::memory_order_relaxed);
    give_bytes(bytes);
  }
  void give_bytes(std::uint64_t bytes) noexcept {
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  // What is already there is never refused: restored tasks and rollbacks.
  void force(std::uint64_t count, std::uint64_t bytes) noexcept {
    count_.fetch_add(count, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void force_bytes(std::uint64_t bytes) noexcept {
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

  std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

 private:
  const std::uint64_t max_count_;
  const std::uint64_t max_bytes_;
  std::atomic<std::uint64_t> count_{0};
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_PENDING_LIMITS_H_
