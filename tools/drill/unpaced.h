// The unpaced phase: how many durable operations a second the whole engine takes on this disk.
//
// Order mix without a clock: tasks without a key and with a payload of 16 bytes, 100,000 resident,
// each schedule followed by one cancel; 17 % of the cancels aim at the last 1,000 orders, as real
// ones die within 10 ms, the others at the oldest. Operations that were elided, because schedule
// and cancel met in one group commit, are not counted: only what is in the log is durable work.
#ifndef COUNTWHEEL_TOOLS_DRILL_UNPACED_H_
#define COUNTWHEEL_TOOLS_DRILL_UNPACED_H_

#include <chrono>
#include <cstdint>
#include <string>

#include <countwheel/status.h>
#include <countwheel/task.h>

namespace countwheel::drill {

struct UnpacedOptions {
  std::string directory;  // is made, and belongs to the phase
  Durability durability = Durability::kDisk;
  std::uint64_t seed = 1;
  std::uint32_t resident_count = 100'000;
  std::chrono::milliseconds duration{2000};
};

struct UnpacedResult {
  std::uint64_t logged_ops = 0;
  std::uint64_t elided_ops = 0;
  std::uint64_t syncs = 0;
  double seconds = 0;

  double ops_per_second() const noexcept {
    return seconds > 0 ? static_cast<double>(logged_ops) / seconds : 0;
  }
  double elided_share() const noexcept {
    const std::uint64_t all = logged_ops + elided_ops;
    return all > 0 ? static_cast<double>(elided_ops) / static_cast<double>(all) : 0;
  }
};

Result<UnpacedResult> run_unpaced(const UnpacedOptions& options);

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_UNPACED_H_
