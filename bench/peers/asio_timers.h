// Boost.Asio: one basic_waitable_timer a timer, on a clock that stands where advance() puts it. Its
// handlers run in poll(), those of cancelled timers too, which is why they are part of a cancel.
#ifndef COUNTWHEEL_BENCH_PEERS_ASIO_TIMERS_H_
#define COUNTWHEEL_BENCH_PEERS_ASIO_TIMERS_H_

#include <chrono>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>

#include "peers/timer_peer.h"

namespace countwheel::bench {

// For one AsioTimers at a time.
struct VirtualClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<VirtualClock>;
  static constexpr bool is_steady = true;

  static time_point now() { return time_point(duration(now_ns)); }

  static inline std::int64_t now_ns = 0;
};

// Asio looks at its timers when a timerfd says so, which knows nothing of this clock: it is always
// set to a moment that has come, so that every poll() looks.
struct VirtualWait {
  static VirtualClock::duration to_wait_duration(const VirtualClock::duration&) {
    return std::chrono::nanoseconds(0);
  }
  static VirtualClock::duration to_wait_duration(const VirtualClock::time_point&) {
    return std::chrono::nanoseconds(0);
  }
};

class AsioTimers : public TimerPeerBase {
 public:
  static constexpr const char* kName = "asio";
  static constexpr bool kIsSlow = true;
  static constexpr bool kTickCostsMore = true;  // the system calls of a timerfd that always rings

  explicit AsioTimers(std::size_t timer_count) : context_(1) {
    VirtualClock::now_ns = 0;
    timers_.reserve(timer_count);
    for (std::size_t i = 0; i < timer_count; ++i) {
      timers_.emplace_back(context_);
    }
  }

  void schedule(std::uint32_t timer, std::int64_t deadline_ns) {
    timers_[timer].expires_at(VirtualClock::time_point(std::chrono::nanoseconds(deadline_ns)));
    timers_[timer].async_wait([this, timer](const boost::system::error_code& error) {
      if (!error) {
        expiries_.note(timer);
      }
    });
  }
  void cancel(std::uint32_t timer) {
    timers_[timer].cancel();
    poll_sometimes();
  }
  void reschedule(std::uint32_t timer, std::int64_t deadline_ns) {
    schedule(timer, deadline_ns);
    poll_sometimes();
  }
  void settle() { context_.poll(); }
  void advance(std::int64_t now_ns) {
    VirtualClock::now_ns = now_ns;
    context_.restart();
    context_.poll();
  }

 private:
  // As often as a loop with a lot to do comes round.
  void poll_sometimes() {
    constexpr std::size_t kCallsARound = 256;
    if (++call_count_ % kCallsARound == 0) {
      context_.restart();
      context_.poll();
    }
  }

  boost::asio::io_context context_;
  std::vector<boost::asio::basic_waitable_timer<VirtualClock, VirtualWait>> timers_;
  std::size_t call_count_ = 0;
};

static_assert(TimerPeer<AsioTimers>);

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_ASIO_TIMERS_H_
