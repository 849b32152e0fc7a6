// libevent: one struct event a timer, on the real clock.
#ifndef COUNTWHEEL_BENCH_PEERS_LIBEVENT_TIMERS_H_
#define COUNTWHEEL_BENCH_PEERS_LIBEVENT_TIMERS_H_

#include <algorithm>
#include <event2/event.h>
#include <event2/event_struct.h>

#include "peers/real_clock.h"
#include "peers/timer_peer.h"

namespace countwheel::bench {

class LibeventTimers : public TimerPeerBase {
 public:
  static constexpr const char* kName = "libevent";
  static constexpr bool kIsSlow = true;
  static constexpr bool kRealClock = true;

  explicit LibeventTimers(std::size_t timer_count) : timers_(timer_count) {
    event_config* const config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    base_ = event_base_new_with_config(config);
    event_config_free(config);
    for (event& timer : timers_) {
      event_assign(&timer, base_, -1, 0, &LibeventTimers::expire, &timer);
    }
    refresh();
  }
  ~LibeventTimers() { event_base_free(base_); }
  LibeventTimers(const LibeventTimers&) = delete;
  LibeventTimers& operator=(const LibeventTimers&) = delete;

  RealClock& clock() { return clock_; }

  void schedule(std::uint32_t timer, std::int64_t deadline_ns) {
    const std::int64_t us =
        std::max<std::int64_t>((clock_.real_ns(deadline_ns) - seen_ns_ + 999) / 1000, 0);
    const timeval delay = {.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
    event_add(&timers_[timer], &delay);
  }
  void cancel(std::uint32_t timer) { event_del(&timers_[timer]); }
  void reschedule(std::uint32_t timer, std::int64_t deadline_ns) { schedule(timer, deadline_ns); }
  void advance(std::int64_t) {
    running_ = this;
    event_base_loop(base_, EVLOOP_NONBLOCK);
    refresh();
  }

 private:
  // As inside of a loop that turns, where the clock is read once a round and not at every call.
  void refresh() {
    event_base_update_cache_time(base_);
    seen_ns_ = RealClock::monotonic_ns();
  }

  // The argument is the event; whose it is, does not fit in beside.
  static void expire(evutil_socket_t, short, void* argument) {
    const auto* const timer = static_cast<event*>(argument);
    running_->expiries_.note(static_cast<std::uint32_t>(timer - running_->timers_.data()));
  }

  static inline LibeventTimers* running_ = nullptr;

  std::vector<event> timers_;
  event_base* base_ = nullptr;
  RealClock clock_;
  std::int64_t seen_ns_ = 0;
};

static_assert(TimerPeer<LibeventTimers>);

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_LIBEVENT_TIMERS_H_
