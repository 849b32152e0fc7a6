// Boost.Asio steady_timers in an io_context that is run by one thread.
#include <chrono>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "peers/live_lateness.h"
#include "peers/live_rows.h"

namespace countwheel::bench {
namespace {

using std::chrono::nanoseconds;
using TimePoint = std::chrono::steady_clock::time_point;

void lateness(benchmark::State& state) {
  boost::asio::io_context context(1);
  std::vector<boost::asio::steady_timer> timers;
  std::vector<double> lateness_us;
  lateness_us.reserve(kLiveTimers);
  timers.reserve(kLiveTimers);
  const TimePoint first = std::chrono::steady_clock::now() + nanoseconds(kLiveLeadNs);
  for (int i = 0; i < kLiveTimers; ++i) {
    const TimePoint due = first + i * nanoseconds(kLiveSpacingNs);
    timers.emplace_back(context, due);
    timers.back().async_wait([&lateness_us, due](const boost::system::error_code&) {
      lateness_us.push_back(seconds_since(due) * 1e6);
    });
  }
  context.run();
  report_lateness(state, std::move(lateness_us));
}

// When the last of those has started that are all due at one instant.
void herd(benchmark::State& state, std::size_t count) {
  boost::asio::io_context context(1);
  std::vector<boost::asio::steady_timer> timers;
  timers.reserve(count);
  const TimePoint due = std::chrono::steady_clock::now() + std::chrono::seconds(3);
  TimePoint last;
  for (std::size_t i = 0; i < count; ++i) {
    timers.emplace_back(context, due);
    timers.back().async_wait(
        [&last](const boost::system::error_code&) { last = std::chrono::steady_clock::now(); });
  }
  context.run();
  state.SetIterationTime(1.0);
  state.counters["value"] = std::chrono::duration<double, std::milli>(last - due).count();
}

void idle(benchmark::State& state) {
  boost::asio::io_context context(1);
  std::vector<boost::asio::steady_timer> timers;
  timers.reserve(kIdleTimers);
  const TimePoint first = std::chrono::steady_clock::now() + std::chrono::hours(2);
  for (int i = 0; i < kIdleTimers; ++i) {
    timers.emplace_back(context, first + std::chrono::milliseconds(5 * i));
    timers.back().async_wait([](const boost::system::error_code&) {});
  }
  const double cpu = cpu_seconds();
  const Clock::time_point start = Clock::now();
  context.run_for(
      std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(kIdleSeconds)));
  report_idle(state, cpu, start);
}

}  // namespace

void register_asio_live_rows() {
  add_live_row("engine.lateness.exact.10k/asio", lateness);
  add_live_row("engine.idle_cpu.10ms/asio", idle);
  add_live_row("engine.herd.100k/asio", [](benchmark::State& state) { herd(state, 100'000); });
  add_live_row("engine.herd.1m/asio", [](benchmark::State& state) { herd(state, 1'000'000); });
}

}  // namespace countwheel::bench
