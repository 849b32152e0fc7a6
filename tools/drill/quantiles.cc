#include "quantiles.h"

#include <algorithm>
#include <cmath>

namespace countwheel::drill {

const std::array<double, kQuantileCount> kQuantilePercents = {
    0.1, 0.5, 1,  2.5, 5,  10,   15, 20,   25, 30,   40,   50,   60,
    70,  75,  80, 85,  90, 92.5, 95, 97.5, 99, 99.5, 99.9, 99.99};

const FlowTables kEquityTables = {
    .cancel_ms = {0.0704,     0.1536,      0.2775,      0.4838,      0.8962,
                  2.6324,     6.4395,      17.4452,     43.8373,     102.4539,
                  195.1945,   373.5735,    740.9449,    1622.5175,   2391.0232,
                  3737.766,   5969.2358,   11176.1178,  15000.0816,  19410.4527,
                  41938.8836, 114544.9983, 230366.8155, 775788.6274, 2027710.5369},
    .fill_ms = {0.0056,      0.0403,     0.082,      0.0966,       0.1086,
                0.3656,      1.3633,     7.0313,     26.841,       79.3064,
                317.2654,    890.7966,   1976.5493,  4432.189,     6751.4714,
                10613.2945,  17998.7754, 44356.0877, 81532.2241,   137406.5356,
                212290.4449, 446915.813, 759903.635, 1804920.9367, 2057624.4076},
    .interarrival_us = {0,        0.6,        2.19,       10.4,       22.77,
                        37.08,    84.52,      185.76,     346.19,     609.11,
                        1369.37,  3546.18,    10433.58,   31490.41,   53371.5,
                        92949.61, 151059.06,  252580.8,   333010.59,  447120.52,
                        670812.1, 1006578.38, 1313487.94, 1897441.69, 2986832.11},
    .cancel_count = 40932,
    .fill_count = 2944};

const FlowTables kCryptoTables = {
    .cancel_ms = {9,      22,     30,     49,      80,      139,     381,     987,   1959,
                  3336,   5785,   9019,   13123,   33781,   47059,   51951,   56374, 76680,
                  107893, 163599, 345580, 1075484, 2367512, 5987319, 14976335},
    .fill_ms = {57,     81,     104,     113,      116,      117,      117,     118,    119,
                121,    145,    277,     4496,     26147,    45545,    89340,   203397, 360958,
                576205, 991817, 3162276, 12961768, 14769534, 15086965, 15086965},
    .interarrival_us = {6000,    11000,   12000,   13000,   135000,  138000,  140000,
                        144000,  262000,  265000,  390000,  515000,  644000,  892000,
                        1015000, 1138000, 1262000, 1509000, 1655000, 2009000, 2629000,
                        4034000, 5379000, 9738000, 15342000},
    .cancel_count = 24153,
    .fill_count = 557};

namespace {

double positive(double value) noexcept {
  return value > 0.0 ? value : 0.05;
}

// Cumulative shares of clusters of 1 to 7 orders; the rest is a tail up to 60.
constexpr std::array<double, 7> kClusterShares = {0.722, 0.890, 0.942, 0.965, 0.978, 0.986, 0.9915};
constexpr double kTailBend = 0.9991;  // beyond it clusters are larger than 16

}  // namespace

double quantile(const QuantileTable& table, double share) noexcept {
  const double percent = share * 100.0;
  if (percent <= kQuantilePercents.front()) {
    return positive(table.front());
  }
  if (percent >= kQuantilePercents.back()) {
    return positive(table.back());
  }
  const auto upper = std::upper_bound(kQuantilePercents.begin(), kQuantilePercents.end(), percent);
  const auto i = static_cast<std::size_t>(upper - kQuantilePercents.begin());
  const double low = std::log(positive(table[i - 1]));
  const double high = std::log(positive(table[i]));
  const double part =
      (percent - kQuantilePercents[i - 1]) / (kQuantilePercents[i] - kQuantilePercents[i - 1]);
  return std::exp(low + (high - low) * part);
}

double share_below(const QuantileTable& table, double value) noexcept {
  if (value < positive(table.front())) {
    return 0.0;
  }
  if (value >= positive(table.back())) {
    return 1.0;
  }
  const auto upper = std::upper_bound(table.begin(), table.end(), value);
  const auto i = static_cast<std::size_t>(upper - table.begin());
  const double low = std::log(positive(table[i - 1]));
  const double high = std::log(positive(table[i]));
  const double part = high > low ? (std::log(value) - low) / (high - low) : 1.0;
  return (kQuantilePercents[i - 1] + part * (kQuantilePercents[i] - kQuantilePercents[i - 1])) /
         100.0;
}

std::uint32_t cluster_size(double share) noexcept {
  const auto upper = std::upper_bound(kClusterShares.begin(), kClusterShares.end(), share);
  if (upper != kClusterShares.end()) {
    return static_cast<std::uint32_t>(upper - kClusterShares.begin()) + 1;
  }
  if (share < kTailBend) {
    const double part = (share - kClusterShares.back()) / (kTailBend - kClusterShares.back());
    return static_cast<std::uint32_t>(8.0 * std::pow(17.0 / 8.0, part));
  }
  const double part = (share - kTailBend) / (1.0 - kTailBend);
  return static_cast<std::uint32_t>(17.0 * std::pow(61.0 / 17.0, part));
}

}  // namespace countwheel::drill
