#include "peers/server_load.h"
#include "peers/server_rows.h"

namespace countwheel::bench {
namespace {

constexpr double kPatienceSeconds = 60;

// A server, its client and what went wrong with them.
struct Session {
  Session(benchmark::State& state, const ServerCase& given, bool payload = true)
      : server(given.make(given.sync, payload)) {
    if (const std::string why = server->start(); !why.empty()) {
      state.SkipWithError(why.c_str());
      return;
    }
    client = server->connect();
    if (!client) {
      state.SkipWithError("the server does not answer");
    }
  }

  std::unique_ptr<TaskServer> server;
  std::unique_ptr<TaskClient> client;
};

// Milliseconds from the due time to when the last of a hundred thousand tasks came.
double herd_ms(benchmark::State& state, TaskClient& client, const Polling& polling) {
  constexpr std::size_t kTasks = 100'000;
  // beanstalkd knows whole seconds.
  const std::int64_t due_ms = (ms_from_now(9'000) / 1000) * 1000;
  if (!fill_server(client, 0, kTasks, [&](std::size_t) { return due_ms; })) {
    state.SkipWithError("the server refused a call");
    return 0;
  }
  if (wall_now_ms() > static_cast<double>(due_ms)) {
    state.SkipWithError("the herd was due before it was scheduled");
    return 0;
  }
  const auto until = std::chrono::system_clock::time_point(std::chrono::milliseconds(due_ms - 100));
  std::this_thread::sleep_until(until);
  double last_ms = 0;
  const bool all = consume(client, polling, kTasks, kPatienceSeconds, [&](auto, double now_ms) {
    last_ms = now_ms - static_cast<double>(due_ms);
  });
  if (!all) {
    state.SkipWithError("not all of the herd came within a minute");
  }
  return last_ms;
}

}  // namespace

void server_lateness(benchmark::State& state, const ServerCase& given, int poll_ms) {
  constexpr std::size_t kTasks = 30'000;
  for (auto unused : state) {
    const Session session(state, given);
    if (!session.client) {
      return;
    }
    // Scheduled before the first is due, which is kinder than our row. Microseconds are cut off
    // towards later: scores and columns are milliseconds.
    const std::int64_t first_ms = ms_from_now(8'000);
    const auto due_of = [&](std::size_t i) { return first_ms + static_cast<std::int64_t>(i / 10); };
    std::vector<double> lateness_us;
    const bool ok =
        fill_server(*session.client, 0, kTasks, due_of) &&
        consume(*session.client,
                {.interval_ms = poll_ms},
                kTasks,
                kPatienceSeconds,
                [&](std::uint64_t id, double now_ms) {
                  lateness_us.push_back((now_ms - static_cast<double>(due_of(id))) * 1e3);
                });
    if (!ok) {
      state.SkipWithError("not all tasks came");
      return;
    }
    state.SetIterationTime(1.0);
    report_quantiles(state, "handover.", lateness_us);
    report_quantiles(state, "start.", lateness_us);
    state.counters["value"] = quantile(lateness_us, 0.5);
    state.counters["earliest_us"] = quantile(lateness_us, 0.0);
  }
}

void server_herd(benchmark::State& state, const ServerCase& given, int poll_ms) {
  for (auto unused : state) {
    const Session session(state, given);
    if (!session.client) {
      return;
    }
    state.SetIterationTime(1.0);
    state.counters["value"] = herd_ms(state, *session.client, {.interval_ms = poll_ms});
    // The code of the articles: one poll of a thousand, one wait, and so on.
    state.counters["undrained_ms"] =
        herd_ms(state, *session.client, {.interval_ms = poll_ms, .drain = false});
    if (given.has_id_only) {
      const Session ids(state, given, false);
      if (ids.client) {
        state.counters["id_only"] = herd_ms(state, *ids.client, {.interval_ms = poll_ms});
      }
    }
  }
}

void server_idle(benchmark::State& state, const ServerCase& given, int poll_ms) {
  constexpr double kSeconds = 5;
  constexpr std::size_t kPending = 1'000'000;
  for (auto unused : state) {
    const Session session(state, given, false);
    if (!session.client) {
      return;
    }
    if (!fill_server(*session.client, 0, kPending, [](std::size_t i) {
          return ms_from_now(kFarMs) + static_cast<std::int64_t>(i);
        })) {
      state.SkipWithError("the server refused a call");
      return;
    }
    std::this_thread::sleep_for(std::chrono::seconds(2));
    const double client_cpu = cpu_seconds();
    const double server_cpu = session.server->process().cpu_seconds();
    consume(*session.client, {.interval_ms = poll_ms}, 1, kSeconds, [](auto, double) {});
    const double client_percent = 100 * (cpu_seconds() - client_cpu) / kSeconds;
    const double server_percent =
        100 * (session.server->process().cpu_seconds() - server_cpu) / kSeconds;
    state.SetIterationTime(1.0);
    state.counters["client"] = client_percent;
    state.counters["server"] = server_percent;
    state.counters["value"] = client_percent + server_percent;
  }
}

// A million live tasks and a quarter as many that came and went, then kill -9. The time is from the
// start of the server to its first answer to a pop.
void server_recovery(benchmark::State& state, const ServerCase& given) {
  constexpr std::size_t kLive = 1'000'000;
  constexpr std::size_t kGone = kLive / 4;
  for (auto unused : state) {
    for (const bool payload : {true, false}) {
      if (!payload && !given.has_id_only) {
        continue;
      }
      const Session session(state, given, payload);
      if (!session.client) {
        return;
      }
      bool ok = fill_server(*session.client, 0, kLive + kGone, [](std::size_t i) {
        return ms_from_now(kFarMs) + static_cast<std::int64_t>(i);
      });
      std::vector<ServerTask> gone(kServerBatch);
      for (std::size_t i = 0; ok && i < kGone; ++i) {
        gone[i % kServerBatch].id = 5 * i;
        if (i % kServerBatch == kServerBatch - 1) {
          ok = session.client->send({}, gone) && session.client->finish();
        }
      }
      const auto restart_seconds = [&] {
        session.server->kill();
        const Clock::time_point start = Clock::now();
        const std::string why = session.server->start();
        if (!ok || !why.empty()) {
          state.SkipWithError(ok ? why.c_str() : "the server refused a call");
        }
        return seconds_since(start);
      };
      state.counters[payload ? "value" : "id_only"] = restart_seconds();
      if (payload && session.server->rewrite_log()) {
        state.counters["rewritten"] = restart_seconds();
      }
    }
    state.SetIterationTime(1.0);
  }
}

void server_bytes(benchmark::State& state, const ServerCase& given, bool on_disk) {
  constexpr std::size_t kTasks = 1'000'000;
  for (auto unused : state) {
    for (const bool payload : {true, false}) {
      if (!payload && !given.has_id_only) {
        continue;
      }
      const Session session(state, given, payload);
      if (!session.client) {
        return;
      }
      const auto bytes = [&] {
        return on_disk ? session.server->disk_bytes() : session.server->process().resident_bytes();
      };
      const double before = bytes();
      if (!fill_server(*session.client, 0, kTasks, [](std::size_t i) {
            return ms_from_now(kFarMs) + static_cast<std::int64_t>(i);
          })) {
        state.SkipWithError("the server refused a call");
        return;
      }
      // In memory our row leaves out the 16 bytes of the payload.
      const double each = (bytes() - before) / static_cast<double>(kTasks);
      state.counters[payload ? "value" : "id_only"] = each - (payload && !on_disk ? 16 : 0);
    }
    state.SetIterationTime(1.0);
  }
}

}  // namespace countwheel::bench
