// What the tests of the wheel share.
#ifndef COUNTWHEEL_TESTS_ENGINE_WHEEL_TESTING_H_
#define COUNTWHEEL_TESTS_ENGINE_WHEEL_TESTING_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/wheel.h>

namespace countwheel::testing {

inline constexpr std::int64_t kMs = 1'000'000;
inline constexpr std::int64_t kSecond = 1'000 * kMs;
inline constexpr std::int64_t kHour = 3'600 * kSecond;
inline constexpr std::int64_t kDay = 24 * kHour;
inline constexpr std::int64_t kTick = 10 * kMs;

// The seed of a random test: COUNTWHEEL_SEED or `fallback`; printed, so that a failure repeats.
inline std::uint64_t wheel_seed(std::uint64_t fallback) {
  const char* const text = std::getenv("COUNTWHEEL_SEED");  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t seed = text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
  std::printf("COUNTWHEEL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

inline WheelOptions tick_precision() {
  WheelOptions options;
  options.precision = Precision::kTick;
  return options;
}

struct Expiry {
  std::uint64_t value = 0;
  std::int64_t deadline_ns = 0;
  std::int64_t now_ns = 0;

  friend bool operator==(const Expiry&, const Expiry&) = default;
};

// Advances once and keeps what expired.
inline std::vector<Expiry> expire(TimingWheel& wheel,
                                  std::int64_t now_ns,
                                  std::size_t limit = TimingWheel::kNoLimit) {
  std::vector<Expiry> expiries;
  wheel.advance(
      now_ns,
      [&](std::span<const TimingWheel::Expired> batch) {
        for (const TimingWheel::Expired& expired : batch) {
          expiries.push_back({expired.value, expired.deadline_ns, now_ns});
        }
      },
      limit);
  return expiries;
}

inline std::vector<std::uint64_t> values_of(const std::vector<Expiry>& expiries) {
  std::vector<std::uint64_t> values;
  values.reserve(expiries.size());
  for (const Expiry& expiry : expiries) {
    values.push_back(expiry.value);
  }
  return values;
}

// Advances tick by tick up to and including `until_ns`; returns all that expired on the way.
inline std::vector<Expiry> run_ticks(TimingWheel& wheel,
                                     std::int64_t from_ns,
                                     std::int64_t until_ns,
                                     std::int64_t step_ns = kTick) {
  std::vector<Expiry> all;
  for (std::int64_t now_ns = from_ns; now_ns <= until_ns; now_ns += step_ns) {
    const std::vector<Expiry> expiries = expire(wheel, now_ns);
    all.insert(all.end(), expiries.begin(), expiries.end());
  }
  return all;
}

// Sleeps from wake to wake, as a host does that trusts next_wake().
inline std::vector<Expiry> run_wakes(TimingWheel& wheel,
                                     std::int64_t until_ns,
                                     std::uint64_t* wake_count = nullptr) {
  std::vector<Expiry> all;
  for (std::int64_t now_ns = wheel.next_wake(); now_ns <= until_ns; now_ns = wheel.next_wake()) {
    const std::vector<Expiry> expiries = expire(wheel, now_ns);
    all.insert(all.end(), expiries.begin(), expiries.end());
    if (wake_count != nullptr) {
      ++*wake_count;
    }
  }
  return all;
}

inline ::testing::AssertionResult is_intact(const TimingWheel& wheel) {
  std::string why;
  return wheel.check_invariants(&why) ? ::testing::AssertionSuccess()
                                      : ::testing::AssertionFailure() << why;
}

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_ENGINE_WHEEL_TESTING_H_
