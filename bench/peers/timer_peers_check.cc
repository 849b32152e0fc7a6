// Exits 1 if a library behind TimerPeer does not expire what std::multimap does. Those on the real
// clock are left out: which tick they catch is not for them to say.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "peers/asio_timers.h"
#include "peers/cascading_wheel.h"
#include "peers/hashed_wheel.h"
#include "peers/peer_oracle.h"
#include "peers/priority_queue_timers.h"
#ifdef COUNTWHEEL_HAS_LIBUV
#include "peers/libuv_timers.h"
#endif

namespace {

template <countwheel::bench::TimerPeer Peer>
bool check(std::uint64_t seed) {
  const std::string difference = countwheel::bench::differs_from_multimap<Peer>(seed, 300);
  std::printf("%s: %s\n", Peer::kName, difference.empty() ? "as expected" : difference.c_str());
  return difference.empty();
}

}  // namespace

// timer_peers_check [SEED]
int main(int argc, char** argv) {
  using namespace countwheel::bench;
  const std::uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  bool ok = check<PriorityQueueTimers>(seed);
  ok = check<HashedWheel>(seed) && ok;
  ok = check<CascadingWheel>(seed) && ok;
  ok = check<AsioTimers>(seed) && ok;
#ifdef COUNTWHEEL_HAS_LIBUV
  ok = check<LibuvTimers>(seed) && ok;
#endif
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
