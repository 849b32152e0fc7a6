// The tables and their inverses, and what is drawn from them.
#include "tools/drill/quantiles.h"

#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

namespace countwheel::drill {
namespace {

TEST(Quantiles, TableValuesAreReproducedAtTheirQuantiles) {
  for (const FlowTables* tables : {&kEquityTables, &kCryptoTables}) {
    for (std::size_t i = 0; i < kQuantileCount; ++i) {
      const double share = kQuantilePercents[i] / 100.0;
      EXPECT_NEAR(
          quantile(tables->cancel_ms, share), tables->cancel_ms[i], tables->cancel_ms[i] * 1e-6);
      EXPECT_NEAR(quantile(tables->fill_ms, share), tables->fill_ms[i], tables->fill_ms[i] * 1e-6);
    }
  }
}

TEST(Quantiles, BetweenQuantilesTheLogarithmIsLinear) {
  // Half way from p50 = 373.5735 ms to p60 = 740.9449 ms.
  EXPECT_NEAR(quantile(kEquityTables.cancel_ms, 0.55), std::sqrt(373.5735 * 740.9449), 1e-3);
}

TEST(Quantiles, BeyondTheTableTheEndsAreKept) {
  EXPECT_DOUBLE_EQ(quantile(kEquityTables.cancel_ms, 0.0), 0.0704);
  EXPECT_DOUBLE_EQ(quantile(kEquityTables.cancel_ms, 1.0), 2027710.5369);
}

TEST(Quantiles, AZeroGapIsATwentiethOfAMicrosecond) {
  EXPECT_DOUBLE_EQ(quantile(kEquityTables.interarrival_us, 0.0005), 0.05);
}

TEST(Quantiles, SharesAreTheInverseOfQuantiles) {
  for (double share = 0.002; share < 0.999; share += 0.0137) {
    const double value = quantile(kEquityTables.cancel_ms, share);
    EXPECT_NEAR(share_below(kEquityTables.cancel_ms, value), share, 1e-9);
  }
  EXPECT_EQ(share_below(kEquityTables.cancel_ms, 0.01), 0.0);
  EXPECT_EQ(share_below(kEquityTables.cancel_ms, 1e12), 1.0);
}

TEST(Quantiles, FillsAreSevenAndTwoPercent) {
  EXPECT_NEAR(kEquityTables.fill_share(), 0.067, 0.001);
  EXPECT_NEAR(kCryptoTables.fill_share(), 0.0225, 0.001);
}

TEST(Quantiles, ClustersHaveTheMeasuredShape) {
  // Measured: mean 1.57, p99 7, p99.9 16, greatest 60; 72 % of clusters are a single order.
  double sum = 0;
  std::uint32_t greatest = 0;
  constexpr std::uint32_t kDraws = 1'000'000;
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    const std::uint32_t size = cluster_size((i + 0.5) / kDraws);
    ASSERT_GE(size, 1U);
    sum += size;
    greatest = std::max(greatest, size);
  }
  EXPECT_NEAR(sum / kDraws, 1.57, 0.02);
  EXPECT_EQ(cluster_size(0.70), 1U);
  EXPECT_EQ(cluster_size(0.99), 7U);
  EXPECT_NEAR(cluster_size(0.999), 16U, 1U);
  EXPECT_EQ(greatest, 60U);
}

}  // namespace
}  // namespace countwheel::drill
