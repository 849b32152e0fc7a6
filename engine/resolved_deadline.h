// ResolvedDeadline: when a task is due, on both clocks.
#ifndef COUNTWHEEL_ENGINE_RESOLVED_DEADLINE_H_
#define COUNTWHEEL_ENGINE_RESOLVED_DEADLINE_H_

#include <cstdint>

#include <countwheel/clock.h>
#include <countwheel/journal.h>

#include "node.h"

namespace countwheel::detail {

// A deadline made absolute on both clocks, against one reading of them.
struct ResolvedDeadline {
  ClockKind clock = ClockKind::kWall;
  std::int64_t wall_ns = 0;
  std::int64_t boot_ns = 0;
  bool overdue = false;

  std::int64_t on_clock() const noexcept { return clock == ClockKind::kBoot ? boot_ns : wall_ns; }
  // The rest of the content, and its place in the order, is left to the caller.
  void put_into(NodeContent* content) const noexcept;
  void put_into(Op* op) const noexcept;
};

// Never into the past, however far.
inline std::int64_t plus(std::int64_t base, std::int64_t by) noexcept {
  std::int64_t sum = 0;
  return __builtin_add_overflow(base, by, &sum) ? kNever - 1 : sum;
}

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_RESOLVED_DEADLINE_H_
