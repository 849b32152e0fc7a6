#include "plan.h"

#include <algorithm>
#include <array>

#include <countwheel/assert.h>

#include "random.h"

namespace countwheel::drill {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr double kDayShare = 0.6;
constexpr double kGoodTillTimeShare = 0.3;
constexpr std::array<std::int64_t, 4> kGoodTillTimeSeconds = {15, 18, 30, 60};
constexpr double kOrdersPerSecond = 12'500.0;
constexpr double kMinSessionSeconds = 8.0;

// In the market's time; the plan divides by the speed afterwards.
PlannedOrder with_expiry(const OrderLife& life, std::int64_t close_ns, Random& random) {
  PlannedOrder order{
      .deadline_ns = close_ns, .price = life.price, .quantity = life.quantity, .buy = life.buy};
  const double share = random.uniform();
  const std::uint64_t constant = random.below(kGoodTillTimeSeconds.size());
  const double part = random.uniform();
  if (share < kDayShare) {
    return order;
  }
  if (share < kDayShare + kGoodTillTimeShare) {
    const std::int64_t delay_ns = kGoodTillTimeSeconds[constant] * kSecond;
    if (life.arrive_ns + delay_ns < close_ns) {
      order.time_in_force = TimeInForce::kGoodTillTime;
      order.deadline_ns = delay_ns;
    }
    return order;
  }
  const auto wait_ns = static_cast<std::int64_t>(
      part * static_cast<double>(std::max<std::int64_t>(close_ns - life.arrive_ns, 0)));
  order.time_in_force = TimeInForce::kGoodTillDate;
  order.deadline_ns = std::min(close_ns, ((life.arrive_ns + wait_ns) / kSecond + 1) * kSecond);
  return order;
}

}  // namespace

double default_speed(const Flow& flow) {
  const double session_seconds =
      std::max(kMinSessionSeconds, static_cast<double>(flow.orders.size()) / kOrdersPerSecond);
  return static_cast<double>(flow.close_ns) / static_cast<double>(kSecond) / session_seconds;
}

Plan make_plan(const Flow& flow, double speed, std::uint64_t seed) {
  COUNTWHEEL_ASSERT(speed > 0.0);
  // The seed of the flow is the user's too; the same stream twice would tie lives to expiries.
  Random random(seed ^ 0x9e3779b97f4a7c15U);
  const auto scaled = [speed](std::int64_t ns) {
    return static_cast<std::int64_t>(static_cast<double>(ns) / speed);
  };
  Plan plan;
  plan.speed = speed;
  plan.close_ns = scaled(flow.close_ns);
  plan.orders.reserve(flow.orders.size());
  plan.events.reserve(2 * flow.orders.size() + flow.reductions.size());
  for (std::uint32_t i = 0; i < flow.orders.size(); ++i) {
    const OrderLife& life = flow.orders[i];
    PlannedOrder order = with_expiry(life, flow.close_ns, random);
    order.deadline_ns = scaled(order.deadline_ns);
    plan.orders.push_back(order);
    plan.events.push_back(
        {.at_ns = scaled(life.arrive_ns), .order = i, .kind = EventKind::kArrive});
    if (life.end != LifeEnd::kRests && life.end_ns < flow.close_ns) {
      plan.events.push_back(
          {.at_ns = scaled(life.end_ns),
           .order = i,
           .kind = life.end == LifeEnd::kFill ? EventKind::kFill : EventKind::kCancel});
    }
  }
  for (const Reduction& reduction : flow.reductions) {
    if (reduction.at_ns < flow.close_ns) {
      plan.events.push_back({.at_ns = scaled(reduction.at_ns),
                             .quantity = reduction.quantity,
                             .order = reduction.order,
                             .kind = EventKind::kReduce,
                             .traded = reduction.traded});
    }
  }
  // An order arrives before anything happens to it, also when speed makes both the same instant.
  std::stable_sort(
      plan.events.begin(), plan.events.end(), [](const PlannedEvent& a, const PlannedEvent& b) {
        return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.kind < b.kind;
      });
  return plan;
}

}  // namespace countwheel::drill
