// Expiry of the whole engine, the log on disk: lateness at 10,000 a second, herds due in one
// instant, and what a million pending tasks cost while nothing is due.
#include <atomic>
#include <cmath>
#include <thread>

#include "bench_engine.h"

namespace countwheel::bench {
namespace {

using std::chrono::milliseconds;

WallTime wall_now() {
  return std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now());
}

double lateness_us(WallTime deadline) {
  return std::chrono::duration<double, std::micro>(wall_now() - deadline).count();
}

// engine.lateness: 10,000 tasks a second for 3 s, scheduled 200 ms ahead.
void lateness(benchmark::State& state, Precision precision) {
  constexpr int kTasks = 30'000;
  constexpr auto kSpacing = std::chrono::microseconds(100);
  for (auto unused : state) {
    Directory directory;
    OpenOptions options;
    options.engine.wheel.precision = precision;
    Result<Opened> opened = open(directory.log(), std::move(options));
    if (!opened.ok()) {
      state.SkipWithError(opened.status().text().c_str());
      return;
    }
    Engine& engine = *opened->engine;
    std::vector<double> starts(kTasks, 0);
    std::atomic<int> next{0};
    (void)engine.on("bench", [&](Delivery d) {
      starts[static_cast<std::size_t>(next.fetch_add(1))] = lateness_us(d.deadline());
      (void)d.done();
    });
    (void)engine.start();
    const WallTime first = wall_now() + milliseconds(200);
    const Clock::time_point begin = Clock::now();
    const double cpu = cpu_seconds();
    for (int i = 0; i < kTasks; ++i) {
      std::this_thread::sleep_until(begin + (i / 10) * 10 * kSpacing);
      (void)engine.submit({.type = "bench", .deadline = at(first + i * kSpacing)});
    }
    while (next.load() < kTasks && seconds_since(begin) < 30) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    state.counters["cpu_share"] = (cpu_seconds() - cpu) / seconds_since(begin);
    const Stats stats = engine.stats();
    state.counters["handover_p50"] = static_cast<double>(stats.lateness_ns.quantile(0.5)) / 1e3;
    state.counters["handover_p99"] = static_cast<double>(stats.lateness_ns.quantile(0.99)) / 1e3;
    state.counters["handover_p999"] = static_cast<double>(stats.lateness_ns.quantile(0.999)) / 1e3;
    report_quantiles(state, "start_", starts);
    state.counters["earliest"] = *std::min_element(starts.begin(), starts.end());
    (void)engine.stop();
  }
}
BENCHMARK_CAPTURE(lateness, exact, Precision::kExact)
    ->Name("engine.lateness.exact.10k")
    ->Iterations(1)
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(lateness, tick, Precision::kTick)
    ->Name("engine.lateness.tick.10k")
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

// engine.herd: everything due at one instant; when the last handler has started. With `slow`, the
// first handler holds its worker for 20 ms: the others must not wait behind it.
void herd(benchmark::State& state, bool slow) {
  const auto tasks = static_cast<int>(state.range(0));
  for (auto unused : state) {
    Directory directory;
    Result<Opened> opened = open(directory.log(), {});
    if (!opened.ok()) {
      state.SkipWithError(opened.status().text().c_str());
      return;
    }
    Engine& engine = *opened->engine;
    std::atomic<int> runs{0};
    std::atomic<double> last{0};
    (void)engine.on("bench", [&](Delivery d) {
      const int run = runs.fetch_add(1) + 1;
      if (run == tasks) {
        last.store(lateness_us(d.deadline()));
      }
      if (slow && run == 1) {
        std::this_thread::sleep_for(milliseconds(20));
      }
      (void)d.done();
    });
    (void)engine.start();
    const WallTime due = wall_now() + milliseconds(1000 + tasks / 250);
    for (int i = 0; i < tasks; ++i) {
      (void)engine.submit({.type = "bench", .deadline = at(due), .durability = Durability::kOs});
      if (i % 100'000 == 99'999) {
        (void)engine.flush(Durability::kOs);
      }
    }
    (void)engine.flush(Durability::kOs);
    state.counters["ready_ms_before"] =
        std::chrono::duration<double, std::milli>(due - wall_now()).count();
    const Clock::time_point begin = Clock::now();
    while (runs.load() < tasks && seconds_since(begin) < 60) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    state.counters["last_start_ms"] = last.load() / 1e3;
    (void)engine.stop();
  }
}
BENCHMARK_CAPTURE(herd, even, false)
    ->Name("engine.herd")
    ->Arg(100'000)
    ->Arg(1'000'000)
    ->Iterations(1)
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(herd, slow, true)
    ->Name("engine.herd.slow")
    ->Arg(100'000)
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

// engine.idle_cpu: share of one core with a million pending and nothing due.
void idle_cpu(benchmark::State& state) {
  constexpr int kTasks = 1'000'000;
  for (auto unused : state) {
    Directory directory;
    OpenOptions options;
    options.engine.wheel.tick_ns = state.range(0) * 1'000'000;
    options.engine.wheel.span[0] = static_cast<std::uint32_t>(1000 / state.range(0));
    options.engine.wheel.ring[0] = state.range(0) == 1 ? 2048 : 256;
    std::unique_ptr<Engine> engine = open_engine(state, directory, std::move(options));
    if (!engine) {
      return;
    }
    for (int i = 0; i < kTasks; ++i) {
      (void)engine->submit({.type = "bench",
                            .deadline = after(std::chrono::hours(2) + milliseconds(i * 5)),
                            .durability = Durability::kOs});
      if (i % 100'000 == 99'999) {
        (void)engine->flush(Durability::kOs);
      }
    }
    (void)engine->flush();
    std::this_thread::sleep_for(milliseconds(500));
    const Stats before = engine->stats();
    const double cpu = cpu_seconds();
    const Clock::time_point start = Clock::now();
    std::this_thread::sleep_for(std::chrono::seconds(5));
    state.counters["percent_of_core"] = 100 * (cpu_seconds() - cpu) / seconds_since(start);
    state.counters["steps"] = static_cast<double>(engine->stats().steps - before.steps);
  }
}
BENCHMARK(idle_cpu)
    ->Name("engine.idle_cpu")
    ->Arg(10)
    ->Arg(1)
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace countwheel::bench

BENCHMARK_MAIN();
