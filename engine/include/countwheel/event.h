// Event: the end of a task, told to one listener.
//
// Every task whose end is recorded gets one event, in the order of the records, also a task that
// was scheduled and cancelled without ever reaching the log. Events tell of this process life
// alone: after a crash the last ones may be missing or come again, so what a listener keeps is a
// view; the state of the engine is the truth.
#ifndef COUNTWHEEL_EVENT_H_
#define COUNTWHEEL_EVENT_H_

#include <cstdint>
#include <functional>
#include <string>

#include <countwheel/task.h>

namespace countwheel {

struct Event {
  enum class Kind : std::uint8_t {
    kDone,
    kCancelled,
    kDead,      // It is a dead letter from now on; requeue() and purge() are no events.
    kReplaced,  // It ran, failed, and its key has a new task.
  };

  Kind kind = Kind::kDone;
  DeadReason reason = DeadReason::kNone;  // of kDead
  std::uint64_t sequence = 0;             // 1, 2, ... without gaps
  TaskId id;
  // Of the record. Members of a cancelled group have the LSN of that one record and are told as the
  // tick thread comes to them; all other events ascend by it.
  Lsn lsn;
  std::string type;
  std::string key;
};
std::string_view to_string(Event::Kind kind) noexcept;

using Listener = std::function<void(const Event&)>;

}  // namespace countwheel

#endif  // COUNTWHEEL_EVENT_H_
