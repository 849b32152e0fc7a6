// The presets reproduce what was measured on the recordings. The seed is printed and settable.
#include "tools/drill/generator.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

#include "tools/drill/quantiles.h"

namespace countwheel::drill {
namespace {

std::uint64_t seed() {
  const char* text = std::getenv("COUNTWHEEL_SEED");
  const std::uint64_t value = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  testing::Test::RecordProperty("seed", std::to_string(value));
  return value;
}

double quantile_of(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

std::vector<double> lives_ms(const Flow& flow, LifeEnd end) {
  std::vector<double> lives;
  for (const OrderLife& life : flow.orders) {
    if (life.end == end) {
      lives.push_back(static_cast<double>(life.end_ns - life.arrive_ns) / 1e6);
    }
  }
  return lives;
}

double mean_gap_ns(const Flow& flow) {
  return static_cast<double>(flow.orders.back().arrive_ns) /
         static_cast<double>(flow.orders.size() - 1);
}

void expect_lives(const Flow& flow, const FlowTables& tables) {
  const std::vector<double> cancels = lives_ms(flow, LifeEnd::kCancel);
  for (const double share : {0.05, 0.25, 0.5, 0.75, 0.9, 0.95}) {
    const double expected = quantile(tables.cancel_ms, share);
    EXPECT_NEAR(quantile_of(cancels, share), expected, expected * 0.12) << "at " << share;
  }
  const std::vector<double> fills = lives_ms(flow, LifeEnd::kFill);
  const auto both = static_cast<double>(cancels.size() + fills.size());
  EXPECT_EQ(static_cast<std::size_t>(both), flow.orders.size());
  EXPECT_NEAR(static_cast<double>(fills.size()) / both, tables.fill_share(), 0.004);
}

TEST(Generator, EquityLivesFollowTheTables) {
  expect_lives(generate(Preset::kEquity, 100'000, seed()), kEquityTables);
}

TEST(Generator, CryptoLivesFollowTheTables) {
  expect_lives(generate(Preset::kCrypto, 100'000, seed()), kCryptoTables);
}

TEST(Generator, OneStockArrivesInTheMeasuredGapsAndClusters) {
  // One symbol has 2,000 orders; fifty seeds make the sample.
  std::vector<double> gaps_us;
  std::vector<double> clusters;
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Flow flow = generate(Preset::kEquity, kOrdersPerSymbol, seed() + i);
    double cluster = 1;
    for (std::size_t n = 1; n < flow.orders.size(); ++n) {
      const double gap_us =
          static_cast<double>(flow.orders[n].arrive_ns - flow.orders[n - 1].arrive_ns) / 1e3;
      gaps_us.push_back(gap_us);
      if (gap_us <= 1000.0) {
        cluster += 1;
      } else {
        clusters.push_back(cluster);
        cluster = 1;
      }
    }
  }
  for (const double share : {0.05, 0.25, 0.5, 0.75, 0.9}) {
    const double expected = quantile(kEquityTables.interarrival_us, share);
    EXPECT_NEAR(quantile_of(gaps_us, share), expected, expected * 0.2) << "at " << share;
  }
  double sum = 0;
  for (const double cluster : clusters) {
    sum += cluster;
  }
  // Measured: 12.3 orders a second, clusters of 1.57 in the mean, 7 at p99.
  EXPECT_NEAR(sum / static_cast<double>(clusters.size()), 1.57, 0.08);
  EXPECT_NEAR(quantile_of(clusters, 0.99), 7, 1);
}

TEST(Generator, TheMarketIsBusierAndTheSessionAsLongWhenThereAreMoreOrders) {
  const Flow small = generate(Preset::kEquity, 20'000, seed());
  const Flow large = generate(Preset::kEquity, 200'000, seed());
  EXPECT_NEAR(mean_gap_ns(small) / mean_gap_ns(large), 10.0, 1.5);
  EXPECT_NEAR(static_cast<double>(large.close_ns) / 163e9, 1.0, 0.15);
}

TEST(Generator, CryptoArrivesWithoutClusters) {
  const Flow flow = generate(Preset::kCrypto, kOrdersPerSymbol, seed());
  // Measured: 1.36 orders a second.
  EXPECT_NEAR(1e9 / mean_gap_ns(flow), 1.36, 0.2);
}

TEST(Generator, TheHerdRestsUntilTheClose) {
  const Flow flow = generate(Preset::kSessionClose, 50'000, seed());
  const auto resting = std::count_if(flow.orders.begin(), flow.orders.end(), [](const auto& life) {
    return life.end == LifeEnd::kRests;
  });
  EXPECT_NEAR(static_cast<double>(resting) / 50'000.0, 0.8, 0.01);
}

TEST(Generator, PartialFillsAreAboutOnePointThreePercent) {
  const Flow flow = generate(Preset::kEquity, 100'000, seed());
  EXPECT_NEAR(static_cast<double>(flow.reductions.size()) / 100'000.0, 0.013, 0.0015);
  for (const Reduction& reduction : flow.reductions) {
    const OrderLife& life = flow.orders[reduction.order];
    EXPECT_GE(reduction.at_ns, life.arrive_ns);
    EXPECT_LE(reduction.at_ns, life.end_ns);
    EXPECT_LT(reduction.quantity, life.quantity);
  }
}

TEST(Generator, EveryFlowIsInOrderAndTheSameForItsSeed) {
  for (const Preset preset : {Preset::kEquity, Preset::kCrypto, Preset::kSessionClose}) {
    const Flow one = generate(preset, 5'000, 7);
    const Flow same = generate(preset, 5'000, 7);
    const Flow other = generate(preset, 5'000, 8);
    ASSERT_EQ(one.orders.size(), 5'000U);
    EXPECT_EQ(one.orders.front().arrive_ns, 0);
    bool equal = true;
    bool different = false;
    for (std::size_t i = 0; i < one.orders.size(); ++i) {
      equal = equal && one.orders[i].end_ns == same.orders[i].end_ns &&
              one.orders[i].arrive_ns == same.orders[i].arrive_ns;
      different = different || one.orders[i].end_ns != other.orders[i].end_ns;
      if (i > 0) {
        ASSERT_GE(one.orders[i].arrive_ns, one.orders[i - 1].arrive_ns);
      }
    }
    EXPECT_TRUE(equal) << to_string(preset);
    EXPECT_TRUE(different) << to_string(preset);
    EXPECT_GT(one.close_ns, one.orders.back().arrive_ns);
  }
}

TEST(Generator, PresetsAreFoundByName) {
  EXPECT_EQ(preset_of("session-close"), Preset::kSessionClose);
  EXPECT_EQ(preset_of("equity-aapl"), std::nullopt);
}

}  // namespace
}  // namespace countwheel::drill
