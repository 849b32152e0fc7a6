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
}

}  // namespace countwheel::bench
