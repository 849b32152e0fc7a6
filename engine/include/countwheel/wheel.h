// TimingWheel: a million timers, a few nanoseconds each, and no bad moment.
//
//   level | tick  | slots           | reaches                      | an entry holds
//   ------+-------+-----------------+------------------------------+--------------------------
//       0 | 10 ms | 256             | 2.56 s                       | ns inside the tick
//       1 | 1 s   | 8192            | 2 h 16 min                   | ns inside the second
//       2 | 1 h   | 1024, by rounds | 42 days a turn, to 2262      | ms inside the hour
//
// The lesson. A timing wheel files a timer by its deadline, so scheduling and cancelling cost the
// same for ten timers and ten million. Everybody gets that part right. What goes wrong is later:
//
//  - The cascade. When an hour begins, its timers must move to the level of seconds: a million at
//    once, 20 ms in which nothing else happens. Here the next hour is moved while the current one
//    still runs, at most 64 entries a tick. The rings are oversized so that both fit.
//  - The expiry. A slot kept as a linked list is read one cache miss at a time, 230 ns a timer.
//    Here it is a list of chunks with 63 small entries each, read as a stream while the
//    nodes behind them are fetched ahead: a tenth of that.
//  - The handle. If the slot of a cancelled timer is used again, a second cancel hits a stranger.
//    Here a handle has a generation, and a stale one answers false for ever.
//  - The grain. A 10 ms tick does not mean 10 ms of lateness: the current slot is sorted, and
//    next_wake() names the nanosecond (Precision::kExact, the default).
//
//   countwheel::TimingWheel wheel({}, now_ns);
//   auto handle = wheel.schedule(now_ns + 30'000'000'000, order_id);
//   wheel.cancel(handle);
//   wheel.advance(now_ns, [](std::span<const countwheel::TimingWheel::Expired> expired) { ... });
//
// No threads, no locks, no atomics, no clock, no I/O; nothing throws, and after reserve(n) nothing
// allocates. It builds with -fno-exceptions -fno-rtti. Time is whatever the caller says it is: wall
// nanoseconds, boot nanoseconds, or with tick_ns = 1 the height of a block; only its order matters.
//
// Thread contract: distinct wheels: safe. One wheel: one thread at a time.
#ifndef COUNTWHEEL_WHEEL_H_
#define COUNTWHEEL_WHEEL_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <countwheel/wheel_core.h>
#include <countwheel/wheel_options.h>
#include <countwheel/wheel_slab.h>

namespace countwheel {

// TimingWheel and IndexWheel, below.
template <class Node>
class BasicTimingWheel {
  using Slab = detail::BasicWheelSlab<Node>;

 public:
  // Names one timer for ever. The default names none.
  using Handle = detail::WheelHandle;
  using Expired = typename Slab::Due;

  struct Move {
    Handle handle;
    std::int64_t deadline_ns = 0;
  };

  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

  // REQUIRES: wheel_options_error(options).empty()
  BasicTimingWheel(const WheelOptions& options, std::int64_t start_ns)
      : core_(options, start_ns, slab_) {}

  // A timer that expires at the first advance with now >= deadline. A deadline that has passed is
  // due in the next advance. Slack is what next_wake() may add to let wake-ups coalesce; it is kept
  // in microseconds, at most 71 minutes.
  // Answers a handle that names none only when 2^32 timers are pending.
  Handle schedule(std::int64_t deadline_ns, std::uint64_t value, std::int64_t slack_ns = 0) noexcept
      requires(Node::kHasValue);
  // The same without value and slack.
  Handle schedule(std::int64_t deadline_ns) noexcept requires(!Node::kHasValue);

  // True if and only if the timer was pending; it will not expire. Its node is free at once.
  bool cancel(Handle handle) noexcept;

  // Moves a timer and puts it behind those already scheduled for that moment. False if it has
  // expired or was cancelled. Moving later costs one store: the entry follows when its old slot
  // comes up, so a heartbeat re-armed every 10 ms leaves no trail.
  bool reschedule(Handle handle, std::int64_t deadline_ns) noexcept;

