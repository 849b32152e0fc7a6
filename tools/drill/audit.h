// Audit: was a promise broken? A pure function over the history of a drill.
//
//   lost          acknowledged where kill -9 cannot take it back, and neither started to its end
//                 nor cancelled by the end of the drill
//   duplicated    more starts than 1 + one for each kill that found it started and not durably done
//   early         a start before the deadline on the clock of the deadline: before the instant of
//                 `at`, before the begin of the call plus the delay of `after`
//   revived       a start after the begin of a cancel that was answered `cancelled`
//   inconsistent  revived, and whatever else does not fit: sums, sequence of stamps, the book,
//                 attempts that do not rise, a payload that is not the one scheduled
//   unknown       scheduled, never answered and never started: either fate is legal
//
// Nothing here knows the engine: the audit judges what witnesses saw.
#ifndef COUNTWHEEL_TOOLS_DRILL_AUDIT_H_
#define COUNTWHEEL_TOOLS_DRILL_AUDIT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <countwheel/task.h>

#include "book.h"
#include "stamp.h"

namespace countwheel::drill {

// What the parent knows about an order without asking the service.
struct OrderTruth {
  std::int64_t deadline_ns = 0;            // of `at`: on the wall; of `after`: the delay
  bool relative = false;                   // `after`
  OrderState state = OrderState::kAbsent;  // in the book, at the end
  bool at_close = false;                   // due together with all the others that rest until then
};

struct History {
  std::span<const Stamp> stamps;  // in the order of the ring; kKill separates the lives
  std::span<const OrderTruth> orders;
  // Acknowledged at this level. Below kOs an acknowledgement is no promise against kill -9.
  Durability durability = Durability::kDisk;
};

struct LatenessUs {
  std::uint64_t count = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;
};

struct Verdict {
  // Orders whose schedule call began: scheduled = cancelled + filled + expired + unknown.
  std::uint64_t scheduled = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t filled = 0;
  std::uint64_t expired = 0;
  std::uint64_t unknown = 0;
  // Orders that ended while the service was away, before the gateway could send them.
  std::uint64_t never_sent = 0;
  std::uint64_t redelivered = 0;  // starts after the first of their order

  std::uint64_t lost = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t early = 0;
  std::uint64_t inconsistent = 0;
  std::uint64_t revived = 0;  // of inconsistent

  LatenessUs lateness_us;             // of first starts that fell due while the service was up
  LatenessUs session_us;              // of these, before the close
  LatenessUs close_us;                // of these, at the close: a herd due in one instant
  LatenessUs overdue_us;              // of those that fell due while it was away
  std::vector<std::string> problems;  // the first few, for people

  bool ok() const noexcept {
    return lost == 0 && duplicated == 0 && early == 0 && inconsistent == 0;
  }
  // Counts what is inconsistent and keeps the text if there is room.
  void add_inconsistency(const std::string& text);
};

Verdict audit(const History& history);

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_AUDIT_H_
