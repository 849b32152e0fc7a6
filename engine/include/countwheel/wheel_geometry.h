// WheelGeometry: which slot of which level a moment belongs to.
//
// Inside the wheel time is a stamp: unsigned nanoseconds since an origin far before 1970 that is
// aligned to the coarsest tick. So slots of all levels share their borders, the arithmetic has no
// negative numbers, and every int64 deadline to the year 2262 has a stamp that does not overflow.
#ifndef COUNTWHEEL_WHEEL_GEOMETRY_H_
#define COUNTWHEEL_WHEEL_GEOMETRY_H_

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

// Divides by a number known only at run time with a multiplication and two shifts (Granlund and
// Montgomery 1994): every schedule divides once, and a division would be a third of its cost.
class Divider {
 public:
  constexpr Divider() noexcept = default;
  explicit constexpr Divider(std::uint64_t divisor) noexcept {
    const auto bits = static_cast<unsigned>(64 - std::countl_zero(divisor - 1));
    const std::uint64_t power = bits == 64 ? 0 : std::uint64_t{1} << bits;
    magic_ = static_cast<std::uint64_t>((Wide{power - divisor} << 64) / divisor + 1);
    first_shift_ = bits < 1 ? bits : 1;
    second_shift_ = bits > 1 ? bits - 1 : 0;
  }

  constexpr std::uint64_t divide(std::uint64_t value) const noexcept {
    const auto high = static_cast<std::uint64_t>((Wide{magic_} * value) >> 64);
    return (high + ((value - high) >> first_shift_)) >> second_shift_;
  }

 private:
  __extension__ using Wide = unsigned __int128;

  std::uint64_t magic_ = 0;
  unsigned first_shift_ = 0;
  unsigned second_shift_ = 0;
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
    coarse_unit_ = tick_[2] > std::numeric_limits<std::uint32_t>::max() ? 1'000'000 : 1;
    coarse_divider_ = Divider(coarse_unit_);
    origin_ = (std::uint64_t{1} << 63) / tick_[2] * tick_[2];
    lowest_ns_ = static_cast<std::int64_t>(~origin_ + 1);
  }

  // Moments before the origin (the first hours of the year 1677) count as the origin.
  std::uint64_t stamp_of(std::int64_t moment_ns) const noexcept {
    const std::int64_t moment = moment_ns < lowest_ns_ ? lowest_ns_ : moment_ns;
    return static_cast<std::uint64_t>(moment) + origin_;
  }

  // The inverse; stamps past the last representable moment become that moment.
  std::int64_t moment_of(std::uint64_t stamp) const noexcept {
    constexpr auto kLast = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return stamp >= kLast + origin_ ? std::numeric_limits<std::int64_t>::max()
                                    : static_cast<std::int64_t>(stamp - origin_);
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
    return static_cast<std::uint32_t>(level == 2 ? coarse_divider_.divide(distance) : distance);
  }

  // Rounds up to the tick of level 0.
  std::uint64_t tick_not_before(std::uint64_t stamp) const noexcept {
    const std::uint64_t start = start_of(0, slot_of(0, stamp));
    return start == stamp ? stamp : saturating_add(start, tick_[0]);
  }

 private:
  std::array<std::uint64_t, kWheelLevelCount> tick_ = {};
  std::array<Divider, kWheelLevelCount> divider_ = {};
  Divider coarse_divider_;
  std::uint64_t coarse_unit_ = 1;
  std::uint64_t origin_ = 0;
  std::int64_t lowest_ns_ = 0;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_WHEEL_GEOMETRY_H_
