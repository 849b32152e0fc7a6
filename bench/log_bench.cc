// What the log takes on disk, and how much more is written to it than the calls asked for: a
// million tasks pending, two million replaced at random, so that the cleaner has to carry tasks on.
#include <random>

#include "bench_engine.h"
#include "engine_load.h"

namespace countwheel::bench {
namespace {

constexpr std::size_t kLive = 1'000'000;
constexpr std::size_t kReplaced = 2'000'000;

void churn(benchmark::State& state) {
  Directory directory;
  std::unique_ptr<Engine> engine = open_engine(state, directory);
  if (!engine) {
    return;
  }
  Load load(*engine, Durability::kDisk, 16);
  std::vector<TaskId> ids(kLive);
  for (TaskId& id : ids) {
    id = load.schedule();
  }
  load.settle();
  const Stats filled = engine->stats();
  const double record_bytes =
      static_cast<double>(filled.journal.bytes) / static_cast<double>(filled.ops);
  std::minstd_rand random(1);
  for (std::size_t i = 0; i < kReplaced; ++i) {
    TaskId& id = ids[random() % kLive];
    load.cancel(id);
    id = load.schedule();
  }
  load.settle();
  const Stats stats = engine->stats();
  const auto written = static_cast<double>(stats.journal.bytes);
  const double carried = static_cast<double>(stats.reappended) * record_bytes;
  state.counters["bytes_per_task"] =
      static_cast<double>(stats.journal.disk_bytes) / static_cast<double>(kLive);
  state.counters["write_amplification"] = written / (written - carried);
  state.counters["record_bytes"] = record_bytes;
  state.counters["carried_on"] = static_cast<double>(stats.reappended);
}

const Row rows[] = {{"log.churn", churn}};

}  // namespace
}  // namespace countwheel::bench
