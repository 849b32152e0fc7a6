// Throughput of the whole engine: submit and cancel from one thread, no key. The order mix is that
// of real order flow: everything scheduled is cancelled, 17 % of the cancels aim at the last 1,000
// schedules.
#include <random>

#include "bench_engine.h"
#include "engine_load.h"

namespace countwheel::bench {
namespace {

// Keeps `resident` tasks alive and replaces them one by one.
class Mix {
 public:
  Mix(Load& load, std::size_t resident) : load_(load) {
    for (std::size_t i = 0; i < resident; ++i) {
      schedule();
    }
    load_.settle();
  }

  void schedule() { live_.push_back(load_.schedule()); }

  void cancel() {
    const std::size_t reach = std::min<std::size_t>(live_.size(), 1000);
    const bool young = random_() % 100 < 17;
    const std::size_t place =
        young ? live_.size() - 1 - random_() % reach : random_() % live_.size();
    load_.cancel(live_[place]);
    live_[place] = live_.back();
    live_.pop_back();
  }

 private:
  Load& load_;
  std::vector<TaskId> live_;
  std::minstd_rand random_{1};
};

// Logged operations a second (elided ones are not counted), and the processor time of the whole
// process for each operation.
void order_mix(benchmark::State& state,
               Durability durability,
               std::size_t payload_bytes,
               std::size_t resident) {
  constexpr std::size_t kPairs = 1'500'000;
  Directory directory;
  std::unique_ptr<Engine> engine = open_engine(state, directory);
  if (!engine) {
    return;
  }
  Load load(*engine, durability, payload_bytes);
  Mix mix(load, resident);
  const Stats before = engine->stats();
  const double cpu = cpu_seconds();
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < kPairs; ++i) {
    mix.schedule();
    mix.cancel();
  }
  load.settle();
  const double seconds = seconds_since(start);
  const double cpu_used = cpu_seconds() - cpu;
  const Stats after = engine->stats();
  const auto ops = static_cast<double>(after.ops - before.ops);
  const auto elided = static_cast<double>(after.elided - before.elided);
  const std::uint64_t syncs =
      std::max<std::uint64_t>(after.journal.syncs - before.journal.syncs, 1);
  state.counters["value"] = (ops - elided) / seconds;
  state.counters["cpu_per_op"] = cpu_used * 1e6 / ops;
  state.counters["elided_share"] = elided / ops;
  state.counters["ops_per_sync"] = ops / static_cast<double>(syncs);
}

Row mix_row(const char* name,
            Durability durability,
            std::size_t payload_bytes = 16,
            std::size_t resident = 100'000) {
  return {name,
          [=](benchmark::State& state) { order_mix(state, durability, payload_bytes, resident); }};
}

// Schedules alone, far away: two million, until the last is as durable as was asked for. The figure
// is how many a second.
void durable_ops(benchmark::State& state, Durability durability) {
  constexpr std::size_t kTasks = 2'000'000;
  Directory directory;
  std::unique_ptr<Engine> engine = open_engine(state, directory);
  if (!engine) {
    return;
  }
  Load load(*engine, durability, 16);
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < kTasks; ++i) {
    benchmark::DoNotOptimize(load.schedule());
  }
  load.settle();
  state.counters["value"] = static_cast<double>(kTasks) / seconds_since(start);
}

Row durable_row(const char* name, Durability durability) {
  return {name, [=](benchmark::State& state) { durable_ops(state, durability); }};
}

const Row rows[] = {
    mix_row("engine.order_mix.disk", Durability::kDisk),
    mix_row("engine.order_mix.disk.payload100", Durability::kDisk, 100),
    mix_row("engine.order_mix.disk.resident1m", Durability::kDisk, 16, 1'000'000),
    mix_row("engine.order_mix.os", Durability::kOs),
    mix_row("engine.order_mix.os.payload100", Durability::kOs, 100),
    mix_row("engine.order_mix.memory", Durability::kMemory),
    durable_row("engine.durable_ops.disk", Durability::kDisk),
    durable_row("engine.durable_ops.os", Durability::kOs),
    durable_row("engine.durable_ops.memory", Durability::kMemory),
};

}  // namespace
}  // namespace countwheel::bench