  // Like reschedule(), but never moves a timer to an earlier moment.
  bool touch(Handle handle, std::int64_t deadline_ns) noexcept;

  // The same for many, with the memory of the next ones fetched ahead: about twice as fast as one
  // by one when the timers are cold. Returns for how many the answer was true.
  std::size_t cancel_batch(std::span<const Handle> handles) noexcept;
  std::size_t reschedule_batch(std::span<const Move> moves) noexcept;

  // Hands over every timer with deadline <= now, at most `limit`, by sink(std::span<const Expired>)
  // in batches of at most 512, ordered by (deadline, order of the last schedule or reschedule).
  //  - The sink may schedule, cancel and reschedule, but not advance.
  //  - The timers of a batch have expired before the sink sees them: cancelling one of them answers
  //    false. A timer that is due but in no batch yet can still be cancelled.
  //  - A timer scheduled in a sink for a moment that has passed waits for the next advance.
  //  - `now` may go back; nothing expires early and nothing twice.
  template <class Sink>
  AdvanceResult advance(std::int64_t now_ns, Sink&& sink, std::size_t limit = kNoLimit) noexcept;

  // See WheelCore.
  std::int64_t next_deadline() noexcept { return core_.next_deadline(); }
  std::int64_t next_wake() noexcept { return core_.next_wake(); }
  void compact(std::size_t entry_budget) noexcept { core_.compact(entry_budget); }
  WheelCounters counters() const noexcept { return core_.counters(); }

  std::size_t size() const noexcept { return slab_.live_count(); }
  std::optional<std::int64_t> deadline(Handle handle) const noexcept;
  std::optional<std::uint64_t> value(Handle handle) const noexcept requires(Node::kHasValue);

  // No allocation afterwards while at most `timer_count` timers are pending.
  void reserve(std::size_t timer_count) noexcept {
    slab_.reserve(timer_count);
    core_.reserve(timer_count);
  }

  // Bytes of memory that have been written to.
  std::size_t touched_bytes() const noexcept {
    return slab_.touched_bytes() + core_.touched_bytes();
  }

  // For tests and debug builds: every timer lies where its deadline says (or, moved later, before
  // that), and every list, bit and counter agrees. Allocates.
  bool check_invariants(std::string* why = nullptr) const;

 private:
  friend struct TimingWheelPeer;  // Tests set generations near their end.

  static constexpr std::size_t kPrefetchAhead = 16;

  static std::int64_t legal(std::int64_t deadline_ns) noexcept {
    return std::max(deadline_ns, kNotAlive + 1);
  }

