// Order flow drawn from the tables of quantiles.h. Pure: the same seed gives the same flow.
#ifndef COUNTWHEEL_TOOLS_DRILL_GENERATOR_H_
#define COUNTWHEEL_TOOLS_DRILL_GENERATOR_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "flow.h"

namespace countwheel::drill {

enum class Preset : std::uint8_t {
  kEquity,        // Many stocks, each as busy as the recorded one: bursts, short lives.
  kCrypto,        // Many coins, each as busy as the recorded one: no bursts, longer lives.
  kSessionClose,  // Most orders rest until the close and expire in the same instant.
};

std::optional<Preset> preset_of(std::string_view name);
std::string_view to_string(Preset preset);

// Orders of one stock or coin; `orders` of a flow are drawn from orders / 2,000 of them, so that
// the session is about as long whatever the size, and the market busier.
inline constexpr std::uint32_t kOrdersPerSymbol = 2000;

// Of the orders, so many are filled in part before their end and keep their expiry.
inline constexpr double kPartialFillShare = 0.013;

// REQUIRES: order_count > 0.
Flow generate(Preset preset, std::uint32_t order_count, std::uint64_t seed);

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_GENERATOR_H_
