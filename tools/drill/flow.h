// Flow: orders as a market saw them, before anybody gave them an expiry.
//
// Times are nanoseconds of the market's own time, counted from the first arrival. A flow comes from
// a generator (generator.h) or from a recording (bitstamp.h, lobster.h).
#ifndef COUNTWHEEL_TOOLS_DRILL_FLOW_H_
#define COUNTWHEEL_TOOLS_DRILL_FLOW_H_

#include <cstdint>
#include <string>
#include <vector>

namespace countwheel::drill {

// How an order's life ends if no expiry ends it before.
enum class LifeEnd : std::uint8_t {
  kRests = 0,  // Still there when the session closes.
  kCancel = 1,
  kFill = 2,
};

struct OrderLife {
  std::int64_t arrive_ns = 0;
  std::int64_t end_ns = 0;  // of kCancel and kFill
  std::int64_t price = 0;   // in the market's smallest unit
  std::int64_t quantity = 1;
  LifeEnd end = LifeEnd::kRests;
  bool buy = false;
};

// Less is open than before, and the order stays.
struct Reduction {
  std::int64_t at_ns = 0;
  std::int64_t quantity = 0;
  std::uint32_t order = 0;
  bool traded = true;  // a partial fill; otherwise a partial cancel
};

struct Flow {
  std::string name;                   // "equity", "bitstamp FILE"
  std::vector<OrderLife> orders;      // ascending by arrival
  std::vector<Reduction> reductions;  // ascending by time
  std::int64_t close_ns = 0;          // of the session; nothing arrives later
};

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_FLOW_H_
