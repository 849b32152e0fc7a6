// Herds: everything due at one instant, the log on disk, handlers that read key and payload. The
// figure is when the last handler has started, in milliseconds after the deadline.
#include <atomic>
#include <string>
#include <thread>

#include "bench_engine.h"
#include "wall.h"

namespace countwheel::bench {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kPayload = "0123456789abcdef";

void schedule_herd(Engine& engine, int tasks, WallTime due) {
  for (int i = 0; i < tasks; ++i) {
    const std::string key = "order-" + std::to_string(i);
    (void)engine.submit({.type = "bench",
                         .deadline = at(due),
                         .key = key,
                         .payload = kPayload,
                         .durability = Durability::kOs});
    if (i % 100'000 == 99'999) {
      (void)engine.flush(Durability::kOs);
    }
  }
  (void)engine.flush(Durability::kOs);
}

// With `slow`, the first handler holds its worker for 20 ms: the others must not wait behind it.
void herd(benchmark::State& state, int tasks, bool slow) {
  Directory directory;
  Result<Opened> opened = open(directory.log(), {});
  if (!opened.ok()) {
    state.SkipWithError(opened.status().text().c_str());
    return;
  }
  Engine& engine = *opened->engine;
  std::atomic<int> runs{0};
  std::atomic<std::uint64_t> read_bytes{0};
  std::atomic<double> last_us{0};
  (void)engine.on("bench", [&](Delivery d) {
    const int run = runs.fetch_add(1, std::memory_order_relaxed) + 1;
    if (run == tasks) {
      last_us.store(late_us(d.deadline()));
    }
    read_bytes.fetch_add(d.key().size() + static_cast<unsigned char>(d.payload().front()),
                         std::memory_order_relaxed);
    if (slow && run == 1) {
      std::this_thread::sleep_for(milliseconds(20));
    }
    (void)d.done();
  });
  (void)engine.start();
  const WallTime due = wall_now() + milliseconds(600 + tasks / 200);
  schedule_herd(engine, tasks, due);
  const double ready_ms = -late_us(due) / 1e3;
  const Clock::time_point begin = Clock::now();
  while (runs.load() < tasks && seconds_since(begin) < 60) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  state.counters["value"] = last_us.load() / 1e3;
  state.counters["ready_ms_before"] = ready_ms;
  (void)engine.stop();
  if (runs.load() != tasks || ready_ms < 20 || read_bytes.load() == 0) {
    state.SkipWithError("the machine was too slow to schedule the herd before it was due");
  }
}

const Row rows[] = {
    {"engine.herd.100k", [](benchmark::State& state) { herd(state, 100'000, false); }},
    {"engine.herd.1m", [](benchmark::State& state) { herd(state, 1'000'000, false); }},
    {"engine.herd_slow", [](benchmark::State& state) { herd(state, 100'000, true); }},
};

}  // namespace
}  // namespace countwheel::bench

BENCHMARK_MAIN();
