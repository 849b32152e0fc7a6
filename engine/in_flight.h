// InFlight: one delivery that has started and whose end is not written yet. One for each attempt
// cell; a Delivery points at it.
#ifndef COUNTWHEEL_ENGINE_IN_FLIGHT_H_
#define COUNTWHEEL_ENGINE_IN_FLIGHT_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <countwheel/task.h>

#include "attributes.h"
#include "node.h"
#include "task_type.h"

namespace countwheel::detail {

// The number of the last attempt that a task can have: attempts are 16 bits in the log, and each is
// greater than the one before.
inline constexpr std::uint16_t kAttemptMax = 0xffff;

// AttemptCell::mark.
inline constexpr int kRunShift = 17;
inline std::uint64_t mark_of(std::uint64_t run, std::uint16_t attempt, bool finished) noexcept {
  return run << kRunShift | std::uint64_t{attempt} << 1 | (finished ? 1 : 0);
}

struct Lease;
struct Worker;

struct InFlight {
  TaskId id;
  Node* node = nullptr;
  TaskType* type = nullptr;
  Word running;  // the word while the handler runs
  std::int64_t lateness_ns = 0;
  std::uint64_t sequence = 0;
  std::uint32_t cell = 0;
  std::uint16_t attempt = 0;
  std::uint64_t run = 0;  // of a recurring task; attempts are counted within it
  bool overdue = false;
  std::int64_t wall_ns = 0;  // the deadline on the wall
  Lease* lease = nullptr;    // leases.h; owns this, if the type has a lease
  Worker* worker = nullptr;  // whose handler it was given to
  std::uint64_t call = 0;    // of that worker: which one
  int exceptions = 0;        // in flight when the handler was called
};

inline constexpr std::chrono::nanoseconds kLeaseMax = std::chrono::hours(24 * 30);

// How an attempt ended.
struct Outcome {
  enum class Kind : std::uint8_t {
    kDone,
    kFailed,
    kRetry,
    kKept,
    // It was not started at all.
    kCrashed,
    kLate,
    kLeftOut,
    kMissed,
    kMissedDropped,
  };
  Kind kind = Kind::kDone;
  std::int64_t delay_ns = 0;  // kRetry
  // kFailed, kRetry: why. kDone: what the application writes with it.
  std::string reason = {};
  std::optional<DueTime> until = {};  // kKept; if not given, as it was
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_IN_FLIGHT_H_
