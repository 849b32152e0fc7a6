// The experiments that others have published about delayed tasks on Redis, on Countwheel and on
// Redis of this machine: `experiment.<name>/<system>`. docs/comparison.md is made of them.
#ifndef COUNTWHEEL_BENCH_EXPERIMENTS_EXPERIMENTS_H_
#define COUNTWHEEL_BENCH_EXPERIMENTS_EXPERIMENTS_H_

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "bench_engine.h"

namespace countwheel::bench {

// Milliseconds from the start of an experiment to the due time of each of its tasks.
inline std::vector<int> due_offsets_ms(std::size_t count, int from_ms, int width_ms) {
  std::mt19937 random(7);
  std::vector<int> offsets(count);
  for (int& offset_ms : offsets) {
    offset_ms = from_ms + static_cast<int>(random() % static_cast<unsigned>(width_ms + 1));
  }
  return offsets;
}

constexpr std::size_t kSpreadTasks = 1000;
constexpr int kSpreadFromMs = 500;
constexpr int kSpreadWidthMs = 2000;
constexpr int kRaceTasks = 1000;
constexpr int kConsumers = 4;
constexpr int kCrashTasks = 100;
constexpr int kCrashTaken = 10;
// Due within ten seconds once the millions are pending.
constexpr std::size_t kProbeTasks = 10'000;
constexpr int kProbeWidthMs = 10'000;
constexpr int kSustainedPerSecond = 5'000;
constexpr double kSustainedLimitMs = 3'000;

inline std::size_t environment_count(const char* name, std::size_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
// Smaller for a look at whether it works.
inline std::size_t pending_count() {
  return environment_count("COUNTWHEEL_EXPERIMENT_PENDING", 5'000'000);
}
inline int sustained_seconds() {
  return static_cast<int>(environment_count("COUNTWHEEL_EXPERIMENT_SECONDS", 30));
}

// A delay of the mixed load: uniform from 5 s to 7 days.
class MixedDelays {
 public:
  std::int64_t next_ms() {
    return 5'000 + static_cast<std::int64_t>(random_() % (7ULL * 24 * 3'600'000));
  }

 private:
  std::mt19937_64 random_{11};
};

// `lateness_ms` as counters p50, p90, p99, p999 and max.
inline void report_lateness_ms(benchmark::State& state, std::vector<double>& lateness_ms) {
  state.counters["p90"] = quantile(lateness_ms, 0.9);
  report_quantiles(state, "", lateness_ms);
  state.counters["earliest"] = quantile(lateness_ms, 0.0);
  state.counters["count"] = static_cast<double>(lateness_ms.size());
}

template <class Function>
void add_experiment(const std::string& name, Function function) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [function](benchmark::State& state) {
                                 for (auto unused : state) {
                                   function(state);
                                   state.SetIterationTime(1.0);
                                 }
                               })
      ->Iterations(1)
      ->UseManualTime();
}

void register_countwheel_experiments();
void register_redis_experiments();
// The two that need more than a TaskServer: consumers that race, and one that crashes.
void register_redis_races();

// The part of the crash that is a process of its own; does not return.
[[noreturn]] void take_ten_and_crash(const std::string& log);

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_EXPERIMENTS_EXPERIMENTS_H_
