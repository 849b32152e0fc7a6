// Attributes: what only some tasks have, kept beside the node and behind the record.
//
// Encoded as {tag:1 value:8} pairs, little-endian, in ascending order of tags; the delays of a
// retry list repeat their tag. The log keeps the bytes and does not look into them.
#ifndef COUNTWHEEL_ENGINE_ATTRIBUTES_H_
#define COUNTWHEEL_ENGINE_ATTRIBUTES_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <countwheel/recurrence.h>
#include <countwheel/retry.h>
#include <countwheel/status.h>
#include <countwheel/task.h>

namespace countwheel::detail {

// When a task is due.
struct DueTime {
  ClockKind clock = ClockKind::kWall;
  std::int64_t deadline_ns = 0;  // on its clock
  std::int64_t wall_ns = 0;
};

// Deadline on the boot clock of what is restored from another session, until the clocks are known.
inline constexpr std::int64_t kForeignDeadline = std::numeric_limits<std::int64_t>::min();

struct Attributes {
  std::optional<RetryPolicy> retry;             // instead of its type's
  std::optional<std::int64_t> max_lateness_ns;  // instead of its type's
  // The deadline of its first attempt on the wall, once it has failed with a total timeout; 0 else.
  std::int64_t first_due_wall_ns = 0;
  TaskId requeued_from;
  std::uint64_t group = 0;
  std::int64_t dedup_window_ns = 0;
  // Of a done task that is kept for its window: its end.
  std::int64_t done_until_wall_ns = 0;
  std::optional<Recurrence> recurrence;
  std::uint64_t run = 0;           // of the next attempt; numbers of attempts start over with it
  std::uint64_t runs = 0;          // that have ended, those left out apart
  std::optional<DueTime> run_due;  // of a recurring run that is tried again
  // Of dead letters.
  std::int64_t died_wall_ns = 0;
  DeadReason reason = DeadReason::kNone;

  bool empty() const noexcept {
    return !retry && !max_lateness_ns && first_due_wall_ns == 0 && !requeued_from && group == 0 &&
           dedup_window_ns == 0 && done_until_wall_ns == 0 && !recurrence && run == 0 &&
           died_wall_ns == 0 && reason == DeadReason::kNone;
  }
};

// Longer lists are refused: what is encoded stays below 1 KiB.
inline constexpr std::size_t kRetryDelaysMax = 64;

std::string encode(const Attributes& attributes);

// `version` for a tag this build does not know, `corrupt` for anything else that makes no sense.
Result<Attributes> decode_attributes(std::string_view bytes);

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_ATTRIBUTES_H_
