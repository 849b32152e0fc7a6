// Restart after kill -9: a child fills a log and is killed, the parent opens it.
#include <csignal>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_engine.h"

namespace countwheel::bench {
namespace {

// Schedules `live` tasks and cancels and moves a quarter of as many more, then waits to be killed.
void fill(const std::string& log, std::size_t live, bool clean) {
  Result<Opened> opened = open(log, {});
  if (!opened.ok() || !opened->engine->start().ok()) {
    _exit(1);
  }
  Engine& engine = *opened->engine;
  std::minstd_rand random(1);
  std::vector<TaskId> ids;
  const std::size_t total = live + live / 4;
  for (std::size_t i = 0; i < total; ++i) {
    const Result<Submitted> submitted =
        engine.submit({.type = "bench",
                       .deadline = after(std::chrono::seconds(3600 + random() % 604'800)),
                       .payload = "0123456789abcdef",
                       .durability = Durability::kOs});
    if (submitted.ok()) {
      ids.push_back(submitted->id);
    }
    if (i % 100'000 == 99'999) {
      (void)engine.flush(Durability::kOs);
    }
  }
  std::shuffle(ids.begin(), ids.end(), random);
  for (std::size_t i = 0; i < live / 4; ++i) {
    (void)engine.submit_cancel(ids[i]);
    (void)engine.submit_reschedule(ids[live / 4 + i], after(std::chrono::hours(24)));
    if (i % 50'000 == 49'999) {
      (void)engine.flush(Durability::kOs);
    }
  }
  (void)engine.flush(Durability::kDisk);
  if (clean) {
    (void)engine.stop();
  }
  raise(SIGKILL);
}

void recover(benchmark::State& state, bool clean) {
  const auto live = static_cast<std::size_t>(state.range(0));
  for (auto unused : state) {
    Directory directory;
    // A new program, not a fork: the threads of RocksDB do not survive one.
    const pid_t child = fork();
    if (child == 0) {
      const std::string count = std::to_string(live);
      execl("/proc/self/exe",
            "recovery_bench",
            "--fill",
            directory.log().c_str(),
            count.c_str(),
            clean ? "clean" : "killed",
            nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    const Clock::time_point start = Clock::now();
    Result<Opened> opened = open(directory.log(), {});
    const double seconds = seconds_since(start);
    if (!opened.ok() || opened->report.live != live) {
      state.SkipWithError("the log does not hold what was scheduled");
      return;
    }
    state.SetIterationTime(seconds);
    state.counters["open_s"] = opened->report.open_seconds;
    state.counters["replay_s"] = opened->report.replay_seconds;
    state.counters["ops"] = static_cast<double>(opened->report.ops);
    state.counters["ops_per_s"] = opened->report.ops_per_second;
  }
}
BENCHMARK_CAPTURE(recover, killed, false)
    ->Name("recovery.full")
    ->Arg(1'000'000)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(recover, clean, true)
    ->Name("recovery.full.clean")
    ->Arg(1'000'000)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(recover, killed, false)
    ->Name("recovery.full")
    ->Arg(10'000'000)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace countwheel::bench

int main(int argc, char** argv) {
  using std::string_view;
  if (argc == 5 && argv[1] == string_view("--fill")) {
    countwheel::bench::fill(
        argv[2], std::strtoull(argv[3], nullptr, 10), argv[4] == string_view("clean"));
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
