// What calls cost their caller, and what a pending task costs in memory. The log is on disk, the
// payload 16 bytes.
#include <atomic>
#include <random>
#include <thread>

#include "bench_engine.h"
#include "engine_load.h"

namespace countwheel::bench {
namespace {

constexpr std::string_view kPayload = "0123456789abcdef";

// What reading the clock twice costs by itself, which every sample holds once.
double clock_ns() {
  std::vector<double> samples;
  for (int i = 0; i < 20'000; ++i) {
    const Clock::time_point start = Clock::now();
    samples.push_back(seconds_since(start) * 1e9);
  }
  return quantile(samples, 0.5);
}

// What one submit() costs its caller, less the clock. At a rate the calls come at moments fixed
// before (open loop), and the time from the return to the next moment is spent waiting; flat out
// (rate 0) the caller is held back only by how far it may be ahead of the log.
void submit_at(benchmark::State& state, std::int64_t rate) {
  Directory directory;
  std::unique_ptr<Engine> engine = open_engine(state, directory);
  if (!engine) {
    return;
  }
  const auto calls =
      static_cast<std::size_t>(rate == 0 ? 1'000'000 : std::min<std::int64_t>(rate * 2, 100'000));
  std::vector<double> samples;
  samples.reserve(calls);
  const double clock = clock_ns();
  std::uint64_t last_lsn = 0;
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = 0; i < calls; ++i) {
    if (rate != 0) {
      const auto due =
          begin + std::chrono::nanoseconds(static_cast<std::int64_t>(i) * 1'000'000'000 / rate);
      while (Clock::now() < due) {
      }
    } else if (i % 256 == 0 && last_lsn > 200'000) {
      (void)engine->wait_durable({last_lsn - 200'000}, Durability::kDisk);
    }
    const Clock::time_point start = Clock::now();
    const Result<Submitted> submitted = engine->submit(far_away(kPayload, Durability::kDisk));
    samples.push_back(seconds_since(start) * 1e9 - clock);
    last_lsn = submitted.ok() ? submitted->lsn.value : last_lsn;
  }
  report_quantiles(state, "", samples);
  state.counters["value"] = state.counters["p50"];
  state.counters["clock_ns"] = clock;
}

// Cancels of random tasks out of n pending, a second, until the last is durable at disk. Few tasks
// are filled up and cancelled again and again, and the cancels alone are timed.
double cancels_per_second(Engine& engine, std::size_t pending) {
  constexpr std::size_t kCancels = 500'000;
  std::minstd_rand random(1);
  std::size_t done = 0;
  double seconds = 0;
  while (done < kCancels) {
    Load fill(engine, Durability::kOs, kPayload.size());
    std::vector<TaskId> ids(pending);
    for (TaskId& id : ids) {
      id = fill.schedule();
    }
    (void)engine.flush(Durability::kDisk);
    std::shuffle(ids.begin(), ids.end(), random);
    Load load(engine, Durability::kDisk, 0);
    const Clock::time_point start = Clock::now();
    for (const TaskId id : ids) {
      load.cancel(id);
    }
    load.settle();
    seconds += seconds_since(start);
    done += pending;
  }
  return static_cast<double>(done) / seconds;
}

void cancel_of(benchmark::State& state, std::size_t pending) {
  Directory directory;
  std::unique_ptr<Engine> engine = open_engine(state, directory);
  if (engine) {
    state.counters["value"] = cancels_per_second(*engine, pending);
  }
}

// Resident memory of a million pending tasks, beside the payload, without a log.
void bytes_per_task(benchmark::State& state) {
  constexpr std::size_t kTasks = 1'000'000;
  std::atomic<int> ticks{0};
  Result<std::unique_ptr<Engine>> made = Engine::create({});
  if (!made.ok() ||
      !(*made)
           ->on("tick",
                [&](Delivery d) {
                  (void)d.done();
                  ticks.fetch_add(1);
                })
           .ok() ||
      !(*made)->start().ok()) {
    state.SkipWithError("cannot start");
    return;
  }
  Load load(**made, Durability::kMemory, kPayload.size());
  const double before = resident_bytes();
  for (std::size_t i = 0; i < kTasks; ++i) {
    benchmark::DoNotOptimize(load.schedule());
    if (i % 10'000 == 9'999) {
      // What still waits for the log or for the tick thread would count. A task that is due makes
      // the tick thread take all that came before it.
      load.settle();
      const int before_ticks = ticks.load();
      (void)(*made)->schedule({.type = "tick", .deadline = after(std::chrono::seconds(0))});
      while (ticks.load() == before_ticks) {
        std::this_thread::yield();
      }
    }
  }
  load.settle();
  state.counters["value"] = (resident_bytes() - before) / static_cast<double>(kTasks) -
                            static_cast<double>(kPayload.size());
}

Row submit_row(const char* name, std::int64_t rate) {
  return {name, [=](benchmark::State& state) { submit_at(state, rate); }};
}

Row cancel_row(const char* name, std::size_t pending) {
  return {name, [=](benchmark::State& state) { cancel_of(state, pending); }};
}

const Row rows[] = {
    submit_row("engine.submit.1k", 1'000),
    submit_row("engine.submit.10k", 10'000),
    submit_row("engine.submit.100k", 100'000),
    submit_row("engine.submit.max", 0),
    cancel_row("engine.cancel.10k", 10'000),
    cancel_row("engine.cancel.100k", 100'000),
    cancel_row("engine.cancel.1m", 1'000'000),
    cancel_row("engine.cancel.5m", 5'000'000),
    {"engine.bytes_per_task", bytes_per_task},
};

}  // namespace
}  // namespace countwheel::bench

BENCHMARK_MAIN();
