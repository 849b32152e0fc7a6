// The workload of the rows `wheel.*`, the same for every peer as for the wheel of ours.
#ifndef COUNTWHEEL_BENCH_PEERS_TIMER_WORKLOAD_H_
#define COUNTWHEEL_BENCH_PEERS_TIMER_WORKLOAD_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace countwheel::bench {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kHourNs = 3'600 * kSecondNs;
constexpr std::int64_t kDayNs = 24 * kHourNs;

// `count` moments, uniform in [from, from + width).
inline std::vector<std::int64_t> uniform_deadlines(std::size_t count,
                                                   std::int64_t from_ns,
                                                   std::int64_t width_ns) {
  std::mt19937_64 random(42);
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  std::vector<std::int64_t> deadlines(count);
  for (std::int64_t& deadline_ns : deadlines) {
    deadline_ns = from_ns + static_cast<std::int64_t>(unit(random) * static_cast<double>(width_ns));
  }
  return deadlines;
}

// Uniform from 5 s to 7 days.
inline std::vector<std::int64_t> week_deadlines(std::size_t count) {
  return uniform_deadlines(count, 5 * kSecondNs, 7 * kDayNs);
}

// The timers in random order, so that each call meets a cold one.
inline std::vector<std::uint32_t> random_order(std::size_t count) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(43));
  return order;
}

// An earlier moment, but not before 4 s: where the i-th move goes.
inline std::int64_t earlier(std::int64_t deadline_ns, std::size_t i) {
  constexpr std::int64_t kFirst = 4 * kSecondNs;
  return kFirst + static_cast<std::int64_t>(static_cast<double>(deadline_ns - kFirst) *
                                            static_cast<double>(i % 97) / 97.0);
}

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_TIMER_WORKLOAD_H_
