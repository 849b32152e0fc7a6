#include <algorithm>
#include <string>
#include <utility>

#include <countwheel/retry.h>

#include "attributes.h"

namespace countwheel {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): one step spreads any seed over 64 bits.
std::uint64_t spread(std::uint64_t seed) noexcept {
  seed += 0x9e3779b97f4a7c15ULL;
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebULL;
  return seed ^ (seed >> 31);
}

std::int64_t undisturbed_ns(const RetryPolicy& policy, std::uint32_t failures) noexcept {
  const std::int64_t cap = policy.cap.count();
  switch (policy.kind) {
    case RetryPolicy::Kind::kFixed:
      return std::min(policy.base.count(), cap);
    case RetryPolicy::Kind::kList: {
      if (policy.delays.empty()) {
        return 0;
      }
      const std::size_t last = policy.delays.size() - 1;
      return policy.delays[std::min<std::size_t>(failures - 1, last)].count();
    }
    case RetryPolicy::Kind::kExponential:
      break;
  }
  // Multiplied out in floating point and stopped at the cap: no power can overflow.
  double delay = static_cast<double>(policy.base.count());
  for (std::uint32_t i = 1; i < failures && delay < static_cast<double>(cap); ++i) {
    delay *= policy.factor;
    if (policy.factor == 1.0 || delay == 0.0) {
      break;
    }
  }
  return delay >= static_cast<double>(cap) ? cap : static_cast<std::int64_t>(delay);
}

}  // namespace

RetryPolicy RetryPolicy::fixed(std::chrono::nanoseconds delay) {
  RetryPolicy policy;
  policy.kind = Kind::kFixed;
  policy.base = delay;
  policy.cap = delay;
  return policy;
}

RetryPolicy RetryPolicy::exponential(std::chrono::nanoseconds base,
                                     double factor,
                                     std::chrono::nanoseconds cap) {
  RetryPolicy policy;
  policy.base = base;
  policy.factor = factor;
  policy.cap = cap;
  return policy;
}

RetryPolicy RetryPolicy::list(std::vector<std::chrono::nanoseconds> delays) {
  RetryPolicy policy;
  policy.kind = Kind::kList;
  policy.delays = std::move(delays);
  return policy;
}

Status validate(const RetryPolicy& policy) {
  const auto refuse = [](const char* field, const std::string& given, const char* allowed) {
    return Status(Code::kInvalidArgument,
                  std::string("RetryPolicy::") + field + " is " + given + ", allowed: " + allowed);
  };
  if (policy.base.count() < 0) {
    return refuse("base", std::to_string(policy.base.count()) + " ns", ">= 0");
  }
  if (policy.cap.count() < 0) {
    return refuse("cap", std::to_string(policy.cap.count()) + " ns", ">= 0");
  }
  if (!(policy.factor >= 1.0 && policy.factor <= 1000.0)) {
    return refuse("factor", std::to_string(policy.factor), "1 to 1000");
  }
  if (!(policy.jitter >= 0.0 && policy.jitter <= 1.0)) {
    return refuse("jitter", std::to_string(policy.jitter), "0 to 1");
  }
  if (policy.max_crashes < 1 || policy.max_crashes > 255) {
    return refuse("max_crashes", std::to_string(policy.max_crashes), "1 to 255");
  }
  if (policy.max_attempts > 65535) {
    return refuse("max_attempts", std::to_string(policy.max_attempts), "0 to 65535");
  }
  if (policy.kind == RetryPolicy::Kind::kList && policy.delays.empty()) {
    return refuse("delays", "empty", "at least one delay");
  }
  if (policy.delays.size() > detail::kRetryDelaysMax) {
    return refuse("delays", std::to_string(policy.delays.size()) + " delays", "at most 64");
  }
  if (policy.total_timeout.count() < 0) {
    return refuse("total_timeout", std::to_string(policy.total_timeout.count()) + " ns", ">= 0");
  }
  for (const std::chrono::nanoseconds delay : policy.delays) {
    if (delay.count() < 0) {
      return refuse("delays", std::to_string(delay.count()) + " ns", ">= 0");
    }
  }
  return {};
}

std::chrono::nanoseconds backoff(const RetryPolicy& policy,
                                 std::uint32_t failures,
                                 std::uint64_t seed) noexcept {
  const std::int64_t full = undisturbed_ns(policy, std::max(failures, 1U));
  if (policy.jitter <= 0.0) {
    return std::chrono::nanoseconds(full);
  }
  const double share = static_cast<double>(spread(seed + failures) >> 11) * 0x1.0p-53;
  const double taken = static_cast<double>(full) * policy.jitter * share;
  return std::chrono::nanoseconds(full - static_cast<std::int64_t>(taken));
}

}  // namespace countwheel
