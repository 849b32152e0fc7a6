// Redis as published: a sorted set, an atomic pop of at most `limit`, a wait after each poll; and
// the same with the pop repeated at once while it brings something, which the articles leave out.
// The log is synced every second. One consumer.
#include <atomic>
#include <thread>

#include "experiments/experiments.h"
#include "peers/server_load.h"

namespace countwheel::bench {
namespace {

constexpr double kPatienceSeconds = 60;

std::unique_ptr<TaskServer> started(benchmark::State& state, bool with_payload) {
  std::unique_ptr<TaskServer> server = make_redis(Sync::kSometimes, with_payload);
  if (const std::string why = server->start(); !why.empty()) {
    state.SkipWithError(why.c_str());
    return nullptr;
  }
  return server;
}

void spread(benchmark::State& state, const Polling& polling, int width_ms) {
  const std::unique_ptr<TaskServer> server = started(state, false);
  if (!server) {
    return;
  }
  const std::unique_ptr<TaskClient> client = server->connect();
  const std::vector<int> offsets_ms = due_offsets_ms(kSpreadTasks, kSpreadFromMs, width_ms);
  const std::int64_t start_ms = ms_from_now(0);
  const auto due_ms = [&](std::size_t i) { return start_ms + offsets_ms[i]; };
  std::vector<double> lateness_ms;
  const bool all =
      client && fill_server(*client, 0, kSpreadTasks, due_ms) &&
      consume(*client, polling, kSpreadTasks, kPatienceSeconds, [&](std::uint64_t id, double now) {
        lateness_ms.push_back(now - static_cast<double>(due_ms(id)));
      });
  if (!all) {
    state.SkipWithError("not all tasks came");
    return;
  }
  report_lateness_ms(state, lateness_ms);
}

// With payloads, like ours; drained every 10 ms, which is the best that polling gives here.
void mixed(benchmark::State& state) {
  const std::unique_ptr<TaskServer> server = started(state, true);
  if (!server) {
    return;
  }
  const std::unique_ptr<TaskClient> client = server->connect();
  const std::size_t pending = pending_count();
  const double memory = server->process().resident_bytes();
  MixedDelays delays;
  const std::int64_t first_ms = ms_from_now(0);
  const Clock::time_point begin = Clock::now();
  bool ok = client && fill_server(*client, 0, pending, [&](std::size_t) {
              return first_ms + delays.next_ms();
            });
  state.counters["schedules_per_s"] = static_cast<double>(pending) / seconds_since(begin);
  state.counters["bytes_per_task"] =
      (server->process().resident_bytes() - memory) / static_cast<double>(pending);
  const std::vector<int> offsets_ms = due_offsets_ms(kProbeTasks, 1000, kProbeWidthMs);
  const std::int64_t start_ms = ms_from_now(0);
  std::vector<double> lateness_ms;
  const auto due_ms = [&](std::size_t i) { return start_ms + offsets_ms[i]; };
  ok = ok && fill_server(*client, pending, kProbeTasks, due_ms);
  // Those of the millions that are due meanwhile are taken too, but not counted.
  consume(*client,
          {.interval_ms = 10},
          pending,
          (1000 + kProbeWidthMs + 2000) / 1e3,
          [&](std::uint64_t id, double now) {
            if (id >= pending) {
              lateness_ms.push_back(now - static_cast<double>(due_ms(id - pending)));
            }
          });
  if (!ok || lateness_ms.size() < kProbeTasks) {
    state.SkipWithError("not all tasks came");
    return;
  }
  report_lateness_ms(state, lateness_ms);
}

// A producer with a connection of its own, in pipelines of what is to be sent each millisecond.
bool produce(TaskClient& client,
             std::size_t count,
             std::vector<std::atomic<std::int64_t>>& due_ms) {
  const std::vector<int> offsets_ms = due_offsets_ms(count, 1000, 4000);
  constexpr std::size_t kAtOnce = kSustainedPerSecond / 1000;
  std::vector<ServerTask> batch;
  const Clock::time_point begin = Clock::now();
  bool ok = true;
  for (std::size_t i = 0; ok && i < count; ++i) {
    std::this_thread::sleep_until(
        begin + std::chrono::milliseconds(1000 * (i / kAtOnce) * kAtOnce / kSustainedPerSecond));
    batch.push_back({.id = i, .due_ms = ms_from_now(offsets_ms[i])});
    due_ms[i].store(batch.back().due_ms);
    if (batch.size() == kAtOnce) {
      ok = client.send(batch, {});
      batch.clear();
    }
  }
  return ok && client.finish();
}

void sustained(benchmark::State& state, const Polling& polling) {
  const std::unique_ptr<TaskServer> server = started(state, true);
  if (!server) {
    return;
  }
  const std::unique_ptr<TaskClient> client = server->connect();
  const std::unique_ptr<TaskClient> producing = server->connect();
  const auto count = static_cast<std::size_t>(kSustainedPerSecond * sustained_seconds());
  std::vector<std::atomic<std::int64_t>> due_ms(count);
  const double cpu = cpu_seconds() + server->process().cpu_seconds();
  const Clock::time_point begin = Clock::now();
  std::atomic<double> produced_seconds{0};
  std::thread producer([&] {
    if (produce(*producing, count, due_ms)) {
      produced_seconds.store(seconds_since(begin));
    }
  });
  std::vector<double> lateness_ms;
  consume(*client, polling, count, sustained_seconds() + 15.0, [&](std::uint64_t id, double now) {
    lateness_ms.push_back(now - static_cast<double>(due_ms[id].load()));
  });
  const double seconds = seconds_since(begin);
  const double cpu_used = cpu_seconds() + server->process().cpu_seconds() - cpu;
  producer.join();
  state.counters["schedules_per_s"] = static_cast<double>(count) / produced_seconds.load();
  state.counters["cpu_percent"] = 100 * cpu_used / seconds;
  report_lateness_ms(state, lateness_ms);
  const auto in_time = std::count_if(
      lateness_ms.begin(), lateness_ms.end(), [](double ms) { return ms <= kSustainedLimitMs; });
  state.counters["missed"] = static_cast<double>(count) - static_cast<double>(in_time);
}

}  // namespace

void register_redis_experiments() {
  struct Setting {
    int interval_ms;
    std::size_t limit;
  };
  for (const Setting& setting :
       {Setting{20, 1000}, {100, 1000}, {100, 100}, {500, 1000}, {500, 100}}) {
    for (const bool drain : {false, true}) {
      const std::string name = "experiment.spread.poll" + std::to_string(setting.interval_ms) +
                               ".limit" + std::to_string(setting.limit) +
                               (drain ? "/redis_drained" : "/redis");
      const Polling polling = {
          .interval_ms = setting.interval_ms, .limit = setting.limit, .drain = drain};
      add_experiment(name,
                     [=](benchmark::State& state) { spread(state, polling, kSpreadWidthMs); });
    }
  }
  for (const std::size_t limit : {std::size_t{100}, std::size_t{1000}}) {
    for (const bool drain : {false, true}) {
      const Polling polling = {.interval_ms = 100, .limit = limit, .drain = drain};
      add_experiment("experiment.instant.limit" + std::to_string(limit) +
                         (drain ? "/redis_drained" : "/redis"),
                     [=](benchmark::State& state) { spread(state, polling, 0); });
    }
  }
  add_experiment("experiment.mixed/redis_drained", mixed);
  add_experiment("experiment.sustained/redis", [](benchmark::State& state) {
    sustained(state, {.interval_ms = 100, .drain = false});
  });
  add_experiment("experiment.sustained/redis_drained",
                 [](benchmark::State& state) { sustained(state, {.interval_ms = 10}); });
  register_redis_races();
}

}  // namespace countwheel::bench
