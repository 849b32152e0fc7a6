// RetryPolicy: when a failed task is tried again, as a pure function.
//
//   RetryPolicy::exponential(100ms, 2.0, 45s)     // 100, 200, 400 ms, ... 45 s, 45 s, ...
//   RetryPolicy::fixed(5s)
//   RetryPolicy::list({10s, 20s, 30s})            // the last is repeated
//
// Delays count from the moment the failure was recorded. Jitter takes a share away, never adds, so
// a delay is in [(1 - jitter) * backoff, backoff] and never above the cap.
#ifndef COUNTWHEEL_RETRY_H_
#define COUNTWHEEL_RETRY_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include <countwheel/status.h>

namespace countwheel {

struct RetryPolicy {
  enum class Kind : std::uint8_t { kFixed, kExponential, kList };

  Kind kind = Kind::kExponential;
  std::chrono::nanoseconds base = std::chrono::milliseconds(100);
  double factor = 2.0;
  std::chrono::nanoseconds cap = std::chrono::seconds(45);
  std::vector<std::chrono::nanoseconds> delays = {};  // of kList; 1 to 64
  // Share of a delay that may be taken away at random. Default: 0. Range: [0, 1].
  double jitter = 0.0;
  // Failures after which the task is a dead letter. Default: 5. 0 is without end.
  std::uint32_t max_attempts = 5;
  // Processes a task may take down before it is a dead letter with reason `crash`. Counted apart
  // from failures. Default: 5. Range: [1, 255].
  std::uint32_t max_crashes = 5;
  // No attempt is planned for later than this after the task first fell due: it becomes a dead
  // letter with reason `timeout` instead. Default: 0, no limit.
  std::chrono::nanoseconds total_timeout{0};

  static RetryPolicy fixed(std::chrono::nanoseconds delay);
  static RetryPolicy exponential(std::chrono::nanoseconds base,
                                 double factor,
                                 std::chrono::nanoseconds cap);
  static RetryPolicy list(std::vector<std::chrono::nanoseconds> delays);
};

// Names the field, the value given and the values allowed.
Status validate(const RetryPolicy& policy);

// The delay after the `failures`-th failure (1, 2, ...), jitter drawn from `seed`. Never below
// zero, never above the cap, for any number of failures.
std::chrono::nanoseconds backoff(const RetryPolicy& policy,
                                 std::uint32_t failures,
                                 std::uint64_t seed) noexcept;

}  // namespace countwheel

#endif  // COUNTWHEEL_RETRY_H_
