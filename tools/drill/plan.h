// Plan: a flow with an expiry for every order, on the drill's own time.
//
// Every order gets one of three instructions, in the shares of a retail-heavy market:
//   60 %  Day: expires when the session closes, together with all the others.
//   30 %  GTT, good till time: 15, 18, 30 or 60 s after it arrived; a shared constant, because the
//         recorded flow shows clients with just these timers.
//   10 %  GTD, good till date: on a whole second somewhere in the rest of the session.
// The earlier of its own deadline and the close counts, as at the venues. Day and GTD are instants
// of the wall clock (`at`), GTT is a delay (`after`): both wheels get work.
//
// `speed` divides arrivals, lives and delays alike, so a long session becomes a short drill.
#ifndef COUNTWHEEL_TOOLS_DRILL_PLAN_H_
#define COUNTWHEEL_TOOLS_DRILL_PLAN_H_

#include <cstdint>
#include <vector>

#include "flow.h"

namespace countwheel::drill {

enum class TimeInForce : std::uint8_t { kDay = 0, kGoodTillTime = 1, kGoodTillDate = 2 };

struct PlannedOrder {
  // Day and GTD: nanoseconds after the start of the drill. GTT: of delay.
  std::int64_t deadline_ns = 0;
  std::int64_t price = 0;
  std::int64_t quantity = 0;
  TimeInForce time_in_force = TimeInForce::kDay;
  bool buy = false;

  // `after` and not `at`.
  bool relative() const noexcept { return time_in_force == TimeInForce::kGoodTillTime; }
};

enum class EventKind : std::uint8_t { kArrive = 0, kReduce = 1, kFill = 2, kCancel = 3 };

// What the market does to an order. Expiry is not here: that is what the drill is about.
struct PlannedEvent {
  std::int64_t at_ns = 0;     // after the start of the drill
  std::int64_t quantity = 0;  // of kReduce
  std::uint32_t order = 0;
  EventKind kind = EventKind::kArrive;
  bool traded = false;  // of kReduce: a partial fill
};

struct Plan {
  std::vector<PlannedOrder> orders;  // ascending by arrival
  std::vector<PlannedEvent> events;  // ascending by time, all before the close
  std::int64_t close_ns = 0;
  double speed = 1.0;
};

// How fast a flow must go for a session of orders / 12,500 seconds, but at least 8 seconds.
double default_speed(const Flow& flow);

// Pure: the same seed gives the same plan. REQUIRES: speed > 0.
Plan make_plan(const Flow& flow, double speed, std::uint64_t seed);

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_PLAN_H_
