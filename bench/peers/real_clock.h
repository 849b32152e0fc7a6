// The time of peers that read the clock by themselves: virtual time is the monotonic clock since
// the construction, ten times faster, so that ten virtual seconds take one.
#ifndef COUNTWHEEL_BENCH_PEERS_REAL_CLOCK_H_
#define COUNTWHEEL_BENCH_PEERS_REAL_CLOCK_H_

#include <cstdint>
#include <time.h>

namespace countwheel::bench {

class RealClock {
 public:
  static constexpr std::int64_t kTimeScale = 10;

  static std::int64_t monotonic_ns() {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * kSecond + now.tv_nsec;
  }

  std::int64_t real_ns(std::int64_t virtual_ns) const {
    return start_ns_ + virtual_ns / kTimeScale;
  }
  std::int64_t virtual_now_ns() const { return (monotonic_ns() - start_ns_) * kTimeScale; }

  void wait_until(std::int64_t virtual_ns) const {
    const std::int64_t ns = real_ns(virtual_ns);
    const timespec until = {.tv_sec = ns / kSecond, .tv_nsec = ns % kSecond};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }

 private:
  static constexpr std::int64_t kSecond = 1'000'000'000;

  std::int64_t start_ns_ = monotonic_ns();
};

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_REAL_CLOCK_H_
