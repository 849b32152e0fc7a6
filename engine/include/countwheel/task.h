// The vocabulary: what a task is and how it is named.
//
// A task is a type (which handler), a deadline (when), and optionally a key (to find it again) and
// a payload (bytes for the handler). Scheduling gives it an id that is never used again, not even
// after a crash.
//
//   engine.schedule({.type = "order.expire",
//                    .deadline = countwheel::after(std::chrono::minutes(30)),
//                    .key = "order-42",
//                    .payload = "XNAS:AAPL"});
#ifndef COUNTWHEEL_TASK_H_
#define COUNTWHEEL_TASK_H_

#include <chrono>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace countwheel {

// {generation 32, index 32}. The index is the task's place in the table, the generation tells its
// tenants apart. The value 0 is no task.
struct TaskId {
  std::uint64_t value = 0;

  constexpr std::uint32_t index() const noexcept { return static_cast<std::uint32_t>(value); }
  constexpr std::uint32_t generation() const noexcept {
    return static_cast<std::uint32_t>(value >> 32);
  }
  static constexpr TaskId of(std::uint32_t index, std::uint32_t generation) noexcept {
    return {std::uint64_t{generation} << 32 | index};
  }
  explicit constexpr operator bool() const noexcept { return value != 0; }
  friend constexpr auto operator<=>(TaskId, TaskId) noexcept = default;
};

struct RetryPolicy;  // retry.h
struct Recurrence;   // recurrence.h

// Position of an operation in the log: dense, monotone, never reused. 0 is "before the first".
struct Lsn {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(Lsn, Lsn) noexcept = default;
};

// How far an operation has travelled when its call returns. Compare write() and fsync():
//   kMemory  accepted; lost by a crash of the process before the next group commit (< 1 ms).
//   kOs      after write(): survives kill -9, may be lost by a power failure within 100 ms.
//   kDisk    after fsync(): survives power loss, as far as the disk tells the truth.
enum class Durability : std::uint8_t { kMemory = 0, kOs = 1, kDisk = 2 };
std::string_view to_string(Durability durability) noexcept;

// Which clock a deadline is on.
enum class ClockKind : std::uint8_t {
  kWall = 0,  // CLOCK_REALTIME: `at(t)` follows the wall, also when it is stepped.
  kBoot = 1,  // CLOCK_BOOTTIME: `after(d)` counts suspend and is immune to steps.
};

// What a schedule does when a live task has its key.
enum class KeyPolicy : std::uint8_t {
  kReject = 0,  // Answers `exists` with the id of the live task, which is unchanged.
  // Moves the live task in place: same id, new deadline and payload, no failures; attempts go on.
  kReplace = 1,
  kKeep = 2,  // Answers ok with the id of the live task, which is unchanged.
};

// The states of a task and who moves it (docs/architecture.md draws them):
//   from        to          by
//   (absent)    scheduled   schedule()
//   scheduled   scheduled   reschedule(), an upsert, a rolled back cancel
//   scheduled   running     a worker, when the task is due and durable
//   scheduled   cancelled   cancel()
//   running     done        the handler succeeded
//   running     scheduled   a failed attempt, with its backoff
//   running     dead        the last failed attempt, or too many crashes
// Cancelled and done tasks are gone; dead ones stay as dead letters.
enum class State : std::uint8_t {
  kFree = 0,
  kMoving = 1,  // Held for a few nanoseconds while a deadline is rewritten.
  kScheduled = 2,
  kRunning = 3,
  kCancelled = 4,
  kDone = 5,
  kDead = 6,
};
std::string_view to_string(State state) noexcept;

// Why a task is a dead letter. The values are persistent: do not change existing ones.
enum class DeadReason : std::uint8_t {
  kNone = 0,      // It is none.
  kAttempts = 1,  // RetryPolicy::max_attempts failures.
  kCrash = 2,     // RetryPolicy::max_crashes processes ended during its attempts.
  kTimeout = 3,   // The next attempt would have been beyond RetryPolicy::total_timeout.
  kLate = 4,      // It could not start within its max_lateness.
  kMissed = 5,    // It fell due while no process had the log (MisfirePolicy::bury).
};
inline constexpr DeadReason kLastDeadReason = DeadReason::kMissed;
std::string_view to_string(DeadReason reason) noexcept;

using WallTime = std::chrono::sys_time<std::chrono::nanoseconds>;

// When a task is due: an instant of the wall clock or a delay from the moment of the call.
// Built by at(), after() and at_unix_ns(); a bare integer does not convert.
class Deadline {
 public:
  enum class Kind : std::uint8_t { kWall, kDelay, kRawWall, kNotRepresentable };

  constexpr Deadline() noexcept = default;  // a delay of zero: due now
  constexpr Deadline(Kind kind, std::int64_t ns) noexcept : kind_(kind), ns_(ns) {}

