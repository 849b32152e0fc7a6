// What the live rows share. 30,000 timers, 10,000 a second, are armed by the thread of the loop
// before the first is due, which is kinder than our row, where another thread schedules while
// others expire. Expiry and start of the handler are one moment in a loop.
#ifndef COUNTWHEEL_BENCH_PEERS_LIVE_LATENESS_H_
#define COUNTWHEEL_BENCH_PEERS_LIVE_LATENESS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench_engine.h"
#include "peers/real_clock.h"

namespace countwheel::bench {

constexpr int kLiveTimers = 30'000;
constexpr std::int64_t kLiveSpacingNs = 100'000;
constexpr std::int64_t kLiveLeadNs = 500'000'000;
constexpr int kIdleTimers = 1'000'000;
constexpr double kIdleSeconds = 5.0;

inline void report_lateness(benchmark::State& state, std::vector<double> lateness_us) {
  state.counters["early"] = static_cast<double>(
      std::count_if(lateness_us.begin(), lateness_us.end(), [](double us) { return us < 0; }));
  state.counters["earliest_us"] =
      lateness_us.empty() ? 0 : *std::min_element(lateness_us.begin(), lateness_us.end());
  report_quantiles(state, "handover.", lateness_us);
  report_quantiles(state, "start.", lateness_us);
  state.SetIterationTime(1.0);
  state.counters["value"] = quantile(lateness_us, 0.5);
}

// Percent of a core that the process has used since `cpu` and `start` were taken.
inline void report_idle(benchmark::State& state, double cpu, Clock::time_point start) {
  state.SetIterationTime(1.0);
  state.counters["value"] = 100.0 * (cpu_seconds() - cpu) / seconds_since(start);
}

template <class Function>
void add_live_row(const char* name, Function function) {
  benchmark::RegisterBenchmark(name,
                               [function](benchmark::State& state) {
                                 for (auto unused : state) {
                                   function(state);
                                 }
                               })
      ->Iterations(1)
      ->UseManualTime();
}

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_LIVE_LATENESS_H_
