// Precision under load: how late tasks that are durable already are handed over while the engine
// and its log have something else to do. 2,000 a second for 2.5 s, scheduled before the load
// begins.
#include <atomic>
#include <functional>
#include <thread>

#include <rocksdb/utilities/checkpoint.h>

#include <countwheel/rocksdb.h>

#include "bench_engine.h"
#include "recording_clock.h"
#include "slow_sync_env.h"
#include "wall.h"

namespace countwheel::bench {
namespace {

constexpr int kTasks = 5'000;
constexpr std::chrono::microseconds kSpacing(500);
constexpr std::chrono::seconds kLead(2);

// What goes on meanwhile, on a thread of its own, until it is told to stop.
using Load = std::function<void(Engine&, const std::atomic<bool>& stop)>;

struct Situation {
  std::function<void(OpenOptions&)> configure = [](OpenOptions&) {};
  // Before the tasks are scheduled; `first` is when the first of them is due.
  std::function<void(Engine&, WallTime first)> prepare = [](Engine&, WallTime) {};
  Load load = [](Engine&, const std::atomic<bool>&) {};
};

void precision(benchmark::State& state, const Situation& situation) {
  Directory directory;
  RecordingClock clock;
  OpenOptions options;
  options.clock = &clock;
  situation.configure(options);
  Result<Opened> opened = open(directory.log(), std::move(options));
  if (!opened.ok()) {
    state.SkipWithError(opened.status().text().c_str());
    return;
  }
  Engine& engine = *opened->engine;
  std::atomic<int> runs{0};
  (void)engine.on("bench", [&](Delivery d) {
    runs.fetch_add(1);
    (void)d.done();
  });
  (void)engine.on("slow", [](Delivery d) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    (void)d.done();
  });
  (void)engine.start();
  const WallTime first = wall_now() + kLead;
  situation.prepare(engine, first);
  std::vector<std::int64_t> moments_ns;
  for (int i = 0; i < kTasks; ++i) {
    const WallTime due = first + i * kSpacing;
    moments_ns.push_back(due.time_since_epoch().count());
    (void)engine.submit({.type = "bench", .deadline = at(due)});
  }
  (void)engine.flush();
  clock.watch(moments_ns);
  if (wall_now() >= first) {
    state.SkipWithError("not ready in time");
    return;
  }
  std::atomic<bool> stop{false};
  std::thread loader([&] { situation.load(engine, stop); });
  std::this_thread::sleep_until(first + kTasks * kSpacing + std::chrono::milliseconds(200));
  stop.store(true);
  loader.join();
  (void)engine.stop(std::chrono::seconds(5));
  std::vector<double> late_us;
  for (int i = 0; i < kTasks; ++i) {
    const auto place = static_cast<std::size_t>(i);
    late_us.push_back(static_cast<double>(clock.handed_over()[place] - moments_ns[place]) / 1e3);
  }
  if (*std::min_element(late_us.begin(), late_us.end()) < 0) {
    state.SkipWithError("a task was early or lost");
  }
  report_quantiles(state, "handover.", late_us);
}

// 100-byte payloads, scheduled and cancelled without a pause, but never far ahead of the log.
void churn(Engine& engine, const std::atomic<bool>& stop) {
  const std::string payload(100, 'x');
  std::vector<TaskId> live;
  while (!stop.load()) {
    Lsn last;
    for (int i = 0; i < 5'000; ++i) {
      const Result<Submitted> submitted = engine.submit({.type = "bench",
                                                         .deadline = after(std::chrono::hours(8)),
                                                         .payload = payload,
                                                         .durability = Durability::kOs});
      if (submitted.ok()) {
        live.push_back(submitted->id);
        last = submitted->lsn;
      }
    }
    (void)engine.wait_durable(last, Durability::kOs);
    for (const TaskId id : live) {
      last = engine.submit_cancel(id, Durability::kOs).lsn;
    }
    live.clear();
    (void)engine.wait_durable(last, Durability::kOs);
  }
}

void checkpoints(Engine& engine, const std::atomic<bool>& stop) {
  rocksdb::Checkpoint* made = nullptr;
  if (!rocksdb::Checkpoint::Create(&engine.app_database()->db(), &made).ok()) {
    std::abort();
  }
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  const Directory directory;
  for (int i = 0; !stop.load(); ++i) {
    (void)checkpoint->CreateCheckpoint(directory.path() + "/checkpoint" + std::to_string(i));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

// A million due in the second that follows the measured ones: drained meanwhile, never started.
void a_million_next_second(Engine& engine, WallTime first) {
  const WallTime next = first + kTasks * kSpacing + std::chrono::milliseconds(500);
  for (int i = 0; i < 1'000'000; ++i) {
    (void)engine.submit({.type = "nobody",
                         .deadline = at(next + i * std::chrono::nanoseconds(1'000)),
                         .durability = Durability::kOs});
    if (i % 100'000 == 99'999) {
      (void)engine.flush(Durability::kOs);
    }
  }
}

void both_workers_busy(Engine& engine, WallTime first) {
  for (int i = 0; i < 400; ++i) {
    (void)engine.submit({.type = "slow", .deadline = at(first - std::chrono::milliseconds(100))});
  }
}

Row precision_row(const char* name, Situation situation) {
  return {name, [situation = std::move(situation)](benchmark::State& state) {
            precision(state, situation);
          }};
}

SlowSyncEnv& slow_sync() {
  static SlowSyncEnv env(std::chrono::milliseconds(100));
  return env;
}

const Row rows[] = {
    precision_row("engine.precision.quiet", {}),
    precision_row("engine.precision.flushing", {.load = churn}),
    precision_row("engine.precision.cleaning",
                  {.configure =
                       [](OpenOptions& options) {
                         options.wal.min_log_bytes = 1 << 20;
                         options.wal.memtable_bytes = 1 << 20;
                       },
                   .load = churn}),
    precision_row(
        "engine.precision.checkpoint",
        {.configure = [](OpenOptions& options) { options.wal.app_column_families = {{"orders"}}; },
         .load = checkpoints}),
    precision_row("engine.precision.cascade", {.prepare = a_million_next_second}),
    precision_row("engine.precision.saturated", {.prepare = both_workers_busy}),
    precision_row(
        "engine.precision.slow_sync",
        {.configure = [](OpenOptions& options) { options.wal.env = &slow_sync(); }, .load = churn}),
};

}  // namespace
}  // namespace countwheel::bench

BENCHMARK_MAIN();
