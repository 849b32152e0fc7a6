// Callers that wait for the disk, as a multiple of what the disk gives to one: raw append +
// fdatasync, measured in the same run.
#include <atomic>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include "bench_engine.h"

namespace countwheel::bench {
namespace {

constexpr auto kDuration = std::chrono::seconds(2);

TaskSpec far_away() {
  return {.type = "bench", .deadline = after(std::chrono::hours(8)), .payload = "0123456789abcdef"};
}

// Appends 512 bytes and syncs, over and over; seconds of each.
std::vector<double> raw_syncs(const Directory& directory) {
  std::vector<double> samples;
  const int fd = ::open((directory.path() + "/raw").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  std::vector<char> block(512, 'x');
  const Clock::time_point end = Clock::now() + kDuration;
  while (fd >= 0 && Clock::now() < end) {
    const Clock::time_point start = Clock::now();
    if (::write(fd, block.data(), block.size()) < 0 || ::fdatasync(fd) != 0) {
      break;
    }
    samples.push_back(seconds_since(start));
  }
  ::close(fd);
  return samples;
}

void report(benchmark::State& state, std::vector<double>& raw, double per_s, double callers) {
  double total = 0;
  for (const double sample : raw) {
    total += sample;
  }
  const double raw_per_s = static_cast<double>(raw.size()) / total;
  state.counters["raw_us_p50"] = quantile(raw, 0.5) * 1e6;
  state.counters["raw_per_s"] = raw_per_s;
  state.counters["per_s"] = per_s;
  state.counters["share_of_ceiling"] = per_s / (raw_per_s * callers);
}

// engine.schedule_durable.{1,32}: threads that each wait for their own schedule.
void waiting_threads(benchmark::State& state) {
  const auto threads = static_cast<std::size_t>(state.range(0));
  for (auto unused : state) {
    Directory directory;
    std::vector<double> raw = raw_syncs(directory);
    std::unique_ptr<Engine> engine = open_engine(state, directory);
    if (!engine) {
      return;
    }
    std::atomic<std::uint64_t> calls{0};
    std::vector<std::vector<double>> samples(threads);
    std::vector<std::thread> callers;
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < threads; ++i) {
      callers.emplace_back([&, i] {
        while (Clock::now() - start < kDuration) {
          const Clock::time_point call = Clock::now();
          benchmark::DoNotOptimize(engine->schedule(far_away()));
          samples[i].push_back(seconds_since(call));
          calls.fetch_add(1, std::memory_order_relaxed);
        }
      });
    }
    for (std::thread& caller : callers) {
      caller.join();
    }
    const double seconds = seconds_since(start);
    report(state, raw, static_cast<double>(calls.load()) / seconds, static_cast<double>(threads));
    const double p50 = quantile(samples[0], 0.5);
    state.counters["us_p50"] = p50 * 1e6;
    state.counters["p50_over_raw"] = p50 / quantile(raw, 0.5);
  }
}
BENCHMARK(waiting_threads)
    ->Name("engine.schedule_durable")
    ->Arg(1)
    ->Arg(32)
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

// engine.schedule_durable.async32: one thread with 32 operations outstanding.
void outstanding(benchmark::State& state) {
  constexpr std::uint64_t kOutstanding = 32;
  for (auto unused : state) {
    Directory directory;
    std::vector<double> raw = raw_syncs(directory);
    std::unique_ptr<Engine> engine = open_engine(state, directory);
    if (!engine) {
      return;
    }
    std::uint64_t calls = 0;
    const Clock::time_point start = Clock::now();
    while (Clock::now() - start < kDuration) {
      const Result<Submitted> submitted = engine->submit(far_away());
      ++calls;
      if (submitted.ok() && calls >= kOutstanding) {
        (void)engine->wait_durable({submitted->lsn.value - kOutstanding + 1});
      }
    }
    const double seconds = seconds_since(start);
    report(state, raw, static_cast<double>(calls) / seconds, static_cast<double>(kOutstanding));
  }
}
BENCHMARK(outstanding)
    ->Name("engine.schedule_durable.async32")
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace countwheel::bench

BENCHMARK_MAIN();
