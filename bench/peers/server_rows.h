// The rows of the engine, measured on a TaskServer.
#ifndef COUNTWHEEL_BENCH_PEERS_SERVER_ROWS_H_
#define COUNTWHEEL_BENCH_PEERS_SERVER_ROWS_H_

#include <benchmark/benchmark.h>

#include "peers/task_server.h"

namespace countwheel::bench {

// What a row is measured on.
struct ServerCase {
  TaskServerFactory make = nullptr;
  Sync sync = Sync::kAlways;
  // Sorted sets are often measured without payloads: said beside, in the counter `id_only`.
  bool has_id_only = false;
  std::size_t resident = 100'000;  // tasks pending while calls are measured
  // Over which the calls of the throughput rows are spread, each with a thousand under way: as
  // many as the server gains from.
  std::size_t connections = 8;
};

// Operations a second, a thousand at once, one batch under way while the next is made.
void server_durable_ops(benchmark::State& state, const ServerCase& given);
void server_order_mix(benchmark::State& state, const ServerCase& given);
void server_cancel(benchmark::State& state, const ServerCase& given);
// One task a call, each connection waits for its acknowledgement: a multiple of the fdatasync/s
// that the same disk gave just before.
void server_schedule_durable(benchmark::State& state, const ServerCase& given, int callers);
// A consumer that polls, and takes a thousand at a time until nothing is due.
void server_lateness(benchmark::State& state, const ServerCase& given, int poll_ms);
void server_herd(benchmark::State& state, const ServerCase& given, int poll_ms);
void server_idle(benchmark::State& state, const ServerCase& given, int poll_ms);
void server_recovery(benchmark::State& state, const ServerCase& given);
void server_bytes(benchmark::State& state, const ServerCase& given, bool on_disk);

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_SERVER_ROWS_H_
