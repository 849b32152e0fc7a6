// WakeLatency: how long before a deadline a thread must stop sleeping to be there in time.
//
// Follows the 90th percentile of the delays it is told, by steps: up nine parts when a delay was
// longer than the estimate, down one part when it was not, which balances where one in ten is
// longer. (Robbins and Monro, "A Stochastic Approximation Method", 1951.)
#ifndef COUNTWHEEL_ENGINE_WAKE_LATENCY_H_
#define COUNTWHEEL_ENGINE_WAKE_LATENCY_H_

#include <algorithm>
#include <cstdint>

namespace countwheel::detail {

class WakeLatency {
 public:
  explicit WakeLatency(std::int64_t max_ns) noexcept
      : max_ns_(max_ns), estimate_ns_(std::min(max_ns, kFirstNs)) {}

  void add(std::int64_t delay_ns) noexcept {
    const std::int64_t step_ns = std::max<std::int64_t>(estimate_ns_ / 100, 50);
    estimate_ns_ += delay_ns > estimate_ns_ ? 9 * step_ns : -step_ns;
    estimate_ns_ = std::clamp(estimate_ns_, std::min(kLeastNs, max_ns_), max_ns_);
  }
  std::int64_t ns() const noexcept { return estimate_ns_; }

 private:
  static constexpr std::int64_t kFirstNs = 60'000;
  static constexpr std::int64_t kLeastNs = 2'000;

  const std::int64_t max_ns_;
  std::int64_t estimate_ns_;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_WAKE_LATENCY_H_
