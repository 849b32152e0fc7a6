// From a flow to orders with an expiry on the drill's own time.
#include "tools/drill/plan.h"

#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tools/drill/generator.h"

namespace countwheel::drill {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(Plan, OrdersAreSixtyDayThirtyGttTenGtd) {
  const Flow flow = generate(Preset::kEquity, 100'000, 1);
  const Plan plan = make_plan(flow, 1.0, 1);
  std::map<TimeInForce, double> shares;
  std::set<std::int64_t> delays;
  for (const PlannedOrder& order : plan.orders) {
    shares[order.time_in_force] += 1e-5;
    if (order.relative()) {
      delays.insert(order.deadline_ns);
    }
  }
  // Near the close a GTT order is capped by it and becomes one of the Day orders.
  EXPECT_NEAR(shares[TimeInForce::kDay], 0.65, 0.03);
  EXPECT_NEAR(shares[TimeInForce::kGoodTillTime], 0.25, 0.03);
  EXPECT_NEAR(shares[TimeInForce::kGoodTillDate], 0.10, 0.01);
  EXPECT_EQ(delays,
            (std::set<std::int64_t>{15 * kSecond, 18 * kSecond, 30 * kSecond, 60 * kSecond}));
}

TEST(Plan, NothingExpiresBehindTheClose) {
  const Flow flow = generate(Preset::kCrypto, 20'000, 1);
  const Plan plan = make_plan(flow, 1.0, 1);
  for (std::size_t i = 0; i < plan.orders.size(); ++i) {
    const PlannedOrder& order = plan.orders[i];
    const std::int64_t arrive_ns = flow.orders[i].arrive_ns;
    const std::int64_t due_ns =
        order.relative() ? arrive_ns + order.deadline_ns : order.deadline_ns;
    ASSERT_LE(due_ns, plan.close_ns);
    ASSERT_GT(due_ns, arrive_ns);
    if (order.time_in_force == TimeInForce::kDay) {
      ASSERT_EQ(due_ns, plan.close_ns);
    }
    if (order.time_in_force == TimeInForce::kGoodTillDate) {
      ASSERT_EQ(due_ns % kSecond, 0);
    }
  }
}

TEST(Plan, SpeedDividesArrivalsLivesAndDelays) {
  Flow flow;
  flow.close_ns = 100 * kSecond;
  flow.orders.push_back(
      {.arrive_ns = 10 * kSecond, .end_ns = 20 * kSecond, .quantity = 5, .end = LifeEnd::kFill});
  flow.reductions.push_back({.at_ns = 15 * kSecond, .quantity = 2, .order = 0});
  const Plan plan = make_plan(flow, 10.0, 1);
  ASSERT_EQ(plan.events.size(), 3U);
  EXPECT_EQ(plan.events[0].at_ns, kSecond);
  EXPECT_EQ(plan.events[0].kind, EventKind::kArrive);
  EXPECT_EQ(plan.events[1].at_ns, kSecond * 3 / 2);
  EXPECT_EQ(plan.events[1].kind, EventKind::kReduce);
  EXPECT_EQ(plan.events[2].at_ns, 2 * kSecond);
  EXPECT_EQ(plan.events[2].kind, EventKind::kFill);
  EXPECT_EQ(plan.close_ns, 10 * kSecond);
}

TEST(Plan, LivesThatReachTheCloseRest) {
  Flow flow;
  flow.close_ns = 100 * kSecond;
  flow.orders.push_back({.arrive_ns = 0, .end_ns = 100 * kSecond, .end = LifeEnd::kCancel});
  const Plan plan = make_plan(flow, 1.0, 1);
  EXPECT_EQ(plan.events.size(), 1U);
}

TEST(Plan, AnOrderArrivesBeforeAnythingHappensToIt) {
  const Flow flow = generate(Preset::kEquity, 20'000, 3);
  const Plan plan = make_plan(flow, 1e6, 3);  // So fast that lives shrink to one instant.
  std::set<std::uint32_t> arrived;
  std::int64_t last_ns = 0;
  for (const PlannedEvent& event : plan.events) {
    ASSERT_GE(event.at_ns, last_ns);
    last_ns = event.at_ns;
    if (event.kind == EventKind::kArrive) {
      arrived.insert(event.order);
    } else {
      ASSERT_TRUE(arrived.contains(event.order));
    }
  }
}

TEST(Plan, TheDefaultSpeedGivesSixteenSecondsForTwoHundredThousandOrders) {
  Flow flow = generate(Preset::kEquity, 200'000, 1);
  EXPECT_NEAR(static_cast<double>(make_plan(flow, default_speed(flow), 1).close_ns), 16e9, 1e6);
  flow.orders.resize(2'000);
  EXPECT_NEAR(static_cast<double>(make_plan(flow, default_speed(flow), 1).close_ns), 8e9, 1e6);
}

}  // namespace
}  // namespace countwheel::drill
