// TimerPeer: what every in-process timer facility that we are compared with looks like here.
//
// Timers are numbered from 0; time is virtual nanoseconds from 0 that advance() is given, one tick
// of 10 ms after the other. A library that reads a clock by itself has kRealClock: its virtual time
// is the monotonic clock since its construction, kTimeScale times faster, and advance() then only
// runs its loop once.
//
// Thread contract: one thread.
#ifndef COUNTWHEEL_BENCH_PEERS_TIMER_PEER_H_
#define COUNTWHEEL_BENCH_PEERS_TIMER_PEER_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace countwheel::bench {

constexpr std::int64_t kPeerTickNs = 10'000'000;

// What expires is read and counted; tests also have the numbers written down.
class Expiries {
 public:
  void note(std::uint32_t timer) {
    sum_ += timer;
    ++count_;
    if (list_ != nullptr) {
      list_->push_back(timer);
    }
  }
  void write_to(std::vector<std::uint32_t>* list) { list_ = list; }
  std::uint64_t sum() const { return sum_; }
  std::size_t count() const { return count_; }

 private:
  std::uint64_t sum_ = 0;
  std::size_t count_ = 0;
  std::vector<std::uint32_t>* list_ = nullptr;
};

// The first tick that is not before the moment: never early.
constexpr std::int64_t tick_of(std::int64_t deadline_ns) {
  return (deadline_ns + kPeerTickNs - 1) / kPeerTickNs;
}

// Constructed with the number of timers there will be, all its own memory included.
//   schedule    the timer is not pending
//   cancel      the timer is pending; it will not expire
//   reschedule  the timer is pending, here or later than before
//   settle      finishes what earlier calls have put off; part of what is measured
//   advance     everything due by `now_ns` expires
template <class Peer>
concept TimerPeer = std::constructible_from<Peer, std::size_t> &&
    requires(Peer peer, std::uint32_t timer, std::int64_t ns) {
  { Peer::kName } -> std::convertible_to<const char*>;
  { Peer::kRealClock } -> std::convertible_to<bool>;
  peer.schedule(timer, ns);
  peer.cancel(timer);
  peer.reschedule(timer, ns);
  peer.settle();
  peer.advance(ns);
  { peer.expiries() } -> std::same_as<Expiries&>;
};

// What most peers have in common.
class TimerPeerBase {
 public:
  static constexpr bool kRealClock = false;
  void settle() {}
  Expiries& expiries() { return expiries_; }

 protected:
  Expiries expiries_;
};

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_TIMER_PEER_H_
