// RateLimit: so many starts a second, and so many at once.
//
// The generic cell rate algorithm (ITU-T I.371): one number, the moment at which the bucket would
// be full again if nothing came. Knows no clock; `now` is on the boot clock.
#ifndef COUNTWHEEL_ENGINE_RATE_LIMIT_H_
#define COUNTWHEEL_ENGINE_RATE_LIMIT_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace countwheel::detail {

// Thread contract: set() before anybody else; the rest from any thread. The number orders nothing
// but itself: relaxed.
class RateLimit {
 public:
  // `per_second` of 0 is no limit.
  void set(double per_second, std::uint32_t burst) noexcept {
    interval_ns_ = per_second > 0 ? static_cast<std::int64_t>(1e9 / per_second) : 0;
    ahead_ns_ = interval_ns_ * (std::int64_t{burst} - 1);
  }
  bool limited() const noexcept { return interval_ns_ != 0; }

  // When the next start is allowed; a time in the past is now.
  std::int64_t next() const noexcept {
    return full_at_ns_.load(std::memory_order_relaxed) - ahead_ns_;
  }
  // Takes one start, if one is allowed.
  bool take(std::int64_t now_ns) noexcept {
    std::int64_t full_at = full_at_ns_.load(std::memory_order_relaxed);
    while (full_at - ahead_ns_ <= now_ns) {
      const std::int64_t later = std::max(full_at, now_ns) + interval_ns_;
      if (full_at_ns_.compare_exchange_weak(full_at, later, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  // The start that was taken did not happen.
  void give_back() noexcept { full_at_ns_.fetch_sub(interval_ns_, std::memory_order_relaxed); }

 private:
  std::int64_t interval_ns_ = 0;
  std::int64_t ahead_ns_ = 0;
  std::atomic<std::int64_t> full_at_ns_{0};
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_RATE_LIMIT_H_
