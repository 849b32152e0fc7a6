#include "peers/server_rows.h"

#include <fcntl.h>
#include <random>
#include <unistd.h>

#include "peers/server_load.h"

namespace countwheel::bench {
namespace {

constexpr double kMeasuredSeconds = 3;

std::unique_ptr<TaskServer> started(benchmark::State& state,
                                    const ServerCase& given,
                                    bool payload) {
  std::unique_ptr<TaskServer> server = given.make(given.sync, payload);
  if (const std::string why = server->start(); !why.empty()) {
    state.SkipWithError(why.c_str());
    return nullptr;
  }
  return server;
}

// Runs measure(server, figure) on a new server and, where ids alone are of interest too, on a
// second one; the figures go to `value` and `id_only`.
template <class Measure>
void measure_on_server(benchmark::State& state, const ServerCase& given, Measure&& measure) {
  for (auto unused : state) {
    for (const bool payload : {true, false}) {
      if (!payload && !given.has_id_only) {
        continue;
      }
      const std::unique_ptr<TaskServer> server = started(state, given, payload);
      if (!server) {
        return;
      }
      double figure = 0;
      if (!measure(*server, figure)) {
        state.SkipWithError("the server refused a call");
        return;
      }
      state.counters[payload ? "value" : "id_only"] = figure;
    }
    state.SetIterationTime(1.0);
  }
}

// The share of a core that the server and this client use while it lives.
class CpuShares {
 public:
  CpuShares(benchmark::State& state, const TaskServer& server)
      : state_(state), server_(server), server_cpu_(server.process().cpu_seconds()) {}
  ~CpuShares() {
    const double seconds = seconds_since(start_);
    state_.counters["server_cores"] = (server_.process().cpu_seconds() - server_cpu_) / seconds;
    state_.counters["client_cores"] = (cpu_seconds() - client_cpu_) / seconds;
  }
  CpuShares(const CpuShares&) = delete;
  CpuShares& operator=(const CpuShares&) = delete;

