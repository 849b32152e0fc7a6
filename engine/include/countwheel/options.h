// Every knob of the engine: what it means, its default, its unit, and what it costs.
#ifndef COUNTWHEEL_OPTIONS_H_
#define COUNTWHEEL_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include <countwheel/status.h>
#include <countwheel/task.h>
#include <countwheel/wheel_options.h>

namespace countwheel {

// Who calls Engine::poll().
enum class Drive : std::uint8_t {
  kThreads = 0,  // The engine: a tick thread, a commit thread and a pool.
  kHost = 1,     // The host, on its own thread: no thread is started.
};

// What happens to due tasks once the log has failed and nothing can be recorded any more.
enum class FailurePolicy : std::uint8_t {
  kKeepFiring = 0,  // Durable tasks still run; they may run again after the restart.
  kStop = 1,        // No handler starts any more.
};

// What "now" is at start when the wall clock is behind the last time the log has seen.
enum class ClockPolicy : std::uint8_t {
  kFloor = 0,  // The last time seen, until the wall has caught up.
  kTrust = 1,  // The wall clock.
};

// How the tick thread waits for the next deadline. To be woken takes a machine some 30 us and more.
enum class Wait : std::uint8_t {
  kSleep = 0,   // Until the deadline.
  kHybrid = 1,  // Until shortly before it, by as much as wake-ups are seen to take; then as kSpin.
  kSpin = 2,    // Not at all: looks at the clock without end.
};

// What the tick thread is to the machine. What the kernel refuses is left out and reported in
// Stats::tick_thread_refused; the engine runs all the same.
struct TickThreadOptions {
  // Default: kSleep. kHybrid: on time within microseconds, for up to max_spin of processor time a
  // wake-up. kSpin: one core for itself.
  Wait wait = Wait::kSleep;

  // With kHybrid: the longest before a deadline that it looks at the clock instead of sleeping.
  // Default: 100 us. Unit: nanoseconds. Range: 0 to 10 ms. Raised: on time also on a machine that
  // is slow to wake, and more processor time there.
  std::chrono::nanoseconds max_spin = std::chrono::microseconds(100);

  // SCHED_FIFO with this priority; needs CAP_SYS_NICE or RLIMIT_RTPRIO.
  // Default: 0, the ordinary scheduler. Range: 0 to 99. Given: no other thread holds it up; with
  // kSpin it holds up what else is on its core.
  int realtime_priority = 0;

  // The core it stays on.
  // Default: -1, any. Range: -1 to 1023. Given: warm caches, and no other core when that is busy.
  int cpu = -1;

  // Keeps the memory of the whole process, as it is used, from being paged out (mlockall); needs
  // CAP_IPC_LOCK or RLIMIT_MEMLOCK.
  // Default: false. True: no page fault when it counts, and nothing left to page out.
  bool lock_memory = false;
};

struct EngineOptions {
  // -- Behaviour --

  // Levels, tick and precision of the wheels.
  // Default: 10 ms / 1 s / 1 h, exact. Unit: see wheel_options.h. A smaller tick sorts smaller runs
  // and cascades more often; lateness does not depend on it in exact precision.
  WheelOptions wheel = {};

  // How long any task may wait beyond its deadline so that wake-ups coalesce.
  // Default: 0. Unit: nanoseconds, kept in microseconds, at most 60 s. Raised: fewer wake-ups, more
  // lateness.
  std::chrono::nanoseconds slack{0};

  // How far a call has travelled when it returns, when the call does not say.
  // Default: kDisk. Lower: calls return sooner and a crash may lose what they did.
  Durability durability = Durability::kDisk;

  // Who drives the engine.
  // Default: kThreads. kHost: every call that waits commits the log itself.
  Drive drive = Drive::kThreads;

  // Default: kKeepFiring. kStop: nothing runs twice, but nothing runs.
  FailurePolicy on_journal_failure = FailurePolicy::kKeepFiring;

  // Default: kFloor. kTrust: a wall that was set back delays `at` tasks, also those already due.
  ClockPolicy clock_policy = ClockPolicy::kFloor;

  // How the tick thread waits and what the kernel gives it.
  // Default: it sleeps, and is a thread as any other.
  TickThreadOptions tick_thread = {};

  // -- Durability --

  // How long a batch that was only written may stay unsynced, also when the engine is idle.
  // Default: 100 ms. Range: 1 ms to 1 h. Raised: fewer fsyncs at `os`, more to lose in a power
  // failure.
  std::chrono::nanoseconds os_sync_bound = std::chrono::milliseconds(100);

  // How far ahead of a touch the log is told the deadline, and so how often at most: touch() within
  // it is neither logged nor waited for.
  // Default: 1 s. Range: 0 (every touch is logged) to 1 h. Raised: fewer records; after a restart a
  // touched task is later by up to this.
  std::chrono::nanoseconds touch_interval = std::chrono::seconds(1);

  // -- Performance --

  // Threads of the default pool that run handlers.
  // Default: 2. Range: [1, 1024]. Raised: more handlers at once, more memory and switching.
  std::size_t workers = 2;

  // Tasks to make room for before the first call.
  // Default: 0, at most max_pending_count. Unit: tasks. Raised: neither allocations nor page faults
  // of the table and the wheels later, some 100 bytes a task now. The table's share is spread over
  // its 16 shards as keys are; tasks without a key live in the shard of their thread.
  std::size_t reserve_count = 0;

  // -- Limits: going over is a Status, before anything is logged --

  // Live tasks, dead letters apart.
  // Default: 100 million. Over it schedule() answers `overloaded`.
  std::uint64_t max_pending_count = 100'000'000;

  // Attempts at a time, from the start of their handlers to the record of their end; what has to
  // wait is backlog and can be cancelled.
  // Default: 65,536, which is all there are. Range: 1 and more. Lower: less that may run twice
  // after a crash, and less at once for whoever the handlers call.
  std::size_t max_in_flight = 65'536;

  // Keys and payloads of live tasks together.
  // Default: 16 GiB. Unit: bytes. Over it schedule() answers `overloaded`.
  std::uint64_t max_pending_bytes = std::uint64_t{16} << 30;

  // Dead letters that are kept; the oldest go first.
  // Default: 1 million. Lower: less memory and log. 0 keeps none.
  std::size_t max_dead_count = 1'000'000;

  // How long a dead letter is kept. Looked at when the engine starts and when a letter is added.
  // Default: 0, for ever. Unit: nanoseconds.
  std::chrono::nanoseconds max_dead_age{0};

  // Default: 1,024. Unit: bytes; cannot be raised. Over it: `too_large`.
  std::size_t max_key_bytes = 1024;

  // Default: 1 MiB. Unit: bytes; cannot be raised. Over it: `too_large`.
  std::size_t max_payload_bytes = std::size_t{1} << 20;

  // The application's writes with one call (countwheel/writes.h).
  // Default: 1 MiB. Unit: bytes. Range: up to 64 MiB. Over it: `too_large`. Raised: longer commits
  // for everybody.
  std::size_t max_writes_bytes = std::size_t{1} << 20;

  // The farthest deadline from now.
  // Default: 10 years. Over it: `out_of_range`.
  std::chrono::nanoseconds max_delay = std::chrono::hours(24 * 3653);
};

// Names the option, the value given and the values allowed.
Status validate(const EngineOptions& options);

}  // namespace countwheel

#endif  // COUNTWHEEL_OPTIONS_H_