  Slab slab_;
  WheelCore<Slab> core_;
  std::uint64_t sequence_ = 0;
};

// A timer carries a value of 64 bits: 41 bytes each at a million.
using TimingWheel = BasicTimingWheel<detail::WheelNode>;
// A timer is known by the index of its handle, which is small and dense: what belongs to it lies in
// an array of the host's. 29 bytes each at a million.
using IndexWheel = BasicTimingWheel<detail::WheelIndexNode>;

// Implementation

template <class Node>
inline auto BasicTimingWheel<Node>::schedule(std::int64_t deadline_ns,
                                             std::uint64_t value,
                                             std::int64_t slack_ns) noexcept -> Handle
    requires(Node::kHasValue) {
  const std::uint32_t index = slab_.allocate();
  if (index == Slab::kNoIndex) [[unlikely]] {
    return {};
  }
  constexpr std::int64_t kSlackMax = std::numeric_limits<std::uint32_t>::max();
  const std::int64_t slack_us =
      std::clamp<std::int64_t>(slack_ns / Slab::kSlackUnitNs, 0, kSlackMax);
  Node& node = slab_.at(index);
  node.deadline_ns = legal(deadline_ns);
  node.order = detail::wheel_order(++sequence_, false);
  node.value = value;
  node.slack_us = static_cast<std::uint32_t>(slack_us);
  core_.insert(index, node.deadline_ns, slack_us * Slab::kSlackUnitNs);
  return {index, node.generation};
}

template <class Node>
inline auto BasicTimingWheel<Node>::schedule(std::int64_t deadline_ns) noexcept -> Handle
    requires(!Node::kHasValue) {
  const std::uint32_t index = slab_.allocate();
  if (index == Slab::kNoIndex) [[unlikely]] {
    return {};
  }
  Node& node = slab_.at(index);
  node.deadline_ns = legal(deadline_ns);
  node.order = detail::wheel_order(++sequence_, false);
  core_.insert(index, node.deadline_ns);
  return {index, node.generation};
}

template <class Node>
inline bool BasicTimingWheel<Node>::cancel(Handle handle) noexcept {
  if (slab_.find(handle.index, handle.generation) == nullptr) {
    return false;
  }
  slab_.free(handle.index);
  core_.note_live_count(slab_.live_count());
  return true;
}

template <class Node>
inline bool BasicTimingWheel<Node>::reschedule(Handle handle, std::int64_t deadline_ns) noexcept {
  Node* const node = slab_.find(handle.index, handle.generation);
  if (node == nullptr) {
    return false;
  }
  const std::int64_t before_ns = node->deadline_ns;
  const std::int64_t after_ns = legal(deadline_ns);
  node->deadline_ns = after_ns;
  if (after_ns >= before_ns) {
    const bool moved = after_ns > before_ns || slab_.is_moved(handle.index);
    node->order = detail::wheel_order(++sequence_, moved);
  } else {
    node->order = detail::wheel_order(++sequence_, false);
    core_.insert_again(handle.index, after_ns);
  }
  return true;
}

template <class Node>
inline bool BasicTimingWheel<Node>::touch(Handle handle, std::int64_t deadline_ns) noexcept {
  const Node* const node = slab_.find(handle.index, handle.generation);
  return node != nullptr && (deadline_ns <= node->deadline_ns || reschedule(handle, deadline_ns));
}

template <class Node>
std::size_t BasicTimingWheel<Node>::cancel_batch(std::span<const Handle> handles) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (i + kPrefetchAhead < handles.size() &&
        handles[i + kPrefetchAhead].index < slab_.capacity()) {
      slab_.prefetch(handles[i + kPrefetchAhead].index);
    }
    count += cancel(handles[i]) ? 1U : 0U;
  }
  return count;
}

template <class Node>
std::size_t BasicTimingWheel<Node>::reschedule_batch(std::span<const Move> moves) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    if (i + kPrefetchAhead < moves.size() &&
        moves[i + kPrefetchAhead].handle.index < slab_.capacity()) {
      slab_.prefetch(moves[i + kPrefetchAhead].handle.index);
    }
    count += reschedule(moves[i].handle, moves[i].deadline_ns) ? 1U : 0U;
  }
  return count;
}

template <class Node>
template <class Sink>
AdvanceResult BasicTimingWheel<Node>::advance(std::int64_t now_ns,
                                              Sink&& sink,
                                              std::size_t limit) noexcept {
  return core_.advance(now_ns, sink, limit);
}

template <class Node>
std::optional<std::int64_t> BasicTimingWheel<Node>::deadline(Handle handle) const noexcept {
  const Node* const node = slab_.find(handle.index, handle.generation);
  if (node == nullptr) {
    return std::nullopt;
  }
  const std::int64_t deadline_ns = node->deadline_ns;
  return deadline_ns;
}

template <class Node>
std::optional<std::uint64_t> BasicTimingWheel<Node>::value(Handle handle) const noexcept
    requires(Node::kHasValue) {
  const Node* const node = slab_.find(handle.index, handle.generation);
  return node == nullptr ? std::nullopt : std::optional<std::uint64_t>(node->value);
}

}  // namespace countwheel

#endif  // COUNTWHEEL_WHEEL_H_
