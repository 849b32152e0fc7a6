// A row of the table of `./dev bench`: a benchmark that runs once a process and leaves its figures
// in counters. The figure of a row is the counter `value`, in the unit that bench/run/rows.py gives
// it; a benchmark of several rows has one counter for each, named after the rest of the row's name.
// The runner repeats processes and takes medians, so nothing here is repeated for its own sake.
#ifndef COUNTWHEEL_BENCH_ROW_H_
#define COUNTWHEEL_BENCH_ROW_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <time.h>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

namespace countwheel::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Processor time of this thread: on a machine that is shared, the time of others does not count.
inline double processor_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Registers `work` under a name; static objects of it stand after what they measure.
class Row {
 public:
  Row(const std::string& name, std::function<void(benchmark::State&)> work) {
    benchmark::RegisterBenchmark(name.c_str(),
                                 [work = std::move(work)](benchmark::State& state) {
                                   for (auto unused : state) {
                                     const Clock::time_point start = Clock::now();
                                     work(state);
                                     state.SetIterationTime(seconds_since(start));
                                   }
                                 })
        ->Iterations(1)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
};

// The rest of main(): runs what the command line asks for; answers the exit code.
inline int run_rows(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

inline double quantile(std::vector<double>& samples, double q) {
  if (samples.empty()) {
    return 0;
  }
  const auto rank = static_cast<std::size_t>(q * static_cast<double>(samples.size() - 1));
  std::nth_element(
      samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(rank), samples.end());
  return samples[rank];
}

// Counters prefix + p50, p99, p999 and max.
inline void report_quantiles(benchmark::State& state,
                             const std::string& prefix,
                             std::vector<double>& samples) {
  state.counters[prefix + "p50"] = quantile(samples, 0.5);
  state.counters[prefix + "p99"] = quantile(samples, 0.99);
  state.counters[prefix + "p999"] = quantile(samples, 0.999);
  state.counters[prefix + "max"] = quantile(samples, 1.0);
}

// Nanoseconds an operation: the best of several passes over all of them, in processor time of this
// thread; that is what the code costs when nobody else uses the caches. The first pass does not
// count: it brings the memory that a running process has. Peers are measured the same way.
template <class Prepare, class Work>
double best_ns(std::size_t operation_count, Prepare&& prepare, Work&& work) {
  const int pass_count = operation_count <= 10'000 ? 30 : operation_count <= 1'000'000 ? 3 : 1;
  double best = 0;
  for (int i = 0; i < pass_count + 1; ++i) {
    prepare();
    const double before = processor_seconds();
    work();
    const double ns = (processor_seconds() - before) * 1e9 / static_cast<double>(operation_count);
    best = i <= 1 ? ns : std::min(best, ns);
  }
  return best;
}

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_ROW_H_
