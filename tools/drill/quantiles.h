// The shape of real order flow, as tables of quantiles.
//
// Derived from two public recordings by counting, not copied from them: one hour of one large US
// stock (limit order messages of AAPL, 2012-06-21, 09:30 to 10:30, 44,256 orders) and five hours of
// BTC/USD on Bitstamp (2015-05-01, every order, 24,894 of them). A piecewise log-linear inverse of
// the distribution reproduces them; one lognormal does not: fitted to the middle half of the stock
// it says 49 s for the 95th percentile of a cancelled order's life, and the data say 19 s.
#ifndef COUNTWHEEL_TOOLS_DRILL_QUANTILES_H_
#define COUNTWHEEL_TOOLS_DRILL_QUANTILES_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace countwheel::drill {

inline constexpr std::size_t kQuantileCount = 25;

// In percent, ascending; the same for every table.
extern const std::array<double, kQuantileCount> kQuantilePercents;

using QuantileTable = std::array<double, kQuantileCount>;

// One recording. Lives are from an order's arrival to its end.
struct FlowTables {
  QuantileTable cancel_ms;        // lives of orders that ended cancelled
  QuantileTable fill_ms;          // lives of orders that ended filled
  QuantileTable interarrival_us;  // between one order and the next
  std::uint32_t cancel_count;
  std::uint32_t fill_count;

  double fill_share() const noexcept {
    return static_cast<double>(fill_count) / static_cast<double>(fill_count + cancel_count);
  }
};

extern const FlowTables kEquityTables;
extern const FlowTables kCryptoTables;

// The value at `share` (0 to 1), log-linear between the table's quantiles and constant beyond
// them. A zero in a table counts as 1/20 of the unit.
double quantile(const QuantileTable& table, double share) noexcept;

// The share of values up to `value`: the inverse of quantile().
double share_below(const QuantileTable& table, double value) noexcept;

// How many orders of the stock arrive within a millisecond of one another (mass quotes): 72 % are
// alone, the mean is 1.57, the 99th percentile 7, the greatest 60.
std::uint32_t cluster_size(double share) noexcept;

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_QUANTILES_H_
