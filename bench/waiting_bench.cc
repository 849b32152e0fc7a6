// Callers that wait for the disk, as a multiple of what the disk gives to one: raw append +
// fdatasync, measured in the same process in turns with them.
#include <fcntl.h>
#include <thread>
#include <unistd.h>

#include "bench_engine.h"
#include "engine_load.h"

namespace countwheel::bench {
namespace {

constexpr int kTurns = 4;
constexpr auto kRawTurn = std::chrono::milliseconds(250);
constexpr auto kTurn = std::chrono::milliseconds(400);
constexpr std::string_view kPayload = "0123456789abcdef";

// Appends 512 bytes and syncs, over and over; seconds of each.
void raw_syncs(const Directory& directory, std::vector<double>* samples) {
  const int fd = ::open((directory.path() + "/raw").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  std::vector<char> block(512, 'x');
  const Clock::time_point end = Clock::now() + kRawTurn;
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

// What one turn of calls gives: how many, and how long each waited where that is measured.
struct Calls {
  std::size_t count = 0;
  double seconds = 0;
  std::vector<double> waits;
};

// Threads that each wait for their own schedule.
void call_from(Engine& engine, std::size_t threads, Calls* calls) {
  std::vector<std::vector<double>> samples(threads);
  std::vector<std::thread> callers;
  const Clock::time_point start = Clock::now();
  for (std::size_t i = 0; i < threads; ++i) {
    callers.emplace_back([&, i] {
      while (Clock::now() - start < kTurn) {
        const Clock::time_point call = Clock::now();
        benchmark::DoNotOptimize(engine.schedule(far_away(kPayload, Durability::kDisk)));
        samples[i].push_back(seconds_since(call));
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  calls->seconds += seconds_since(start);
  for (const std::vector<double>& of_one : samples) {
    calls->waits.insert(calls->waits.end(), of_one.begin(), of_one.end());
  }
  calls->count = calls->waits.size();
}

// One thread with 32 operations outstanding.
void call_ahead(Engine& engine, Calls* calls) {
  constexpr std::uint64_t kOutstanding = 32;
  const Clock::time_point start = Clock::now();
  std::uint64_t turn_calls = 0;
  while (Clock::now() - start < kTurn) {
    const Result<Submitted> submitted = engine.submit(far_away(kPayload, Durability::kDisk));
    if (submitted.ok() && ++turn_calls >= kOutstanding) {
      (void)engine.wait_durable({submitted->lsn.value - kOutstanding + 1});
    }
  }
  calls->seconds += seconds_since(start);
  calls->count += turn_calls;
}

// `call` and raw syncs in turns; calls a second over raw syncs a second, but median by median for
// the one caller whose rate is the inverse of its wait.
template <class Call>
void beside_raw(benchmark::State& state, bool by_median, Call&& call) {
  Directory directory;
  std::unique_ptr<Engine> engine = open_engine(state, directory);
  if (!engine) {
    return;
  }
  std::vector<double> raw;
  Calls calls;
  for (int turn = 0; turn < kTurns; ++turn) {
    raw_syncs(directory, &raw);
    call(*engine, &calls);
  }
  raw_syncs(directory, &raw);
  const double per_second = static_cast<double>(calls.count) / calls.seconds;
  state.counters["value"] = by_median ? quantile(raw, 0.5) / quantile(calls.waits, 0.5)
                                      : per_second / raw_per_second(raw);
  state.counters["per_s"] = per_second;
  state.counters["raw_per_s"] = raw_per_second(raw);
}

void waiting_threads(benchmark::State& state, std::size_t threads) {
  beside_raw(state, threads == 1, [=](Engine& engine, Calls* calls) {
    call_from(engine, threads, calls);
  });
}

void outstanding(benchmark::State& state) {
  beside_raw(state, false, call_ahead);
}

const Row rows[] = {
    {"engine.schedule_durable.1", [](benchmark::State& state) { waiting_threads(state, 1); }},
    {"engine.schedule_durable.32", [](benchmark::State& state) { waiting_threads(state, 32); }},
    {"engine.schedule_durable.async32", outstanding},
};

}  // namespace
}  // namespace countwheel::bench

BENCHMARK_MAIN();
