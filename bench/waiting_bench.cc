// Callers that wait for the disk, as a multiple of what the disk gives to one: raw append +
// fdatasync, measured in the same process right before and right after.
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include "bench_engine.h"
#include "engine_load.h"

namespace countwheel::bench {
namespace {

constexpr auto kDuration = std::chrono::milliseconds(1500);
constexpr std::string_view kPayload = "0123456789abcdef";

// Appends 512 bytes and syncs, over and over; seconds of each.
void raw_syncs(const Directory& directory, std::vector<double>* samples) {
  const int fd = ::open((directory.path() + "/raw").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  std::vector<char> block(512, 'x');
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(500);
  while (fd >= 0 && Clock::now() < end) {
    const Clock::time_point start = Clock::now();
    if (::write(fd, block.data(), block.size()) < 0 || ::fdatasync(fd) != 0) {
      break;
    }
    samples->push_back(seconds_since(start));
  }
  ::close(fd);
}

double raw_per_second(const std::vector<double>& samples) {
  double total = 0;
  for (const double sample : samples) {
    total += sample;
  }
  return static_cast<double>(samples.size()) / total;
}

// Threads that each wait for their own schedule; seconds of each call. Answers calls a second.
double call_from(Engine& engine, std::size_t threads, std::vector<double>* calls) {
  std::vector<std::vector<double>> samples(threads);
  std::vector<std::thread> callers;
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < threads; ++i) {
    callers.emplace_back([&, i] {
      while (Clock::now() - start < kDuration) {
        const Clock::time_point call = Clock::now();
        benchmark::DoNotOptimize(engine.schedule(far_away(kPayload, Durability::kDisk)));
        samples[i].push_back(seconds_since(call));
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  const double seconds = seconds_since(start);
  for (const std::vector<double>& of_one : samples) {
    calls->insert(calls->end(), of_one.begin(), of_one.end());
  }
  return static_cast<double>(calls->size()) / seconds;
}

// One caller: median by median, because its rate is the inverse of its latency. More: rate by rate.
void waiting_threads(benchmark::State& state, std::size_t threads) {
  Directory directory;
  std::vector<double> raw;
  std::vector<double> calls;
  raw_syncs(directory, &raw);
  std::unique_ptr<Engine> engine = open_engine(state, directory);
  if (!engine) {
    return;
  }
  const double per_second = call_from(*engine, threads, &calls);
  engine.reset();
  raw_syncs(directory, &raw);
  state.counters["value"] =
      threads == 1 ? quantile(raw, 0.5) / quantile(calls, 0.5) : per_second / raw_per_second(raw);
  state.counters["per_s"] = per_second;
  state.counters["raw_per_s"] = raw_per_second(raw);
  report_quantiles(state, "seconds.", calls);
}

// One thread with 32 operations outstanding.
void outstanding(benchmark::State& state) {
  constexpr std::uint64_t kOutstanding = 32;
  Directory directory;
  std::vector<double> raw;
  raw_syncs(directory, &raw);
  std::unique_ptr<Engine> engine = open_engine(state, directory);
  if (!engine) {
    return;
  }
  std::uint64_t calls = 0;
  const Clock::time_point start = Clock::now();
  while (Clock::now() - start < kDuration) {
    const Result<Submitted> submitted = engine->submit(far_away(kPayload, Durability::kDisk));
    ++calls;
    if (submitted.ok() && calls >= kOutstanding) {
      (void)engine->wait_durable({submitted->lsn.value - kOutstanding + 1});
    }
  }
  const double per_second = static_cast<double>(calls) / seconds_since(start);
  engine.reset();
  raw_syncs(directory, &raw);
  state.counters["value"] = per_second / raw_per_second(raw);
  state.counters["per_s"] = per_second;
  state.counters["raw_per_s"] = raw_per_second(raw);
}

const Row rows[] = {
    {"engine.schedule_durable.1", [](benchmark::State& state) { waiting_threads(state, 1); }},
    {"engine.schedule_durable.32", [](benchmark::State& state) { waiting_threads(state, 32); }},
    {"engine.schedule_durable.async32", outstanding},
};

}  // namespace
}  // namespace countwheel::bench

BENCHMARK_MAIN();
