// Clock: the only door through which time enters.
//
// An engine reads two clocks: the wall (CLOCK_REALTIME, for `at`) and the boot clock
// (CLOCK_BOOTTIME, for `after`; it counts suspend and is immune to steps). SystemClock is the real
// one; ManualClock is moved by a test, a simulation or a back-test.
//
// Thread contract: Clock is safe for concurrent use. A Sleeper has one sleeping thread; wake() may
// come from any thread.
#ifndef COUNTWHEEL_CLOCK_H_
#define COUNTWHEEL_CLOCK_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include <countwheel/task.h>

namespace countwheel {

// "No time": a sleeper given kNever sleeps until it is woken.
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

// Both faces at one moment.
struct Instant {
  std::int64_t wall_ns = 0;
  std::int64_t boot_ns = 0;

  constexpr std::int64_t on(ClockKind clock) const noexcept {
    return clock == ClockKind::kWall ? wall_ns : boot_ns;
  }
  friend constexpr bool operator==(const Instant&, const Instant&) noexcept = default;
};

// Identifies one life of the boot clock. A boot deadline means the same after a restart of the
// process if and only if both fields are equal: boot_id alone does not change across time
// namespaces, which shift the boot clock.
struct Session {
  std::array<char, 36> boot_id = {};
  std::int64_t boot_offset_ns = 0;  // of the time namespace (/proc/self/timens_offsets)

  // A 64-bit name of the session, as the log stores it.
  std::uint64_t hash() const noexcept;
  friend bool operator==(const Session&, const Session&) noexcept = default;
};

class Sleeper {
 public:
  virtual ~Sleeper() = default;
  // Returns when either face has reached `until`, when woken, when the wall clock was set, or a
  // little early: the caller looks at the clock again.
  virtual void wait(Instant until) noexcept = 0;
  // Makes the current or the next wait() return.
  virtual void wake() noexcept = 0;
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const noexcept = 0;
  // One face alone, where that is cheaper.
  virtual std::int64_t now_on(ClockKind clock) const noexcept { return now().on(clock); }
  virtual Session session() const = 0;
  // The sleeper must not outlive the clock. Null when the system has no descriptors left.
  virtual std::unique_ptr<Sleeper> make_sleeper() = 0;
};

// The machine's clocks; sleeps with ppoll over two absolute timers and an event descriptor, so that
// a sleep on one clock sees a step of the other.
class SystemClock final : public Clock {
 public:
  Instant now() const noexcept override;
  std::int64_t now_on(ClockKind clock) const noexcept override;
  Session session() const override;
  std::unique_ptr<Sleeper> make_sleeper() override;
  // One for the whole process.
  static SystemClock& instance();
};

// A clock that stands still until it is told to move. Sleepers wait in real time for it to move.
class ManualClock final : public Clock {
 public:
  // Boot face 0 and wall face 2026-01-05T09:00:00Z unless given.
  ManualClock();
  explicit ManualClock(Instant start);
  ~ManualClock() override;

  Instant now() const noexcept override;
  Session session() const override;
  std::unique_ptr<Sleeper> make_sleeper() override;

  void advance(std::chrono::nanoseconds by);    // both faces
  void step_wall(std::chrono::nanoseconds by);  // the wall is set; the boot face does not move
  void suspend(std::chrono::nanoseconds by);    // both faces move, sleepers are not told
  void set(Instant instant);                    // anything, also backwards
  void reboot(std::int64_t boot_ns = 0);        // a new session, the boot face starts over

 private:
  class ManualSleeper;
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace countwheel

#endif  // COUNTWHEEL_CLOCK_H_
