// libuv timers in a loop that is run by one thread. Delays are whole milliseconds; the deadline is
// the moment of the call plus the delay wanted, rounded up.
#include <uv.h>

#include "peers/live_lateness.h"
#include "peers/live_rows.h"

namespace countwheel::bench {
namespace {

constexpr std::int64_t kMs = 1'000'000;

struct Timer {
  uv_timer_t handle;
  std::int64_t due_ns;
  std::vector<double>* lateness_us;
};

// As timers are, which stay where they are until the loop is closed.
class Loop {
 public:
  explicit Loop(int timer_count) : timers_(static_cast<std::size_t>(timer_count)) {
    uv_loop_init(&loop_);
    for (Timer& timer : timers_) {
      uv_timer_init(&loop_, &timer.handle);
      timer.handle.data = &timer;
    }
  }
  ~Loop() {
    for (Timer& timer : timers_) {
      uv_close(reinterpret_cast<uv_handle_t*>(&timer.handle), nullptr);
    }
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  uv_loop_t* get() { return &loop_; }
  std::vector<Timer>& timers() { return timers_; }

 private:
  uv_loop_t loop_{};
  std::vector<Timer> timers_;
};

void note_lateness(uv_timer_t* handle) {
  const auto* const timer = static_cast<Timer*>(handle->data);
  timer->lateness_us->push_back(static_cast<double>(RealClock::monotonic_ns() - timer->due_ns) *
                                1e-3);
}

void lateness(benchmark::State& state) {
  Loop loop(kLiveTimers);
  std::vector<double> lateness_us;
  lateness_us.reserve(kLiveTimers);
  const std::int64_t first_ns = RealClock::monotonic_ns() + kLiveLeadNs;
  std::int64_t i = 0;
  for (Timer& timer : loop.timers()) {
    uv_update_time(loop.get());
    timer.due_ns = first_ns + i++ * kLiveSpacingNs;
    timer.lateness_us = &lateness_us;
    const std::int64_t delay_ns = timer.due_ns - RealClock::monotonic_ns();
    uv_timer_start(
        &timer.handle, &note_lateness, static_cast<std::uint64_t>((delay_ns + kMs - 1) / kMs), 0);
  }
  uv_run(loop.get(), UV_RUN_DEFAULT);
  report_lateness(state, std::move(lateness_us));
}

// When the last of those has started that are all due at one instant.
void herd(benchmark::State& state, int count) {
  Loop loop(count);
  constexpr std::int64_t kLeadMs = 3'000;
  std::vector<double> late_us;
  late_us.reserve(static_cast<std::size_t>(count));
  uv_update_time(loop.get());
  const std::int64_t due_ns = RealClock::monotonic_ns() + kLeadMs * kMs;
  for (Timer& timer : loop.timers()) {
    timer.due_ns = due_ns;
    timer.lateness_us = &late_us;
    uv_timer_start(&timer.handle, &note_lateness, kLeadMs, 0);
  }
  uv_run(loop.get(), UV_RUN_DEFAULT);
  state.SetIterationTime(1.0);
  state.counters["value"] = late_us.back() * 1e-3;
}

void idle(benchmark::State& state) {
  Loop loop(kIdleTimers + 1);
  constexpr std::uint64_t kTwoHoursMs = 7'200'000;
  std::uint64_t i = 0;
  for (Timer& timer : loop.timers()) {
    uv_timer_start(
        &timer.handle, [](uv_timer_t*) {}, kTwoHoursMs + 5 * i++, 0);
  }
  uv_update_time(loop.get());
  uv_timer_start(
      &loop.timers().back().handle,
      [](uv_timer_t* handle) { uv_stop(handle->loop); },
      static_cast<std::uint64_t>(kIdleSeconds * 1e3),
      0);
  const double cpu = cpu_seconds();
  const Clock::time_point start = Clock::now();
  uv_run(loop.get(), UV_RUN_DEFAULT);
  report_idle(state, cpu, start);
}

}  // namespace

void register_libuv_live_rows() {
  add_live_row("engine.lateness.exact.10k/libuv", lateness);
  add_live_row("engine.idle_cpu.10ms/libuv", idle);
  add_live_row("engine.herd.100k/libuv", [](benchmark::State& state) { herd(state, 100'000); });
  add_live_row("engine.herd.1m/libuv", [](benchmark::State& state) { herd(state, 1'000'000); });
}

}  // namespace countwheel::bench
