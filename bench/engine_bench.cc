// Throughput of the whole engine: submit and cancel from one thread, no key, 16-byte payload, the
// log on disk. The order mix is that of real order flow: everything scheduled is cancelled, 17 % of
// the cancels aim at the last 1,000 schedules.
#include <random>

#include "bench_engine.h"

namespace countwheel::bench {
namespace {

constexpr std::string_view kPayload = "0123456789abcdef";

TaskSpec spec(Durability durability) {
  return {.type = "bench",
          .deadline = after(std::chrono::hours(8)),
          .payload = kPayload,
          .durability = durability};
}

// Keeps `resident` tasks alive and replaces them one by one.
class Mix {
 public:
  Mix(Engine& engine, Durability durability) : engine_(engine), durability_(durability) {}

  void fill(std::size_t resident) {
    for (std::size_t i = 0; i < resident; ++i) {
      schedule();
    }
    (void)engine_.flush(durability_);
  }

  void schedule() {
    const Result<Submitted> submitted = engine_.submit(spec(durability_));
    if (submitted.ok()) {
      live_.push_back(submitted->id);
      last_ = submitted->lsn;
    }
  }

  void cancel() {
    const std::size_t reach = std::min<std::size_t>(live_.size(), 1000);
    const bool young = random_() % 100 < 17;
    const std::size_t place =
        young ? live_.size() - 1 - random_() % reach : random_() % live_.size();
    const Change change = engine_.submit_cancel(live_[place]);
    last_ = change.lsn;
    live_[place] = live_.back();
    live_.pop_back();
  }

  // The producer never runs more than this ahead of the log.
  void pace() {
    constexpr std::uint64_t kAhead = 200'000;
    if (last_.value > kAhead && engine_.durable_lsn(durability_).value < last_.value - kAhead) {
      (void)engine_.wait_durable({last_.value - kAhead / 2}, durability_);
    }
  }

 private:
  Engine& engine_;
  Durability durability_;
  std::vector<TaskId> live_;
  std::minstd_rand random_{1};
  Lsn last_;
};

// engine.order_mix: logged operations a second.
void order_mix(benchmark::State& state, Durability durability, std::size_t resident) {
  constexpr std::size_t kPairs = 1'500'000;
  for (auto unused : state) {
    Directory directory;
    OpenOptions options;
    options.engine.durability = durability;
    std::unique_ptr<Engine> engine = open_engine(state, directory, std::move(options));
    if (!engine) {
      return;
    }
    Mix mix(*engine, durability);
    mix.fill(resident);
    const Stats before = engine->stats();
    const double cpu = cpu_seconds();
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < kPairs; ++i) {
      mix.schedule();
      mix.cancel();
      if (i % 256 == 0) {
        mix.pace();
      }
    }
    (void)engine->flush(durability);
    const double seconds = seconds_since(start);
    const Stats after = engine->stats();
    const auto ops = static_cast<double>(after.ops - before.ops);
    const auto elided = static_cast<double>(after.elided - before.elided);
    state.SetIterationTime(seconds);
    state.counters["logged_per_s"] = (ops - elided) / seconds;
    state.counters["elided_share"] = elided / ops;
    state.counters["cpu_us_per_op"] = (cpu_seconds() - cpu) * 1e6 / ops;
    state.counters["ops_per_sync"] = ops / static_cast<double>(std::max<std::uint64_t>(
                                               after.journal.syncs - before.journal.syncs, 1));
  }
}
BENCHMARK_CAPTURE(order_mix, disk, Durability::kDisk, 100'000)
    ->Name("engine.order_mix.disk")
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(order_mix, os, Durability::kOs, 100'000)
    ->Name("engine.order_mix.os")
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(order_mix, memory, Durability::kMemory, 100'000)
    ->Name("engine.order_mix.memory")
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(order_mix, disk_1m, Durability::kDisk, 1'000'000)
    ->Name("engine.order_mix.disk.1m_resident")
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);

// engine.submit.{rate}: what one submit() costs its caller, at a constant rate.
void submit_at(benchmark::State& state) {
  const auto rate = state.range(0);
  Directory directory;
  std::unique_ptr<Engine> engine = open_engine(state, directory);
  if (!engine) {
    return;
  }
  std::vector<double> samples;
  const auto calls = static_cast<std::size_t>(rate);
  for (auto unused : state) {
    const Clock::time_point begin = Clock::now();
    for (std::size_t i = 0; i < calls; ++i) {
      const auto due =
          begin + std::chrono::nanoseconds(static_cast<std::int64_t>(i) * 1'000'000'000 / rate);
      while (Clock::now() < due) {
      }
      const Clock::time_point start = Clock::now();
      benchmark::DoNotOptimize(engine->submit(spec(Durability::kDisk)));
      samples.push_back(seconds_since(start) * 1e9);
    }
  }
  report_quantiles(state, "ns_", samples);
}
BENCHMARK(submit_at)
    ->Name("engine.submit")
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(100'000)
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

// engine.cancel.{n}: cancels of random tasks out of n pending.
void cancel_of(benchmark::State& state) {
  const auto pending = static_cast<std::size_t>(state.range(0));
  for (auto unused : state) {
    Directory directory;
    std::unique_ptr<Engine> engine = open_engine(state, directory);
    if (!engine) {
      return;
    }
    std::vector<TaskId> ids;
    for (std::size_t i = 0; i < pending; ++i) {
      const Result<Submitted> submitted = engine->submit(spec(Durability::kOs));
      if (submitted.ok()) {
        ids.push_back(submitted->id);
      }
      if (i % 100'000 == 99'999) {
        (void)engine->flush(Durability::kOs);
      }
    }
    (void)engine->flush(Durability::kDisk);
    std::shuffle(ids.begin(), ids.end(), std::minstd_rand(1));
    const Clock::time_point start = Clock::now();
    std::size_t done = 0;
    for (const TaskId id : ids) {
      (void)engine->submit_cancel(id);
      if (++done % 100'000 == 0) {
        (void)engine->flush(Durability::kOs);
      }
    }
    (void)engine->flush(Durability::kDisk);
    const double seconds = seconds_since(start);
    state.SetIterationTime(seconds);
    state.counters["cancels_per_s"] = static_cast<double>(ids.size()) / seconds;
  }
}
BENCHMARK(cancel_of)
    ->Name("engine.cancel")
    ->Arg(10'000)
    ->Arg(100'000)
    ->Arg(1'000'000)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);

// engine.bytes_per_task: resident memory of a million pending tasks, beside the payload's 16 B.
void bytes_per_task(benchmark::State& state) {
  constexpr std::size_t kTasks = 1'000'000;
  for (auto unused : state) {
    Result<std::unique_ptr<Engine>> made = Engine::create({});
    if (!made.ok() || !(*made)->start().ok()) {
      state.SkipWithError("cannot start");
      return;
    }
    const double before = resident_bytes();
    for (std::size_t i = 0; i < kTasks; ++i) {
      benchmark::DoNotOptimize((*made)->submit(spec(Durability::kMemory)));
      if (i % 10'000 == 0) {
        (void)(*made)->flush(Durability::kOs);
      }
    }
    (void)(*made)->flush(Durability::kOs);
    state.counters["bytes"] = (resident_bytes() - before) / static_cast<double>(kTasks) - 16.0;
  }
}
BENCHMARK(bytes_per_task)->Name("engine.bytes_per_task")->Iterations(1);

}  // namespace
}  // namespace countwheel::bench

BENCHMARK_MAIN();
