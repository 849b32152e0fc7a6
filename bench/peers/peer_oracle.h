// A random life of a TimerPeer beside std::multimap: the same timers expire at the same ticks. What
// is measured must first be right.
#ifndef COUNTWHEEL_BENCH_PEERS_PEER_ORACLE_H_
#define COUNTWHEEL_BENCH_PEERS_PEER_ORACLE_H_

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "peers/multimap_timers.h"
#include "peers/timer_peer.h"

namespace countwheel::bench {

// A moment on any scale: in the past, within ticks, seconds, hours or weeks.
inline std::int64_t any_deadline(std::mt19937_64& random, std::int64_t now_ns) {
  constexpr std::int64_t kReaches[] = {
      3 * kPeerTickNs, 1'500'000'000, 90'000'000'000, 9'000'000'000'000, 5'000'000'000'000'000};
  const std::int64_t reach = kReaches[random() % std::size(kReaches)];
  return now_ns - kPeerTickNs +
         static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(reach));
}

// Ticks to go on by: mostly one, sometimes past the end of a second or an hour.
inline std::int64_t any_step(std::mt19937_64& random) {
  constexpr std::int64_t kSteps[] = {1, 1, 1, 7, 100, 4'001, 400'000};
  return kSteps[random() % std::size(kSteps)] * kPeerTickNs;
}

// Runs `rounds` rounds of calls and one advance. Answers what differed first, or nothing.
template <TimerPeer Peer>
std::string differs_from_multimap(std::uint64_t seed, int rounds) {
  constexpr std::uint32_t kTimers = 300;
  std::mt19937_64 random(seed);
  Peer peer(kTimers);
  MultimapTimers oracle(kTimers);
  std::vector<std::uint32_t> expired;
  std::vector<std::uint32_t> expected;
  peer.expiries().write_to(&expired);
  oracle.expiries().write_to(&expected);
  std::vector<bool> pending(kTimers, false);
  std::int64_t now_ns = 0;
  for (int round = 0; round < rounds; ++round) {
    for (int call = 0; call < 20; ++call) {
      const auto timer = static_cast<std::uint32_t>(random() % kTimers);
      const std::int64_t deadline_ns = std::max<std::int64_t>(any_deadline(random, now_ns), 0);
      if (!pending[timer]) {
        peer.schedule(timer, deadline_ns);
        oracle.schedule(timer, deadline_ns);
        pending[timer] = true;
      } else if (random() % 2 == 0) {
        peer.cancel(timer);
        oracle.cancel(timer);
        pending[timer] = false;
      } else {
        peer.reschedule(timer, deadline_ns);
        oracle.reschedule(timer, deadline_ns);
      }
    }
    peer.settle();
    // The check is made tick by tick where a step is short, and at its end where it is long.
    now_ns += any_step(random);
    peer.advance(now_ns);
    oracle.advance(now_ns);
    std::sort(expired.begin(), expired.end());
    std::sort(expected.begin(), expected.end());
    if (expired != expected) {
      return std::string(Peer::kName) + ": " + std::to_string(expired.size()) +
             " timers expired instead of " + std::to_string(expected.size()) + " in round " +
             std::to_string(round) + " of seed " + std::to_string(seed);
    }
    for (const std::uint32_t timer : expired) {
      pending[timer] = false;
    }
    expired.clear();
    expected.clear();
  }
  return {};
}

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_PEER_ORACLE_H_
