#include <countwheel/event.h>
#include <countwheel/journal.h>
#include <countwheel/stats.h>
#include <countwheel/task.h>

namespace countwheel {

std::string_view to_string(Durability durability) noexcept {
  switch (durability) {
    case Durability::kMemory:
      return "memory";
    case Durability::kOs:
      return "os";
    case Durability::kDisk:
      return "disk";
  }
  return "unknown";
}

std::string_view to_string(State state) noexcept {
  switch (state) {
    case State::kFree:
      return "free";
    case State::kMoving:
      return "moving";
    case State::kScheduled:
      return "scheduled";
    case State::kRunning:
      return "running";
    case State::kCancelled:
      return "cancelled";
    case State::kDone:
      return "done";
    case State::kDead:
      return "dead";
  }
  return "unknown";
}

std::string_view to_string(DeadReason reason) noexcept {
  switch (reason) {
    case DeadReason::kNone:
      return "none";
    case DeadReason::kAttempts:
      return "attempts";
    case DeadReason::kCrash:
      return "crash";
    case DeadReason::kTimeout:
      return "timeout";
    case DeadReason::kLate:
      return "late";
    case DeadReason::kMissed:
      return "missed";
  }
  return "unknown";
}

std::string_view to_string(Health health) noexcept {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kDegraded:
      return "degraded";
    case Health::kFailed:
      return "failed";
  }
  return "unknown";
}

std::string_view to_string(Event::Kind kind) noexcept {
  switch (kind) {
    case Event::Kind::kDone:
      return "done";
    case Event::Kind::kCancelled:
      return "cancelled";
    case Event::Kind::kDead:
      return "dead";
    case Event::Kind::kReplaced:
      return "replaced";
  }
  return "unknown";
}

}  // namespace countwheel
