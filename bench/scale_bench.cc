// Cost against the number of pending tasks, for `./dev bench --scale`: what a call costs its
// caller, how late tasks start that fall due among the others, what all take in memory, and a
// restart. The log is on disk, the payload 16 bytes.
#include <atomic>
#include <random>
#include <thread>

#include "bench_engine.h"
#include "engine_load.h"
#include "killed_log.h"
#include "wall.h"

namespace countwheel::bench {
namespace {

constexpr std::size_t kPayloadBytes = 16;

// Replaces random tasks of those pending, in rounds of so many cancels and then so many schedules;
// counters `cancel` and `submit` in nanoseconds of processor time of the caller.
void replace(benchmark::State& state, Engine& engine, std::vector<TaskId>& ids) {
  constexpr std::size_t kRound = 500;
  constexpr std::size_t kRounds = 400;
  Load load(engine, Durability::kDisk, kPayloadBytes);
  std::minstd_rand random(1);
  double cancel_s = 0;
  double submit_s = 0;
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kRound; ++i) {
      std::swap(ids[i], ids[i + random() % (ids.size() - i)]);
    }
    double before = processor_seconds();
    for (std::size_t i = 0; i < kRound; ++i) {
      load.cancel(ids[i]);
    }
    cancel_s += processor_seconds() - before;
    before = processor_seconds();
    for (std::size_t i = 0; i < kRound; ++i) {
      ids[i] = load.schedule();
    }
    submit_s += processor_seconds() - before;
  }
  load.settle();
  state.counters["cancel"] = cancel_s * 1e9 / static_cast<double>(kRound * kRounds);
  state.counters["submit"] = submit_s * 1e9 / static_cast<double>(kRound * kRounds);
}

// A thousand tasks a second for 2 s; counters start.p50, start.p99 and so on, in microseconds.
class DueTasks {
 public:
  void handle(Delivery d) {
    const std::size_t place = next_.fetch_add(1);
    if (place < starts_us_.size()) {
      starts_us_[place] = late_us(d.deadline());
    }
    (void)d.done();
  }

  void run(benchmark::State& state, Engine& engine) {
    const WallTime first = wall_now() + std::chrono::milliseconds(200);
    for (int i = 0; i < kTasks; ++i) {
      (void)engine.submit(
          {.type = "due", .deadline = at(first + i * std::chrono::milliseconds(1))});
    }
    const Clock::time_point begin = Clock::now();
    while (next_.load() < kTasks && seconds_since(begin) < 30) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    report_quantiles(state, "start.", starts_us_);
  }

 private:
  static constexpr int kTasks = 2'000;
  std::vector<double> starts_us_ = std::vector<double>(kTasks, 0);
  std::atomic<std::size_t> next_{0};
};

void engine_with(benchmark::State& state, std::size_t pending) {
  Directory directory;
  DueTasks due;
  const double before = resident_bytes();
  Result<Opened> opened = open(directory.log(), {});
  if (!opened.ok()) {
    state.SkipWithError(opened.status().text().c_str());
    return;
  }
  Engine& engine = *opened->engine;
  (void)engine.on("bench", [](Delivery d) { (void)d.done(); });
  (void)engine.on("due", [&](Delivery d) { due.handle(std::move(d)); });
  (void)engine.start();
  std::vector<TaskId> ids(pending);
  Load fill(engine, Durability::kOs, kPayloadBytes);
  for (std::size_t i = 0; i < pending; ++i) {
    ids[i] = fill.schedule();
    if (i % 10'000 == 9'999) {
      fill.settle();
    }
  }
  (void)engine.flush();
  state.counters["memory_mib"] =
      (resident_bytes() - before - static_cast<double>(pending * sizeof(TaskId))) / (1 << 20);
  replace(state, engine, ids);
  due.run(state, engine);
  (void)engine.stop();
}

void restart_with(benchmark::State& state, std::size_t live) {
  Directory directory;
  if (make_killed_log({.path = directory.log(), .live = live}) < 0) {
    state.SkipWithError("the log was not written");
    return;
  }
  const Clock::time_point start = Clock::now();
  const Result<Opened> opened = open(directory.log(), {});
  state.counters["restart"] = seconds_since(start);
  if (!opened.ok() || opened->report.live != live) {
    state.SkipWithError("the log does not hold what was scheduled");
  }
}

const bool registered = [] {
  for (const auto& [name, count] : {std::pair{"1k", std::size_t{1'000}},
                                    {"10k", 10'000},
                                    {"100k", 100'000},
                                    {"1m", 1'000'000},
                                    {"10m", 10'000'000}}) {
    Row(std::string("scale.engine.") + name,
        [count](benchmark::State& state) { engine_with(state, count); });
    Row(std::string("scale.restart.") + name,
        [count](benchmark::State& state) { restart_with(state, count); });
  }
  return true;
}();

}  // namespace
}  // namespace countwheel::bench

int main(int argc, char** argv) {
  countwheel::bench::fill_if_asked_to(argc, argv);
  return countwheel::bench::run_rows(argc, argv);
}
