// WheelOptions: how many levels turn how fast, and what each choice costs.
//
// The default wheel, in the unit everybody thinks in:
//
//   level | tick   | one turn of the next tick | ring (slots) | reaches
//   ------+--------+---------------------------+--------------+----------------------------------
//       0 | 10 ms  | 100 ticks  = 1 s          |          256 | 2.56 s
//       1 | 1 s    | 3600 ticks = 1 h          |         8192 | 2 h 16 min
//       2 | 1 h    | -                         |         1024 | 42 days, then by rounds to 2262
//
// Span and ring are two numbers on purpose. The span says how many ticks make one tick of the next
// level; the ring says how many slots there are to write to. Because a ring holds at least two
// spans, the next second and the next hour fit beside the current ones, and so the cascade can be
// spread over the ticks before the boundary instead of being paid at it (see wheel.h).
#ifndef COUNTWHEEL_WHEEL_OPTIONS_H_
#define COUNTWHEEL_WHEEL_OPTIONS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace countwheel {

// When a deadline counts as reached.
enum class Precision : std::uint8_t {
  kExact,  // At the deadline itself: now >= deadline.
  kTick,   // At the first tick boundary that is not before it: ceil(deadline / tick) * tick.
};

inline constexpr std::size_t kWheelLevelCount = 3;

struct WheelOptions {
  // The tick of level 0. Default: 10 ms. Unit: that of the deadlines; nanoseconds unless the host
  // counts something else (a wheel over block heights takes tick_ns = 1). A smaller tick sorts
  // smaller runs and cascades more often; in exact precision lateness does not depend on it.
  std::int64_t tick_ns = 10'000'000;

  // Ticks of level 0 in one of level 1, and of level 1 in one of level 2. Default: 100 and 3600.
  std::array<std::uint32_t, kWheelLevelCount - 1> span = {100, 3600};

  // Slots of each level. Powers of two, at least twice the span. Default: 256, 8192 and 1024.
  // A slot costs 12 bytes; a larger ring makes fewer entries move before they expire.
  std::array<std::uint32_t, kWheelLevelCount> ring = {256, 8192, 1024};

  // Default: exact.
  Precision precision = Precision::kExact;

  // The most entries the cascade moves in one tick, all levels together, while the load allows it.
  // Default: 64. More means later, shorter bursts before the boundary; fewer means longer ones.
  std::uint32_t moves_per_tick_max = 64;

  friend bool operator==(const WheelOptions&, const WheelOptions&) = default;
};

namespace detail {

inline constexpr WheelOptions kDefaultWheel{};
static_assert(kDefaultWheel.ring[0] >= 2 * kDefaultWheel.span[0], "the next second must fit");
static_assert(kDefaultWheel.ring[1] >= 2 * kDefaultWheel.span[1], "the next hour must fit");
static_assert(kDefaultWheel.tick_ns * kDefaultWheel.span[0] == 1'000'000'000, "level 1 is 1 s");
static_assert(kDefaultWheel.tick_ns * kDefaultWheel.span[0] * kDefaultWheel.span[1] ==
                  3'600'000'000'000,
              "level 2 is 1 h");

}  // namespace detail

// Empty if the options make a wheel; otherwise one sentence that names the field, the value given
// and the values allowed.
std::string wheel_options_error(const WheelOptions& options);

}  // namespace countwheel

#endif  // COUNTWHEEL_WHEEL_OPTIONS_H_
