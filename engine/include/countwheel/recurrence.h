// Recurrence: when a chain of runs goes on, as a pure function.
//
//   Recurrence::rate(5min)      // due, due + 5 min, due + 10 min, ...
//   Recurrence::delay(5min)     // 5 min after the run before was done
//
// A chain is one task: one id, one key, one cancel ends it. Days, zones and calendars are the
// caller's: for those schedule the next run from the handler (docs/examples/session_close.cc).
#ifndef COUNTWHEEL_RECURRENCE_H_
#define COUNTWHEEL_RECURRENCE_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include <countwheel/status.h>
#include <countwheel/task.h>

namespace countwheel {

struct Recurrence {
  // The values are persistent: do not change existing ones.
  enum class Kind : std::uint8_t {
    kRate = 0,   // by the deadline of the run before
    kDelay = 1,  // by the end of the run before
  };
  // What becomes of runs of a kRate chain that were missed: the process was down, or a run took
  // longer than the period. The values are persistent.
  enum class CatchUp : std::uint8_t {
    kOnce = 0,  // One run for all of them, at once; then the next that is not past.
    kSkip = 1,  // None: a run that would be late by a period or more is left out.
    kAll = 2,   // One run each, one after the other.
  };

  Kind kind = Kind::kRate;
  std::chrono::nanoseconds period{0};  // 1 ns to 10 years
  CatchUp catch_up = CatchUp::kOnce;
  // No run has a deadline after this. Default: none.
  std::optional<WallTime> until = {};
  // Runs altogether; those left out do not count. Default: 0, no limit.
  std::uint64_t count = 0;

  static Recurrence rate(std::chrono::nanoseconds period, CatchUp catch_up = CatchUp::kOnce);
  static Recurrence delay(std::chrono::nanoseconds period);
};

// Names the field, the value given and the values allowed.
Status validate(const Recurrence& recurrence);

// The deadline after `due_ns`, on the same clock as `now_ns`; nothing when it does not fit 64 bits.
// `until` and `count` are the caller's to look at.
std::optional<std::int64_t> next_deadline(const Recurrence& recurrence,
                                          std::int64_t due_ns,
                                          std::int64_t now_ns) noexcept;

}  // namespace countwheel

#endif  // COUNTWHEEL_RECURRENCE_H_
