// WheelGeometry: which slot of which level a moment belongs to.
//
// Inside the wheel time is a stamp: unsigned nanoseconds since 0 on the caller's clock, below 2^63.
// So slots of all levels share their borders and the arithmetic has no negative numbers. Moments
// before 0 have the stamp 0: they lie before any cursor, wait in the heap of late arrivals, and are
// compared there as what they are.
#ifndef COUNTWHEEL_WHEEL_GEOMETRY_H_
#define COUNTWHEEL_WHEEL_GEOMETRY_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <countwheel/wheel_options.h>

namespace countwheel::detail {

inline constexpr std::uint64_t kStampMax = std::numeric_limits<std::uint64_t>::max();

constexpr std::uint64_t saturating_add(std::uint64_t left, std::uint64_t right) noexcept {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(left, right, &sum) ? kStampMax : sum;
}

constexpr std::uint64_t saturating_multiply(std::uint64_t left, std::uint64_t right) noexcept {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(left, right, &product) ? kStampMax : product;
}

// a - b, but never below zero.
constexpr std::uint64_t excess(std::uint64_t left, std::uint64_t right) noexcept {
  return left > right ? left - right : 0;
}

constexpr std::uint64_t ceil_divide(std::uint64_t value, std::uint64_t divisor) noexcept {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

// Divides numbers below 2^63 by one known only at run time, with a multiplication and a shift: for
// dividends of 63 bits a rounded-up reciprocal of 64 bits is exact (Granlund and Montgomery 1994).
// Every schedule divides once, and a division would be a third of its cost.
class Divider {
 public:
  constexpr Divider() noexcept = default;
  // REQUIRES: 1 <= divisor < 2^63
  explicit constexpr Divider(std::uint64_t divisor) noexcept
      : shift_(static_cast<unsigned>(std::bit_width(divisor - 1))) {
    const Wide numerator = Wide{1} << (63 + shift_);
    magic_ = static_cast<std::uint64_t>((numerator + divisor - 1) / divisor);
  }

  // REQUIRES: value < 2^63
  constexpr std::uint64_t divide(std::uint64_t value) const noexcept {
    return static_cast<std::uint64_t>((Wide{value << 1} * magic_) >> 64) >> shift_;
  }

 private:
  __extension__ using Wide = unsigned __int128;

  std::uint64_t magic_ = std::uint64_t{1} << 63;
  unsigned shift_ = 0;
};

class WheelGeometry {
 public:
  // REQUIRES: wheel_options_error(options).empty()
  explicit WheelGeometry(const WheelOptions& options) noexcept {
    tick_[0] = static_cast<std::uint64_t>(options.tick_ns);
    tick_[1] = tick_[0] * options.span[0];
    tick_[2] = tick_[1] * options.span[1];
    for (std::size_t level = 0; level < kWheelLevelCount; ++level) {
      divider_[level] = Divider(tick_[level]);
    }
    if (tick_[2] > std::numeric_limits<std::uint32_t>::max()) {
      unit_divider_[2] = Divider(1'000'000);
    }
  }

  static std::uint64_t stamp_of(std::int64_t moment_ns) noexcept {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(moment_ns, 0));
  }

  // The inverse; stamps past the last representable moment become that moment.
  static std::int64_t moment_of(std::uint64_t stamp) noexcept {
    constexpr std::uint64_t kLast = std::numeric_limits<std::int64_t>::max();
    return static_cast<std::int64_t>(std::min(stamp, kLast));
  }

  std::uint64_t tick(std::size_t level) const noexcept { return tick_[level]; }

  std::uint64_t slot_of(std::size_t level, std::uint64_t stamp) const noexcept {
    return divider_[level].divide(stamp);
  }

  std::uint64_t start_of(std::size_t level, std::uint64_t slot) const noexcept {
    return saturating_multiply(slot, tick_[level]);
  }

  // Where inside `slot` the stamp lies: in nanoseconds, on level 2 in milliseconds.
  std::uint32_t offset_in(std::size_t level,
                          std::uint64_t slot,
                          std::uint64_t stamp) const noexcept {
    const std::uint64_t distance = stamp - slot * tick_[level];
    return static_cast<std::uint32_t>(unit_divider_[level].divide(distance));
  }

  // The last boundary of level 0 that is not after a moment, and the first that is not before it;
  // also for moments before 0.
  std::int64_t boundary_before(std::int64_t moment_ns) const noexcept {
    const auto tick_ns = static_cast<std::int64_t>(tick_[0]);
    const std::int64_t rest_ns = moment_ns % tick_ns;
    std::int64_t boundary_ns = moment_ns - rest_ns;
    if (rest_ns < 0 && __builtin_sub_overflow(boundary_ns, tick_ns, &boundary_ns)) {
      boundary_ns = std::numeric_limits<std::int64_t>::min();
    }
    return boundary_ns;
  }
  std::int64_t boundary_after(std::int64_t moment_ns) const noexcept {
    const auto tick_ns = static_cast<std::int64_t>(tick_[0]);
    const std::int64_t rest_ns = moment_ns % tick_ns;
    std::int64_t boundary_ns = moment_ns - rest_ns;
    if (rest_ns > 0 && __builtin_add_overflow(boundary_ns, tick_ns, &boundary_ns)) {
      boundary_ns = std::numeric_limits<std::int64_t>::max();
    }
    return boundary_ns;
  }

 private:
  std::array<std::uint64_t, kWheelLevelCount> tick_ = {};
  std::array<Divider, kWheelLevelCount> divider_ = {};
  std::array<Divider, kWheelLevelCount> unit_divider_ = {};  // by 1 where offsets are exact
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_WHEEL_GEOMETRY_H_
