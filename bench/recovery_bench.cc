// Restart after kill -9 with churn in the log: until everything is loaded, and until the first
// tasks have started.
#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include "bench_engine.h"
#include "killed_log.h"
#include "wall.h"

namespace countwheel::bench {
namespace {

// Seconds of open(), which returns when all live tasks are loaded.
void recover(benchmark::State& state, std::size_t live, bool clean) {
  Directory directory;
  if (make_killed_log({.path = directory.log(), .live = live, .clean = clean}) < 0) {
    state.SkipWithError("the log was not written");
    return;
  }
  const Clock::time_point start = Clock::now();
  Result<Opened> opened = open(directory.log(), {});
  const double seconds = seconds_since(start);
  if (!opened.ok() || opened->report.live != live) {
    state.SkipWithError("the log does not hold what was scheduled");
    return;
  }
  state.counters["value"] = seconds;
  state.counters["open_s"] = opened->report.open_seconds;
  state.counters["replay_s"] = opened->report.replay_seconds;
  state.counters["ops"] = static_cast<double>(opened->report.ops);
}

// What recovery.ready waits for: keys in the order of their starts.
class Starts {
 public:
  void note(std::string_view key) {
    const std::lock_guard lock(mutex_);
    keys_.emplace_back(key);
    if (keys_.size() == kDueTasks) {
      done_.store(true);
    }
  }
  bool done() const { return done_.load(); }
  // The oldest first, the one due last at the end.
  bool in_order() {
    const std::lock_guard lock(mutex_);
    return keys_.front() == "overdue-0" && keys_.back() == "soon";
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> keys_;
  std::atomic<bool> done_{false};
};

// Seconds from open() until all overdue tasks and the one due 1 ms after the call have started.
void ready(benchmark::State& state, std::size_t live) {
  Directory directory;
  const std::int64_t open_at_ns =
      make_killed_log({.path = directory.log(), .live = live, .with_due_tasks = true});
  if (open_at_ns <= 0) {
    state.SkipWithError("the log was not written");
    return;
  }
  const WallTime open_at{std::chrono::nanoseconds(open_at_ns)};
  const double early_s = -late_us(open_at) / 1e6;
  std::this_thread::sleep_until(open_at);
  Starts starts;
  OpenOptions options;
  options.engine.workers = 1;  // so that the order of the starts is that of the hand-over
  const Clock::time_point start = Clock::now();
  Result<Opened> opened = open(directory.log(), std::move(options));
  if (!opened.ok()) {
    state.SkipWithError(opened.status().text().c_str());
    return;
  }
  Engine& engine = *opened->engine;
  double seconds = 0;
  (void)engine.on("bench", [](Delivery d) { (void)d.done(); });
  (void)engine.on("due", [&](Delivery d) {
    starts.note(d.key());
    (void)d.done();
  });
  (void)engine.start();
  while (!starts.done() && seconds_since(start) < 60) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  seconds = seconds_since(start);
  (void)engine.stop();
  if (!starts.done() || !starts.in_order() || early_s < 0) {
    state.SkipWithError("what was due after the restart did not start, or not in order");
    return;
  }
  state.counters["value"] = seconds;
}

Row full_row(const std::string& name, std::size_t live, bool clean = false) {
  return {name, [=](benchmark::State& state) { recover(state, live, clean); }};
}

Row ready_row(const std::string& name, std::size_t live) {
  return {name, [=](benchmark::State& state) { ready(state, live); }};
}

const Row rows[] = {
    full_row("recovery.full.1m", 1'000'000),
    full_row("recovery.full.10m", 10'000'000),
    full_row("recovery.full.clean.1m", 1'000'000, true),
    ready_row("recovery.ready.1m", 1'000'000),
    ready_row("recovery.ready.10m", 10'000'000),
};

}  // namespace
}  // namespace countwheel::bench

int main(int argc, char** argv) {
  countwheel::bench::fill_if_asked_to(argc, argv);
  return countwheel::bench::run_rows(argc, argv);
}
