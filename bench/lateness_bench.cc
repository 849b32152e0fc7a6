// Lateness of the whole engine, the log on disk: from the deadline to the hand-over to the pool,
// and to the start of the handler. The tasks are scheduled 200 ms ahead, at moments fixed before,
// by a thread that sleeps in between; nothing waits for anything that came before it.
#include <atomic>
#include <functional>
#include <thread>

#include "bench_engine.h"
#include "recording_clock.h"
#include "wall.h"

namespace countwheel::bench {
namespace {

struct LatenessRun {
  int tasks;
  std::chrono::microseconds spacing;
};

constexpr LatenessRun kIdle{1'500, std::chrono::microseconds(2'000)};
constexpr LatenessRun kTenThousand{30'000, std::chrono::microseconds(100)};

void submit_all(Engine& engine, LatenessRun run, WallTime first, Clock::time_point begin) {
  // Ten at a time, as a sleep is not exact to 100 us.
  const int group = run.spacing < std::chrono::milliseconds(1) ? 10 : 1;
  for (int i = 0; i < run.tasks; ++i) {
    if (i % group == 0) {
      std::this_thread::sleep_until(begin + i * run.spacing);
    }
    (void)engine.submit({.type = "bench", .deadline = at(first + i * run.spacing)});
  }
}

std::int64_t deadline_ns(LatenessRun run, WallTime first, int i) {
  return (first + i * run.spacing).time_since_epoch().count();
}

// When the wheel has to hand over each task.
std::vector<std::int64_t> due_moments(LatenessRun run, WallTime first, const WheelOptions& wheel) {
  const std::int64_t tick_ns = wheel.precision == Precision::kTick ? wheel.tick_ns : 1;
  std::vector<std::int64_t> moments_ns;
  for (int i = 0; i < run.tasks; ++i) {
    moments_ns.push_back((deadline_ns(run, first, i) + tick_ns - 1) / tick_ns * tick_ns);
  }
  return moments_ns;
}

// Microseconds from each deadline to its hand-over.
std::vector<double> handovers_us(const RecordingClock& clock, LatenessRun run, WallTime first) {
  std::vector<double> samples;
  for (int i = 0; i < run.tasks; ++i) {
    const std::int64_t at_ns = clock.handed_over()[static_cast<std::size_t>(i)];
    samples.push_back(static_cast<double>(at_ns - deadline_ns(run, first, i)) / 1e3);
  }
  return samples;
}

// The engine's histogram says the same, to an eighth.
bool agree(std::vector<double>& samples_us, const Histogram& histogram) {
  const double exact = quantile(samples_us, 0.5);
  const double edge = static_cast<double>(histogram.quantile(0.5)) / 1e3;
  return exact <= edge + 1 && exact >= edge / 1.2 - 1;
}

// Counters handover.* and start.*; a start before the deadline is a failure.
void lateness(benchmark::State& state,
              LatenessRun run,
              const std::function<void(EngineOptions&)>& configure) {
  Directory directory;
  RecordingClock clock;
  OpenOptions options;
  options.clock = &clock;
  configure(options.engine);
  const WheelOptions wheel = options.engine.wheel;
  Result<Opened> opened = open(directory.log(), std::move(options));
  if (!opened.ok()) {
    state.SkipWithError(opened.status().text().c_str());
    return;
  }
  Engine& engine = *opened->engine;
  std::vector<double> starts_us(static_cast<std::size_t>(run.tasks), 0);
  std::atomic<int> next{0};
  (void)engine.on("bench", [&](Delivery d) {
    starts_us[static_cast<std::size_t>(next.fetch_add(1))] = late_us(d.deadline());
    (void)d.done();
  });
  (void)engine.start();
  const WallTime first = wall_now() + std::chrono::milliseconds(200);
  clock.watch(due_moments(run, first, wheel));
  const Clock::time_point begin = Clock::now();
  const double cpu = cpu_seconds();
  submit_all(engine, run, first, begin);
  while (next.load() < run.tasks && seconds_since(begin) < 30) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  state.counters["cpu_share"] = (cpu_seconds() - cpu) / seconds_since(begin);
  (void)engine.stop();
  std::vector<double> handovers = handovers_us(clock, run, first);
  report_quantiles(state, "handover.", handovers);
  report_quantiles(state, "start.", starts_us);
  state.counters["earliest"] = *std::min_element(starts_us.begin(), starts_us.end());
  if (const std::string refused = engine.stats().tick_thread_refused; !refused.empty()) {
    state.SkipWithError(refused.c_str());
  } else if (next.load() != run.tasks || state.counters["earliest"] < 0) {
    state.SkipWithError("a task was early or lost");
  } else if (!agree(handovers, engine.stats().lateness_ns)) {
    state.SkipWithError("the engine's own histogram of hand-overs says something else");
  }
}

Row lateness_row(const char* name, LatenessRun run, std::function<void(EngineOptions&)> configure) {
  return {name, [run, configure = std::move(configure)](benchmark::State& state) {
            lateness(state, run, configure);
          }};
}

void exact(EngineOptions& options) {
  options.wheel.precision = Precision::kExact;
}
void hybrid(EngineOptions& options) {
  options.tick_thread.wait = Wait::kHybrid;
}
void fifo(EngineOptions& options) {
  options.tick_thread.realtime_priority = 20;
}
void by_tick(EngineOptions& options) {
  options.wheel.precision = Precision::kTick;
}

const Row rows[] = {
    lateness_row("engine.lateness.exact.idle", kIdle, exact),
    lateness_row("engine.lateness.exact.10k", kTenThousand, exact),
    lateness_row("engine.lateness.exact.10k.hybrid", kTenThousand, hybrid),
    lateness_row("engine.lateness.exact.10k.fifo", kTenThousand, fifo),
    lateness_row("engine.lateness.tick.idle", kIdle, by_tick),
    lateness_row("engine.lateness.tick.10k", kTenThousand, by_tick),
};

}  // namespace
}  // namespace countwheel::bench
