// A wheel with N timers, and the deadlines that all benchmarks of timers use.
#ifndef COUNTWHEEL_BENCH_WHEEL_FIXTURE_H_
#define COUNTWHEEL_BENCH_WHEEL_FIXTURE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include <countwheel/wheel.h>

namespace countwheel::bench {

inline constexpr std::int64_t kMs = 1'000'000;
inline constexpr std::int64_t kSecond = 1'000 * kMs;
inline constexpr std::int64_t kHour = 3'600 * kSecond;
inline constexpr std::int64_t kDay = 24 * kHour;
inline constexpr std::int64_t kTick = 10 * kMs;

enum class Spread {
  kWeek,      // uniform from 5 s to 7 days
  kOrderMix,  // log-uniform from 10 ms to 1 h, as orders are
  kTenSeconds,
  kOneInstant,
  kOneHour,  // uniform in the hour that begins in two hours
};

inline std::vector<std::int64_t> deadlines_of(Spread spread, std::size_t count) {
  std::mt19937_64 random(42);
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  std::vector<std::int64_t> deadlines(count);
  for (std::int64_t& deadline_ns : deadlines) {
    const double share = unit(random);
    switch (spread) {
      case Spread::kWeek:
        deadline_ns = 5 * kSecond + static_cast<std::int64_t>(share * 7 * kDay);
        break;
      case Spread::kOrderMix:
        deadline_ns = static_cast<std::int64_t>(10e6 * std::pow(360'000.0, share));
        break;
      case Spread::kTenSeconds:
        deadline_ns = static_cast<std::int64_t>(share * 10 * kSecond);
        break;
      case Spread::kOneInstant:
        deadline_ns = 10 * kSecond;
        break;
      case Spread::kOneHour:
        deadline_ns = 2 * kHour + static_cast<std::int64_t>(share * kHour);
        break;
    }
  }
  return deadlines;
}

// A wheel with N timers, as a process has it that has been running: its memory was used before.
class Fixture {
 public:
  Fixture(std::size_t count, Spread spread)
      : count_(count), deadlines_(deadlines_of(spread, count_)) {
    handles_.resize(count_);
    std::mt19937_64 random(43);
    order_.resize(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      order_[i] = i;
    }
    std::shuffle(order_.begin(), order_.end(), random);
  }

  std::size_t count() const { return count_; }
  TimingWheel& wheel() { return *wheel_; }
  const std::vector<TimingWheel::Handle>& handles() const { return handles_; }
  std::int64_t deadline(std::size_t i) const { return deadlines_[i]; }

  void reset() {
    wheel_.reset();
    wheel_ = std::make_unique<TimingWheel>(countwheel::WheelOptions{}, 0);
    wheel_->reserve(count_);
  }

  void schedule_all() {
    for (std::size_t i = 0; i < count_; ++i) {
      handles_[i] = wheel_->schedule(deadlines_[i], i);
    }
  }

  std::vector<TimingWheel::Handle> shuffled_handles() const {
    std::vector<TimingWheel::Handle> shuffled(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      shuffled[i] = handles_[order_[i]];
    }
    return shuffled;
  }

 private:
  std::size_t count_;
  std::vector<std::int64_t> deadlines_;
  std::vector<TimingWheel::Handle> handles_;
  std::vector<std::size_t> order_;
  std::unique_ptr<TimingWheel> wheel_;
};

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_WHEEL_FIXTURE_H_
