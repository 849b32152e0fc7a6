// The single-level hashed timing wheel of the textbooks: 512 slots of one tick; what is due after
// more than one turn stays in its slot, and every tick reads its whole slot.
#ifndef COUNTWHEEL_BENCH_PEERS_HASHED_WHEEL_H_
#define COUNTWHEEL_BENCH_PEERS_HASHED_WHEEL_H_

#include "peers/timer_lists.h"
#include "peers/timer_peer.h"

namespace countwheel::bench {

class HashedWheel : public TimerPeerBase {
 public:
  static constexpr const char* kName = "hashed_wheel";

  static constexpr bool kJumpShare = true;  // jumps tick by tick

  explicit HashedWheel(std::size_t timer_count) : lists_(timer_count, kSlotCount) {}

  void schedule(std::uint32_t timer, std::int64_t deadline_ns) {
    // What is due already expires at the next tick.
    const std::int64_t tick = std::max(tick_of(deadline_ns), now_tick_ + 1);
    lists_.append(slot_of(tick), timer, tick);
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
      lists_.for_each(slot_of(now_tick_), [this](std::uint32_t timer) {
        if (lists_.tick(timer) == now_tick_) {
          lists_.remove(timer);
          expiries_.note(timer);
        }
      });
    }
  }

 private:
  static constexpr std::size_t kSlotCount = 512;

  static std::size_t slot_of(std::int64_t tick) {
    return static_cast<std::size_t>(tick) % kSlotCount;
  }

  TimerLists lists_;
  std::int64_t now_tick_ = 0;
};

static_assert(TimerPeer<HashedWheel>);

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_HASHED_WHEEL_H_
