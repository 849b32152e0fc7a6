// The hierarchical timing wheel of the textbooks with the levels of ours: 100 slots of 10 ms, 3,600
// of a second, 1,024 of an hour. When a second or an hour begins, its whole slot is filed anew in
// the level below, however much is in it.
#ifndef COUNTWHEEL_BENCH_PEERS_CASCADING_WHEEL_H_
#define COUNTWHEEL_BENCH_PEERS_CASCADING_WHEEL_H_

#include "peers/timer_lists.h"
#include "peers/timer_peer.h"

namespace countwheel::bench {

class CascadingWheel : public TimerPeerBase {
 public:
  static constexpr const char* kName = "cascading_wheel";

  explicit CascadingWheel(std::size_t timer_count)
      : lists_(timer_count, kFine + kSeconds + kHours) {}

  void schedule(std::uint32_t timer, std::int64_t deadline_ns) {
    file(timer, std::max(tick_of(deadline_ns), now_tick_ + 1));
  }
  void cancel(std::uint32_t timer) { lists_.remove(timer); }
  void reschedule(std::uint32_t timer, std::int64_t deadline_ns) {
    lists_.remove(timer);
    schedule(timer, deadline_ns);
  }
  void advance(std::int64_t now_ns) {
    const std::int64_t last = now_ns / kPeerTickNs;
    while (now_tick_ < last) {
      ++now_tick_;
      moved_ = 0;
      if (now_tick_ % kSecondTicks == 0) {
        if (now_tick_ % kHourTicks == 0) {
          cascade(hour_slot(now_tick_));
        }
        cascade(second_slot(now_tick_));
      }
      moved_max_ = std::max(moved_max_, moved_);
      lists_.for_each(fine_slot(now_tick_), [this](std::uint32_t timer) {
        lists_.remove(timer);
        expiries_.note(timer);
      });
    }
  }

  // The most timers that any tick has filed anew.
  std::size_t moved_max() const { return moved_max_; }

 private:
  static constexpr std::int64_t kFine = 100;
  static constexpr std::int64_t kSeconds = 3600;
  static constexpr std::int64_t kHours = 1024;
  static constexpr std::int64_t kSecondTicks = kFine;
  static constexpr std::int64_t kHourTicks = kFine * kSeconds;
  static constexpr std::int64_t kReach = kHourTicks * kHours;

  static std::size_t fine_slot(std::int64_t tick) { return static_cast<std::size_t>(tick % kFine); }
  static std::size_t second_slot(std::int64_t tick) {
    return static_cast<std::size_t>(kFine + tick / kSecondTicks % kSeconds);
  }
  static std::size_t hour_slot(std::int64_t tick) {
    return static_cast<std::size_t>(kFine + kSeconds + tick / kHourTicks % kHours);
  }

  void file(std::uint32_t timer, std::int64_t tick) {
    const std::int64_t ticks_left = tick - now_tick_;
    if (ticks_left < kSecondTicks) {
      lists_.append(fine_slot(tick), timer, tick);
    } else if (ticks_left < kHourTicks) {
      lists_.append(second_slot(tick), timer, tick);
    } else {
      // Beyond the reach it waits in the farthest slot and is filed again from there.
      lists_.append(hour_slot(std::min(tick, now_tick_ + kReach - 1)), timer, tick);
    }
  }

  void cascade(std::size_t slot) {
    lists_.for_each(slot, [this](std::uint32_t timer) {
      lists_.remove(timer);
      file(timer, lists_.tick(timer));
      ++moved_;
    });
  }

  TimerLists lists_;
  std::int64_t now_tick_ = 0;
  std::size_t moved_ = 0;
  std::size_t moved_max_ = 0;
};

static_assert(TimerPeer<CascadingWheel>);

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_CASCADING_WHEEL_H_
