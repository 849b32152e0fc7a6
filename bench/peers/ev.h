// ev.h of libev, whose macros do not pass our warnings.
#ifndef COUNTWHEEL_BENCH_PEERS_EV_H_
#define COUNTWHEEL_BENCH_PEERS_EV_H_

#pragma GCC system_header
#include <ev.h>

// The macros as functions.
namespace countwheel::bench {

inline void start_with(ev_timer& timer, void (*call)(struct ev_loop*, ev_timer*, int)) {
  ev_timer_init(&timer, call, 0.0, 0.0);
}
inline void set_delay(ev_timer& timer, double seconds) {
  ev_timer_set(&timer, seconds, 0.0);
}

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_EV_H_