 private:
  benchmark::State& state_;
  const TaskServer& server_;
  double server_cpu_;
  double client_cpu_ = cpu_seconds();
  Clock::time_point start_ = Clock::now();
};

std::int64_t far_due(std::size_t i) {
  return ms_from_now(kFarMs) + static_cast<std::int64_t>(i % 3'600'000);
}

std::vector<double> raw_syncs() {
  const Directory directory;
  std::vector<double> samples;
  const int fd = ::open((directory.path() + "/raw").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  const std::vector<char> block(512, 'x');
  const Clock::time_point begin = Clock::now();
  while (fd >= 0 && seconds_since(begin) < 2) {
    const Clock::time_point start = Clock::now();
    if (::write(fd, block.data(), block.size()) < 0 || ::fdatasync(fd) != 0) {
      break;
    }
    samples.push_back(seconds_since(start));
  }
  ::close(fd);
  return samples;
}

// The tasks of one connection. Several keep a server busy that takes only so much of each at a time
// before it syncs; ids are interleaved.
class Lane {
 public:
  Lane(std::unique_ptr<TaskClient> client, std::size_t index, std::size_t lane_count)
      : client_(std::move(client)), next_(index), step_(lane_count), random_(1 + index) {}

  TaskClient& client() { return *client_; }

  // `count` new tasks, in one batch under way.
  bool schedule(std::size_t count) {
    make_new(count);
    return client_->send(schedules_, {});
  }

  // Half a batch of schedules and one of cancels, of tasks that were there before.
  bool exchange() {
    constexpr std::size_t kPairs = kServerBatch / 2;
    // A server that gives its own ids must have told them.
    if (!client_->finish()) {
      return false;
    }
    cancels_.clear();
    while (cancels_.size() < kPairs) {
      const std::size_t reach = std::min<std::size_t>(live_.size(), 1000);
      const bool young = random_() % 100 < 17;
      const std::size_t place =
          young ? live_.size() - 1 - random_() % reach : random_() % live_.size();
      cancels_.push_back({.id = live_[place]});
      live_[place] = live_.back();
      live_.pop_back();
    }
    make_new(kPairs);
    return client_->send(schedules_, cancels_);
  }

  // A batch of those that are left, in random order.
  bool cancel_some() {
    cancels_.clear();
    while (!live_.empty() && cancels_.size() < kServerBatch) {
      std::swap(live_[random_() % live_.size()], live_.back());
      cancels_.push_back({.id = live_.back()});
      live_.pop_back();
    }
    return client_->send({}, cancels_);
  }

 private:
  void make_new(std::size_t count) {
    schedules_.clear();
    while (schedules_.size() < count) {
      schedules_.push_back({.id = next_, .due_ms = far_due(next_)});
      live_.push_back(next_);
      next_ += step_;
    }
  }

  std::unique_ptr<TaskClient> client_;
  std::uint64_t next_;
  std::uint64_t step_;
  std::minstd_rand random_;
  std::vector<std::uint64_t> live_;
  std::vector<ServerTask> schedules_;
  std::vector<ServerTask> cancels_;
};

// Connections with `resident` tasks between them, all acknowledged; empty when that failed.
std::vector<Lane> lanes_of(TaskServer& server, const ServerCase& given, std::size_t resident) {
  std::vector<Lane> lanes;
  for (std::size_t i = 0; i < given.connections; ++i) {
    std::unique_ptr<TaskClient> client = server.connect();
    if (!client) {
      return {};
    }
    lanes.emplace_back(std::move(client), i, given.connections);
  }
  for (std::size_t done = 0, turn = 0; done < resident; done += kServerBatch, ++turn) {
    if (!lanes[turn % lanes.size()].schedule(kServerBatch)) {
      return {};
    }
  }
  for (Lane& lane : lanes) {
    if (!lane.client().finish()) {
      return {};
    }
  }
  return lanes;
}

// Calls step(lane) for one lane after the other, `batch_count` times or for the measured time, and
// waits for the last acknowledgement. Answers tasks a second, or nothing.
template <class Step>
double run_lanes(std::vector<Lane>& lanes, std::size_t batch_count, Step&& step) {
  const Clock::time_point start = Clock::now();
  bool ok = !lanes.empty();
  std::size_t batches = 0;
  while (ok &&
         (batch_count == 0 ? seconds_since(start) < kMeasuredSeconds : batches < batch_count)) {
    ok = step(lanes[batches++ % lanes.size()]);
  }
  for (Lane& lane : lanes) {
    ok = lane.client().finish() && ok;
  }
  return ok ? static_cast<double>(batches * kServerBatch) / seconds_since(start) : 0.0;
}

}  // namespace

void server_durable_ops(benchmark::State& state, const ServerCase& given) {
  measure_on_server(state, given, [&](TaskServer& server, double& per_s) {
    std::vector<Lane> lanes = lanes_of(server, given, 0);
    const CpuShares shares(state, server);
    per_s = run_lanes(lanes, 0, [](Lane& lane) { return lane.schedule(kServerBatch); });
    return per_s > 0;
  });
}

// As our mix: everything scheduled is cancelled, 17 % of the cancels aim at the last thousand.
void server_order_mix(benchmark::State& state, const ServerCase& given) {
  state.counters["resident"] = static_cast<double>(given.resident);
  measure_on_server(state, given, [&](TaskServer& server, double& per_s) {
    std::vector<Lane> lanes = lanes_of(server, given, given.resident);
    const CpuShares shares(state, server);
    per_s = run_lanes(lanes, 0, [](Lane& lane) { return lane.exchange(); });
    return per_s > 0;
  });
}

void server_cancel(benchmark::State& state, const ServerCase& given) {
  measure_on_server(state, given, [&](TaskServer& server, double& per_s) {
    constexpr std::size_t kTasks = 100'000;
    std::vector<Lane> lanes = lanes_of(server, given, kTasks);
    const CpuShares shares(state, server);
    per_s = run_lanes(lanes, kTasks / kServerBatch, [](Lane& lane) { return lane.cancel_some(); });
    return per_s > 0;
  });
}

void server_schedule_durable(benchmark::State& state, const ServerCase& given, int callers) {
  const std::vector<double> raw = raw_syncs();
  double total = 0;
  for (const double sample : raw) {
    total += sample;
  }
  const double raw_per_s = static_cast<double>(raw.size()) / total;
  state.counters["raw_per_s"] = raw_per_s;
  measure_on_server(state, given, [&](TaskServer& server, double& multiple) {
    std::vector<std::unique_ptr<TaskClient>> clients;
    for (int i = 0; i < callers; ++i) {
      clients.push_back(server.connect());
      if (!clients.back()) {
        return false;
      }
    }
    std::uint64_t count = 0;
    const CpuShares shares(state, server);
    const Clock::time_point start = Clock::now();
    bool ok = true;
    // Each waits for its acknowledgement before its next call; the others are under way meanwhile.
    for (std::size_t i = 0; ok && seconds_since(start) < kMeasuredSeconds; ++i) {
      TaskClient& client = *clients[i % clients.size()];
      const ServerTask task = {.id = count++, .due_ms = far_due(i)};
      ok = client.finish() && client.send({&task, 1}, {});
    }
    for (const std::unique_ptr<TaskClient>& client : clients) {
      ok = ok && client->finish();
    }
    const double per_s = static_cast<double>(count) / seconds_since(start);
    state.counters["per_s"] = per_s;
    multiple = per_s / raw_per_s;
    return ok;
  });
}

}  // namespace countwheel::bench