  constexpr Kind kind() const noexcept { return kind_; }
  constexpr std::int64_t ns() const noexcept { return ns_; }
  constexpr ClockKind clock() const noexcept {
    return kind_ == Kind::kDelay ? ClockKind::kBoot : ClockKind::kWall;
  }

 private:
  Kind kind_ = Kind::kDelay;
  std::int64_t ns_ = 0;
};

namespace detail {

// Wide enough for any count of any unit in nanoseconds. A compiler's extension, and marked as one.
__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): cannot be marked.

// A duration in nanoseconds, or nothing when it is NaN or does not fit 64 bits.
template <class Rep, class Period>
constexpr std::optional<std::int64_t> to_ns(std::chrono::duration<Rep, Period> d) noexcept {
  using Ratio = std::ratio_divide<Period, std::nano>;
  if constexpr (std::is_floating_point_v<Rep>) {
    const double ns = static_cast<double>(d.count()) * Ratio::num / Ratio::den;
    if (!(ns > -9.2e18 && ns < 9.2e18)) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(std::ceil(ns));
  } else {
    const Wide product = static_cast<Wide>(d.count()) * Ratio::num;
    // Rounded up: never early.
    const Wide ns = product / Ratio::den + (product % Ratio::den > 0 ? 1 : 0);
    if (ns > std::numeric_limits<std::int64_t>::max() ||
        ns < std::numeric_limits<std::int64_t>::min()) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(ns);
  }
}

}  // namespace detail

// Due when the wall clock reads `time` (UTC). Follows the wall when it is stepped.
template <class Duration>
constexpr Deadline at(std::chrono::time_point<std::chrono::system_clock, Duration> time) noexcept {
  const std::optional<std::int64_t> ns = detail::to_ns(time.time_since_epoch());
  return ns ? Deadline(Deadline::Kind::kWall, *ns) : Deadline(Deadline::Kind::kNotRepresentable, 0);
}

// Due when `delay` has passed, suspend included. Zero or negative: due now.
template <class Rep, class Period>
constexpr Deadline after(std::chrono::duration<Rep, Period> delay) noexcept {
  const std::optional<std::int64_t> ns = detail::to_ns(delay);
  return ns ? Deadline(Deadline::Kind::kDelay, *ns)
            : Deadline(Deadline::Kind::kNotRepresentable, 0);
}

// For tools and foreign interfaces that only have an integer: nanoseconds since 1970, UTC. Values
// outside [now - 10 years, now + 100 years] are refused as `suspicious_unit`: they are seconds,
// milliseconds or microseconds.
constexpr Deadline at_unix_ns(std::int64_t ns) noexcept {
  return Deadline(Deadline::Kind::kRawWall, ns);
}

// What to schedule. Views need to live only until the call returns.
struct TaskSpec {
  std::string_view type;  // 1 to 64 bytes; names the handler
  Deadline deadline;
  std::string_view key = {};      // up to 1,024 bytes; empty is no key
  std::string_view payload = {};  // up to 1 MiB (EngineOptions::max_payload_bytes)
  KeyPolicy key_policy = KeyPolicy::kReject;
  std::optional<Durability> durability = {};           // EngineOptions::durability if not given
  std::optional<std::chrono::nanoseconds> slack = {};  // TypePolicy's if not given
  // Later than this after its deadline the task is not run any more: it becomes a dead letter with
  // reason `late`. TypePolicy's if not given; 0 is no limit.
  std::optional<std::chrono::nanoseconds> max_lateness = {};
  const RetryPolicy* retry = nullptr;  // TypePolicy's if null
  // What it can be cancelled, moved and paused together with: a session, a symbol. 0 is none.
  std::uint64_t group = 0;
  const Recurrence* recurrence = nullptr;  // null: it runs once
  // How long after it is done its key is still refused, as `duplicate`: for callers that may call
  // twice. Survives crashes; needs a key. A task that dies or is cancelled frees its key at once.
  // Price: key and some 200 bytes of memory for the time.
  std::chrono::nanoseconds dedup_window{0};
};

// A copy of what the table knows about one task.
struct TaskInfo {
  TaskId id;
  State state = State::kFree;
  ClockKind clock = ClockKind::kWall;
  std::string type;
  std::string key;
  std::string payload;
  WallTime deadline;  // on the wall clock, for `after` tasks as computed at the call
  std::int64_t boot_deadline_ns = 0;  // of `after` tasks, in this session
  Lsn order_lsn;                      // orders equal deadlines
  std::uint32_t attempts = 0;         // starts so far
  std::uint32_t failures = 0;
  std::uint32_t crashes = 0;
  std::string last_error;
  DeadReason dead_reason = DeadReason::kNone;
  WallTime died_at = {};      // of dead letters
  TaskId requeued_from = {};  // the dead letter it was made of
  std::uint64_t group = 0;
  std::uint64_t runs = 0;  // of a recurring task that have ended
};

}  // namespace countwheel

#endif  // COUNTWHEEL_TASK_H_
