// In-process timers of others under the rows `wheel.*` and, where a library can, `engine.lateness`
// and `engine.idle_cpu`: `<row>/<peer>`, the figure in the counter `value`. A library that is not
// installed is left out with a line on stderr.
#include <cstdio>

#include "peers/asio_timers.h"
#include "peers/cascading_wheel.h"
#include "peers/hashed_wheel.h"
#include "peers/live_rows.h"
#include "peers/multimap_timers.h"
#include "peers/netty_peer.h"
#include "peers/priority_queue_timers.h"
#include "peers/timer_rows.h"
#include "row.h"
#ifdef COUNTWHEEL_HAS_LIBUV
#include "peers/libuv_timers.h"
#endif
#ifdef COUNTWHEEL_HAS_LIBEV
#include "peers/libev_timers.h"
#endif
#ifdef COUNTWHEEL_HAS_LIBEVENT
#include "peers/libevent_timers.h"
#endif

namespace countwheel::bench {
namespace {

[[maybe_unused]] void skipped(const char* peer, const char* why) {
  std::fprintf(stderr, "skipped: %s: %s\n", peer, why);
}

template <TimerPeer Peer>
void register_worst_tick(int passes) {
  add_row<Peer>("wheel.cascade_worst.1m", &worst_tick_row<Peer>, 1'000'000, passes, false);
}

void register_all() {
  register_timer_rows<MultimapTimers>();
  register_worst_tick<MultimapTimers>(2);
  register_timer_rows<PriorityQueueTimers>();
  register_worst_tick<PriorityQueueTimers>(2);
  register_timer_rows<HashedWheel>();
  register_timer_rows<CascadingWheel>();
  register_worst_tick<CascadingWheel>(2);
  add_row<CascadingWheel>(
      "wheel.cascade_moved.1m", &worst_tick_row<CascadingWheel>, 1'000'000, 1, true);
  register_timer_rows<AsioTimers>();
  register_asio_live_rows();
#ifdef COUNTWHEEL_HAS_LIBUV
  register_timer_rows<LibuvTimers>();
  register_worst_tick<LibuvTimers>(2);
  register_libuv_live_rows();
#else
  skipped("libuv", "libuv1-dev with its static library was not there at configuration");
#endif
#ifdef COUNTWHEEL_HAS_LIBEV
  register_timer_rows<LibevTimers>();
#else
  skipped("libev", "libev-dev was not there at configuration");
#endif
#ifdef COUNTWHEEL_HAS_LIBEVENT
  register_timer_rows<LibeventTimers>();
#else
  skipped("libevent", "libevent-dev was not there at configuration");
#endif
  if (const std::string why = netty_missing(); why.empty()) {
    register_netty_rows();
  } else {
    skipped("netty", why.c_str());
  }
}

}  // namespace
}  // namespace countwheel::bench

int main(int argc, char** argv) {
  countwheel::bench::register_all();
  return countwheel::bench::run_rows(argc, argv);
}
