// Ours: an engine with its log on disk, every operation synced, exact precision, default options.
// Lateness is taken at the start of the handler.
#include <atomic>
#include <csignal>
#include <memory>
#include <mutex>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "experiments/experiments.h"

namespace countwheel::bench {
namespace {

using std::chrono::milliseconds;

WallTime wall_now() {
  return std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now());
}

double ms_between(WallTime from, WallTime to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// An engine whose handler writes down how late each task starts.
class Recording {
 public:
  explicit Recording(std::size_t count) : lateness_ms_(count) {}

  bool open(benchmark::State& state, OpenOptions options = {}) {
    Result<Opened> opened = countwheel::open(directory_.log(), std::move(options));
    if (!opened.ok()) {
      state.SkipWithError(opened.status().text().c_str());
      return false;
    }
    engine_ = std::move(opened->engine);
    (void)engine_->on("task", [this](Delivery d) {
      const double ms = ms_between(d.deadline(), wall_now());
      const std::size_t place = next_.fetch_add(1);
      if (place < lateness_ms_.size()) {
        lateness_ms_[place] = ms;
      }
      (void)d.done();
    });
    (void)engine_->on("filler", [this](Delivery d) {
      const double ms = ms_between(d.deadline(), wall_now());
      double most = filler_max_ms_.load();
      while (ms > most && !filler_max_ms_.compare_exchange_weak(most, ms)) {
      }
      (void)d.done();
    });
    return engine_->start().ok();
  }

  Engine& engine() { return *engine_; }

  bool schedule(WallTime due) { return schedule("task", due); }
  // One that is there to be many; its lateness does not count, but is told.
  bool schedule_filler(WallTime due) { return schedule("filler", due); }
  double filler_max_ms() const { return filler_max_ms_.load(); }

  // Until `count` tasks have started or the patience is over; the lateness of those that have.
  std::vector<double> wait_for(std::size_t count, double patience_s) {
    const Clock::time_point begin = Clock::now();
    while (next_.load() < count && seconds_since(begin) < patience_s) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    (void)engine_->stop();
    std::vector<double> lateness_ms = lateness_ms_;
    lateness_ms.resize(std::min(next_.load(), lateness_ms.size()));
    return lateness_ms;
  }

 private:
  bool schedule(std::string_view type, WallTime due) {
    return engine_->submit({.type = type, .deadline = at(due), .payload = "0123456789abcdef"}).ok();
  }

  Directory directory_;
  std::vector<double> lateness_ms_;
  std::atomic<std::size_t> next_{0};
  std::atomic<double> filler_max_ms_{0};
  std::unique_ptr<Engine> engine_;
};

// 1,000 tasks over two seconds, or all at one instant.
void spread(benchmark::State& state, int width_ms) {
  Recording recording(kSpreadTasks);
  if (!recording.open(state)) {
    return;
  }
  const WallTime start = wall_now();
  for (const int offset_ms : due_offsets_ms(kSpreadTasks, kSpreadFromMs, width_ms)) {
    (void)recording.schedule(start + milliseconds(offset_ms));
  }
  std::vector<double> lateness_ms = recording.wait_for(kSpreadTasks, 10);
  report_lateness_ms(state, lateness_ms);
}

// Four threads that handle, one instant: how often each task is handled.
void consumers(benchmark::State& state) {
  const Directory directory;
  OpenOptions options;
  options.engine.workers = kConsumers;
  Result<Opened> opened = countwheel::open(directory.log(), std::move(options));
  if (!opened.ok()) {
    state.SkipWithError(opened.status().text().c_str());
    return;
  }
  Engine& engine = *opened->engine;
  std::vector<std::atomic<int>> handled(kRaceTasks);
  std::atomic<int> total{0};
  (void)engine.on("task", [&](Delivery d) {
    ++handled[std::strtoul(std::string(d.payload()).c_str(), nullptr, 10)];
    (void)d.done();
    ++total;
  });
  (void)engine.start();
  const WallTime due = wall_now() + milliseconds(kSpreadFromMs);
  for (int i = 0; i < kRaceTasks; ++i) {
    (void)engine.submit({.type = "task", .deadline = at(due), .payload = std::to_string(i)});
  }
  const Clock::time_point begin = Clock::now();
  while (total.load() < kRaceTasks && seconds_since(begin) < 10) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  // Long enough for whatever might come a second time.
  std::this_thread::sleep_for(milliseconds(300));
  (void)engine.stop();
  state.counters["handled"] = total.load();
  state.counters["more_than_once"] = static_cast<double>(std::count_if(
      handled.begin(), handled.end(), [](const std::atomic<int>& n) { return n.load() > 1; }));
}

// A process that is killed when ten handlers have started, and what the next one makes of it.
void crash(benchmark::State& state) {
  const Directory directory;
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "experiments_bench", "--crash", directory.log().c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Result<Opened> opened = countwheel::open(directory.log(), {});
  if (!opened.ok() || !WIFSIGNALED(status)) {
    state.SkipWithError("the crash did not happen as planned");
    return;
  }
  std::atomic<int> done{0};
  (void)opened->engine->on("task", [&](Delivery d) { done += d.done().ok() ? 1 : 0; });
  (void)opened->engine->start();
  const Clock::time_point begin = Clock::now();
  while (done.load() < kCrashTasks && seconds_since(begin) < 10) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  (void)opened->engine->stop();
  state.counters["done"] = done.load();
  state.counters["redelivered"] = static_cast<double>(opened->report.redelivered);
}

// Millions pending from 5 s to 7 days, and the lateness of ten thousand more among them.
void mixed(benchmark::State& state) {
  const std::size_t pending = pending_count();
  Recording recording(kProbeTasks);
  if (!recording.open(state)) {
    return;
  }
  const double memory = resident_bytes();
  MixedDelays delays;
  const WallTime first = wall_now();
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = 0; i < pending; ++i) {
    (void)recording.schedule_filler(first + milliseconds(delays.next_ms()));
    if (i % 100'000 == 99'999) {
      (void)recording.engine().flush();
    }
  }
  (void)recording.engine().flush();
  state.counters["schedules_per_s"] = static_cast<double>(pending) / seconds_since(begin);
  state.counters["bytes_per_task"] = (resident_bytes() - memory) / static_cast<double>(pending);
  const WallTime start = wall_now();
  for (const int offset_ms : due_offsets_ms(kProbeTasks, 1000, kProbeWidthMs)) {
    (void)recording.schedule(start + milliseconds(offset_ms));
  }
  std::vector<double> lateness_ms = recording.wait_for(kProbeTasks, 20);
  state.counters["filler_max"] = recording.filler_max_ms();
  report_lateness_ms(state, lateness_ms);
}

// 5,000 schedules a second, each due one to five seconds later.
void sustained(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(kSustainedPerSecond * sustained_seconds());
  Recording recording(count);
  if (!recording.open(state)) {
    return;
  }
  const std::vector<int> offsets_ms = due_offsets_ms(count, 1000, 4000);
  const Clock::time_point begin = Clock::now();
  const double cpu = cpu_seconds();
  for (std::size_t i = 0; i < count; ++i) {
    std::this_thread::sleep_until(begin + milliseconds(1000 * (i / 5) * 5 / kSustainedPerSecond));
    (void)recording.schedule(wall_now() + milliseconds(offsets_ms[i]));
  }
  const double seconds = seconds_since(begin);
  state.counters["schedules_per_s"] = static_cast<double>(count) / seconds;
  state.counters["cpu_percent"] = 100 * (cpu_seconds() - cpu) / seconds;
  std::vector<double> lateness_ms = recording.wait_for(count, 10);
  report_lateness_ms(state, lateness_ms);
  const auto in_time = std::count_if(
      lateness_ms.begin(), lateness_ms.end(), [](double ms) { return ms <= kSustainedLimitMs; });
  state.counters["missed"] = static_cast<double>(count) - static_cast<double>(in_time);
}

}  // namespace

