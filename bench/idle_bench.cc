// What a million pending tasks cost while nothing is due: percent of one core, all threads.
// COUNTWHEEL_BENCH_IDLE_SECONDS is how long each row looks (default: 5).
#include <atomic>
#include <thread>

#include "bench_engine.h"
#include "engine_load.h"
#include "shifted_clock.h"

namespace countwheel::bench {
namespace {

using std::chrono::milliseconds;

constexpr int kTasks = 1'000'000;

double idle_seconds() {
  const char* const text = std::getenv("COUNTWHEEL_BENCH_IDLE_SECONDS");
  return text == nullptr ? 5.0 : std::max(std::atof(text), 1.0);
}

void schedule_after(Engine& engine, std::chrono::nanoseconds first, milliseconds spacing) {
  for (int i = 0; i < kTasks; ++i) {
    (void)engine.submit(
        {.type = "bench", .deadline = after(first + i * spacing), .durability = Durability::kOs});
    if (i % 100'000 == 99'999) {
      (void)engine.flush(Durability::kOs);
    }
  }
  (void)engine.flush();
  std::this_thread::sleep_for(milliseconds(500));
}

// Percent of a core over so many seconds.
double percent_of_core(double seconds) {
  const double cpu = cpu_seconds();
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return 100 * (cpu_seconds() - cpu) / seconds_since(start);
}

void idle_cpu(benchmark::State& state, std::int64_t tick_ms) {
  Directory directory;
  OpenOptions options;
  options.engine.wheel.tick_ns = tick_ms * 1'000'000;
  options.engine.wheel.span[0] = static_cast<std::uint32_t>(1000 / tick_ms);
  options.engine.wheel.ring[0] = tick_ms == 1 ? 2048 : 256;
  std::unique_ptr<Engine> engine = open_engine(state, directory, std::move(options));
  if (!engine) {
    return;
  }
  schedule_after(*engine, std::chrono::hours(2), milliseconds(5));
  const Stats before = engine->stats();
  state.counters["value"] = percent_of_core(idle_seconds());
  state.counters["steps"] = static_cast<double>(engine->stats().steps - before.steps);
}

// The hour before a full slot of level 2: a million tasks due in one hour, scheduled when that hour
// is still far, move to level 1 at 64 a tick in the last 156 s before it. The clock is shifted to
// there; the share while they move and the share before are weighed by how long each lasts.
void idle_cpu_while_draining(benchmark::State& state) {
  constexpr std::int64_t kSecondNs = 1'000'000'000;
  constexpr std::int64_t kHourNs = 3'600 * kSecondNs;
  constexpr double kDrainSeconds = kTasks / 64.0 * 0.01;
  ShiftedClock clock;
  const std::int64_t now_ns = clock.now().boot_ns;
  const std::int64_t hour_ns = (now_ns / kHourNs + 5) * kHourNs;
  Directory directory;
  OpenOptions options;
  options.clock = &clock;
  std::unique_ptr<Engine> engine = open_engine(state, directory, std::move(options));
  if (!engine) {
    return;
  }
  // 3.6 ms apart a million tasks fill the hour.
  const std::int64_t first_ns = hour_ns - clock.now().boot_ns;
  for (std::int64_t i = 0; i < kTasks; ++i) {
    (void)engine->submit({.type = "bench",
                          .deadline = after(std::chrono::nanoseconds(first_ns + i * 3'590'000)),
                          .durability = Durability::kOs});
    if (i % 100'000 == 99'999) {
      (void)engine->flush(Durability::kOs);
    }
  }
  (void)engine->flush();
  // The wheel begins a little before the last moment: neither look may meet the beginning.
  const auto lead_ns = static_cast<std::int64_t>((kDrainSeconds + 7) * 1e9);
  clock.shift(hour_ns - lead_ns - clock.now().boot_ns);
  // A call with an early deadline makes the sleeping tick thread look at the clock again.
  (void)engine->schedule({.type = "bench", .deadline = after(milliseconds(1))});
  std::this_thread::sleep_for(milliseconds(500));
  const double before = percent_of_core(2.5);
  std::this_thread::sleep_for(std::chrono::duration<double>(4.5));
  const Stats stats = engine->stats();
  const double draining = percent_of_core(std::min(idle_seconds(), 120.0));
  const auto steps = static_cast<double>(engine->stats().steps - stats.steps);
  state.counters["value"] = (draining * kDrainSeconds + before * (3600 - kDrainSeconds)) / 3600;
  state.counters["while_draining"] = draining;
  state.counters["before"] = before;
  state.counters["steps"] = steps;
  if (steps < 50 * std::min(idle_seconds(), 120.0)) {
    state.SkipWithError("the tick thread did not drain the slot in the time looked at");
  }
}

const Row rows[] = {
    {"engine.idle_cpu.10ms", [](benchmark::State& state) { idle_cpu(state, 10); }},
    {"engine.idle_cpu.1ms", [](benchmark::State& state) { idle_cpu(state, 1); }},
    {"engine.idle_cpu.drain", idle_cpu_while_draining},
};

}  // namespace
}  // namespace countwheel::bench
