// libev: one ev_timer a timer, on the real clock.
#ifndef COUNTWHEEL_BENCH_PEERS_LIBEV_TIMERS_H_
#define COUNTWHEEL_BENCH_PEERS_LIBEV_TIMERS_H_

#include <algorithm>

#include "peers/ev.h"
#include "peers/real_clock.h"
#include "peers/timer_peer.h"

namespace countwheel::bench {

class LibevTimers : public TimerPeerBase {
 public:
  static constexpr const char* kName = "libev";
  static constexpr bool kRealClock = true;

  explicit LibevTimers(std::size_t timer_count)
      : loop_(ev_loop_new(EVFLAG_AUTO)), timers_(timer_count) {
    ev_set_userdata(loop_, this);
    for (ev_timer& timer : timers_) {
      start_with(timer, &LibevTimers::expire);
    }
    refresh();
  }
  // The loop forgets its timers; they need not be stopped one by one.
  ~LibevTimers() { ev_loop_destroy(loop_); }
  LibevTimers(const LibevTimers&) = delete;
  LibevTimers& operator=(const LibevTimers&) = delete;

  RealClock& clock() { return clock_; }

  void schedule(std::uint32_t timer, std::int64_t deadline_ns) {
    set_delay(timers_[timer], delay(deadline_ns));
    ev_timer_start(loop_, &timers_[timer]);
  }
  void cancel(std::uint32_t timer) { ev_timer_stop(loop_, &timers_[timer]); }
  // The way its manual names as the fastest; a repeating timer is stopped when it expires.
  void reschedule(std::uint32_t timer, std::int64_t deadline_ns) {
    timers_[timer].repeat = std::max(delay(deadline_ns), 1e-9);
    ev_timer_again(loop_, &timers_[timer]);
  }
  void advance(std::int64_t) {
    ev_run(loop_, EVRUN_NOWAIT);
    refresh();
  }

 private:
  // Delays count from the time the loop has seen last.
  double delay(std::int64_t deadline_ns) const {
    return static_cast<double>(clock_.real_ns(deadline_ns) - seen_ns_) * 1e-9;
  }
  void refresh() {
    ev_now_update(loop_);
    seen_ns_ = RealClock::monotonic_ns();
  }

  static void expire(struct ev_loop* loop, ev_timer* timer, int) {
    auto* const self = static_cast<LibevTimers*>(ev_userdata(loop));
    if (timer->repeat > 0.0) {
      ev_timer_stop(loop, timer);
      timer->repeat = 0.0;
    }
    self->expiries_.note(static_cast<std::uint32_t>(timer - self->timers_.data()));
  }

  struct ev_loop* loop_;
  std::vector<ev_timer> timers_;
  RealClock clock_;
  std::int64_t seen_ns_ = 0;
};

static_assert(TimerPeer<LibevTimers>);

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_LIBEV_TIMERS_H_
