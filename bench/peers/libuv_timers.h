// libuv: one uv_timer_t a timer. Its loop is not run: the time in it is set and uv__run_timers(),
// which the static library has, runs what is due. The grain is a millisecond.
#ifndef COUNTWHEEL_BENCH_PEERS_LIBUV_TIMERS_H_
#define COUNTWHEEL_BENCH_PEERS_LIBUV_TIMERS_H_

#include <uv.h>

#include "peers/timer_peer.h"

extern "C" void uv__run_timers(uv_loop_t* loop);  // NOLINT(bugprone-reserved-identifier)

namespace countwheel::bench {

class LibuvTimers : public TimerPeerBase {
 public:
  static constexpr const char* kName = "libuv";
  static constexpr bool kIsSlow = true;

  explicit LibuvTimers(std::size_t timer_count) : timers_(timer_count) {
    uv_loop_init(&loop_);
    loop_.data = this;
    loop_.time = 0;
    for (uv_timer_t& timer : timers_) {
      uv_timer_init(&loop_, &timer);
    }
  }
  ~LibuvTimers() {
    for (uv_timer_t& timer : timers_) {
      uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
    }
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
  }
  LibuvTimers(const LibuvTimers&) = delete;
  LibuvTimers& operator=(const LibuvTimers&) = delete;

  void schedule(std::uint32_t timer, std::int64_t deadline_ns) {
    const auto deadline_ms = static_cast<std::uint64_t>((deadline_ns + kMs - 1) / kMs);
    uv_timer_start(&timers_[timer],
                   &LibuvTimers::expire,
                   deadline_ms > loop_.time ? deadline_ms - loop_.time : 0,
                   0);
  }
  void cancel(std::uint32_t timer) { uv_timer_stop(&timers_[timer]); }
  void reschedule(std::uint32_t timer, std::int64_t deadline_ns) { schedule(timer, deadline_ns); }
  void advance(std::int64_t now_ns) {
    loop_.time = static_cast<std::uint64_t>(now_ns / kMs);
    uv__run_timers(&loop_);
  }

 private:
  static constexpr std::int64_t kMs = 1'000'000;

  static void expire(uv_timer_t* timer) {
    auto* const self = static_cast<LibuvTimers*>(timer->loop->data);
    self->expiries_.note(static_cast<std::uint32_t>(timer - self->timers_.data()));
  }

  uv_loop_t loop_{};
  std::vector<uv_timer_t> timers_;
};

static_assert(TimerPeer<LibuvTimers>);

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_LIBUV_TIMERS_H_
