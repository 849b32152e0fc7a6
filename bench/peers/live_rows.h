// Lateness and idle cost of event loops as they are used: their own clock, their own waiting.
#ifndef COUNTWHEEL_BENCH_PEERS_LIVE_ROWS_H_
#define COUNTWHEEL_BENCH_PEERS_LIVE_ROWS_H_

namespace countwheel::bench {

// `engine.lateness.exact.10k/<peer>`, `engine.herd.{100k,1m}/<peer>`,
// `engine.idle_cpu.10ms/<peer>`. In memory: nothing is on record before a handler starts.
void register_asio_live_rows();
void register_libuv_live_rows();

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_LIVE_ROWS_H_
