// std::multimap by deadline, and the place of each timer in it.
#ifndef COUNTWHEEL_BENCH_PEERS_MULTIMAP_TIMERS_H_
#define COUNTWHEEL_BENCH_PEERS_MULTIMAP_TIMERS_H_

#include <map>
#include <utility>

#include "peers/timer_peer.h"

namespace countwheel::bench {

class MultimapTimers : public TimerPeerBase {
 public:
  static constexpr const char* kName = "multimap";
  static constexpr bool kIsSlow = true;

  explicit MultimapTimers(std::size_t timer_count) : places_(timer_count) {}

  void schedule(std::uint32_t timer, std::int64_t deadline_ns) {
    places_[timer] = timers_.emplace(deadline_ns, timer);
  }
  void cancel(std::uint32_t timer) { timers_.erase(places_[timer]); }
  // The node is moved, not freed and allocated.
  void reschedule(std::uint32_t timer, std::int64_t deadline_ns) {
    auto node = timers_.extract(places_[timer]);
    node.key() = deadline_ns;
    places_[timer] = timers_.insert(std::move(node));
  }
  void advance(std::int64_t now_ns) {
    auto place = timers_.begin();
    while (place != timers_.end() && place->first <= now_ns) {
      expiries_.note(place->second);
      place = timers_.erase(place);
    }
  }

 private:
  using Timers = std::multimap<std::int64_t, std::uint32_t>;

  Timers timers_;
  std::vector<Timers::iterator> places_;
};

static_assert(TimerPeer<MultimapTimers>);

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_MULTIMAP_TIMERS_H_
