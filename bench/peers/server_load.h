// What the rows on servers have in common: filling one, and a consumer that polls.
#ifndef COUNTWHEEL_BENCH_PEERS_SERVER_LOAD_H_
#define COUNTWHEEL_BENCH_PEERS_SERVER_LOAD_H_

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "peers/task_server.h"

namespace countwheel::bench {

constexpr std::size_t kServerBatch = 1000;
constexpr std::int64_t kFarMs = 8 * 3'600'000;

inline double wall_now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

inline std::int64_t ms_from_now(std::int64_t ms) {
  return static_cast<std::int64_t>(wall_now_ms()) + ms;
}

// Tasks first, first + 1, ... with the due times of `due_of(i)`, a thousand at once.
template <class DueOf>
bool fill_server(TaskClient& client, std::uint64_t first, std::size_t count, DueOf&& due_of) {
  std::vector<ServerTask> batch;
  bool ok = true;
  for (std::size_t i = 0; ok && i < count; ++i) {
    batch.push_back({.id = first + i, .due_ms = due_of(i)});
    if (batch.size() == kServerBatch || i + 1 == count) {
      ok = client.send(batch, {});
      batch.clear();
    }
  }
  return ok && client.finish();
}

// A consumer as the articles have it: polls, and waits a while after each poll.
struct Polling {
  int interval_ms = 10;
  std::size_t limit = 1000;
  // Polls again at once while a poll brings something. Without it: one poll, one wait.
  bool drain = true;
};

// Polls until `count` tasks have come or `patience_s` is over; calls taken(id, now_ms) for each.
template <class Taken>
bool consume(TaskClient& client,
             const Polling& polling,
             std::size_t count,
             double patience_s,
             Taken&& taken) {
  std::vector<std::uint64_t> ids;
  std::size_t taken_count = 0;
  const Clock::time_point begin = Clock::now();
  while (taken_count < count && seconds_since(begin) < patience_s) {
    ids.clear();
    if (!client.pop(static_cast<std::int64_t>(wall_now_ms()), polling.limit, ids)) {
      return false;
    }
    const double now_ms = wall_now_ms();
    for (const std::uint64_t id : ids) {
      taken(id, now_ms);
    }
    taken_count += ids.size();
    if (ids.empty() || !polling.drain) {
      std::this_thread::sleep_for(std::chrono::milliseconds(polling.interval_ms));
    }
  }
  return taken_count >= count;
}

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_SERVER_LOAD_H_