void take_ten_and_crash(const std::string& log) {
  Result<Opened> opened = countwheel::open(log, {});
  if (!opened.ok()) {
    _exit(1);
  }
  std::mutex mutex;
  std::vector<Delivery> taken;
  (void)opened->engine->on("task", [&](Delivery d) {
    const std::lock_guard lock(mutex);
    taken.push_back(std::move(d));
    if (taken.size() == kCrashTaken) {
      raise(SIGKILL);
    }
  });
  (void)opened->engine->start();
  const WallTime due = wall_now() + milliseconds(200);
  for (int i = 0; i < kCrashTasks; ++i) {
    (void)opened->engine->submit({.type = "task", .deadline = at(due)});
  }
  (void)opened->engine->flush();
  std::this_thread::sleep_for(std::chrono::seconds(10));
  _exit(2);
}

void register_countwheel_experiments() {
  add_experiment("experiment.spread/countwheel",
                 [](benchmark::State& state) { spread(state, kSpreadWidthMs); });
  add_experiment("experiment.instant/countwheel",
                 [](benchmark::State& state) { spread(state, 0); });
  add_experiment("experiment.consumers/countwheel", consumers);
  add_experiment("experiment.crash/countwheel", crash);
  add_experiment("experiment.mixed/countwheel", mixed);
  add_experiment("experiment.sustained/countwheel", sustained);
}

}  // namespace countwheel::bench
