// WheelCore: the wheel without the timers.
//
// It keeps entries {index, deadline} and asks a Home, the place where the nodes live, whether an
// entry still counts. TimingWheel (wheel.h) gives it a slab of its own; the engine gives it the
// task table, so that there is no second copy of the slot arithmetic. A Home offers:
//
//   static constexpr bool kLazyMoves;
//   std::int64_t deadline_of(std::uint32_t index) const noexcept;    // kNotAlive if not on this
//   wheel std::uint64_t sequence_of(std::uint32_t index) const noexcept;   // order among equal
//   deadlines std::int64_t slack_of(std::uint32_t index) const noexcept;       // in ns std::size_t
//   live_count() const noexcept;                         // may be approximate void
//   prefetch(std::uint32_t index) const noexcept; with kLazyMoves: bool is_moved(index) const, bool
//   claim_move(index)
//
// An entry counts if and only if deadline_of(index) is its deadline. So a cancel is the node's
// business alone, entries may repeat, and a reused index is harmless: a match always expires the
// right timer at the right time. With kLazyMoves a home may store a later deadline without a new
// entry and mark the node as moved; whoever meets its old entry first claims the mark and files the
// node anew. Without it every reschedule inserts, and the old entry is dropped.
//
// A home whose nodes end when they are due may say so with a type Due and Due take(index,
// deadline), which the core calls in place of making a CoreDue: the node is then read and freed
// while it is at hand.
//
// What a Home answers may change between any two questions (the engine's is written by other
// threads): each answer is read once per decision and checked again when the entry is handed over.
// The sequence of a node may only grow.
//
// Thread contract: distinct wheels: safe. One wheel: one thread at a time.
#ifndef COUNTWHEEL_WHEEL_CORE_H_
#define COUNTWHEEL_WHEEL_CORE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <countwheel/assert.h>
#include <countwheel/wheel_chunk.h>
#include <countwheel/wheel_options.h>
#include <countwheel/wheel_run.h>
#include <countwheel/wheel_store.h>

namespace countwheel {

// What a Home answers for a node that is not on this wheel.
inline constexpr std::int64_t kNotAlive = std::numeric_limits<std::int64_t>::min();
// What next_deadline() and next_wake() answer when there is nothing to wait for.
inline constexpr std::int64_t kNothingPending = std::numeric_limits<std::int64_t>::max();

// An entry whose deadline has come.
struct CoreDue {
  std::uint32_t index;
  std::int64_t deadline_ns;
};

struct AdvanceResult {
  std::size_t handed_over = 0;
  // The limit was reached, or a callback scheduled something that is due: call again.
  bool more_due = false;
};

// Exact counts since construction; no clock is involved, so a test may assert them anywhere.
struct WheelCounters {
  std::uint64_t entry_count = 0;            // in the wheel now, dead ones included
  std::uint64_t dead_count = 0;             // of these, more than there are live nodes
  std::uint64_t moved_in_last_advance = 0;  // entries the cascade moved or looked at
  std::uint64_t moved_in_advance_max = 0;
  std::uint64_t cascade_forced = 0;  // moved at a border because the host had jumped past it
  std::uint64_t visited = 0;         // entries looked at because their slot became current
  std::uint64_t compacted = 0;       // dead entries removed before their time
  std::uint64_t chunk_count = 0;     // in use now
};

namespace detail {

template <class Home>
struct DueOf {
  using type = CoreDue;
  static constexpr bool kTakes = false;
};
template <class Home>
requires requires {
  typename Home::Due;
}
struct DueOf<Home> {
  using type = typename Home::Due;
  static constexpr bool kTakes = true;
};

}  // namespace detail

template <class Home>
class WheelCore {
 public:
  // The most entries a sink is given at once.
  static constexpr std::size_t kBatchMax = 512;
  // What a sink is given.
  using Due = typename detail::DueOf<Home>::type;

  // REQUIRES: wheel_options_error(options).empty(). `home` must outlive the core.
  WheelCore(const WheelOptions& options, std::int64_t start_ns, Home& home)
      : home_(home), store_(options, start_ns) {
    COUNTWHEEL_ASSERT(wheel_options_error(options).empty());
  }
  WheelCore(const WheelCore&) = delete;
  WheelCore& operator=(const WheelCore&) = delete;

  // Files an entry. The home must know the deadline already. Any deadline is legal; one that is not
  // after the cursor is due in the next advance, never in the one that is running.
  void insert(std::uint32_t index, std::int64_t deadline_ns, std::int64_t slack_ns = 0) noexcept {
    slack_min_ns_ = std::min(slack_min_ns_, slack_ns);
    insert_again(index, deadline_ns);
  }

  // The same for a node that was filed before and keeps its slack.
  void insert_again(std::uint32_t index, std::int64_t deadline_ns) noexcept {
    if (store_.open_end() <= seen_) [[unlikely]] {
      catch_up();
    }
    if (++inserted_ >= sweep_at_inserted_) [[unlikely]] {
      store_.wake_by(0);
    }
    if (deadline_ns <= hold_back_until_ns_ ||
        !store_.file(index, store_.geometry().stamp_of(deadline_ns))) [[unlikely]] {
      late_.arrive({deadline_ns, home_.sequence_of(index), index});
      store_.wake_by(0);
    }
  }

  // For homes that can say cheaply that a node ended, so that many cancels without an insert are
  // noticed before the wheel has something else to do.
  void note_live_count(std::size_t live_count) noexcept {
    if (live_count < sweep_at_live_) [[unlikely]] {
      store_.wake_by(0);
    }
  }

  // Hands every live entry with deadline <= now to `sink(std::span<const Due>)`, in the order
  // (deadline, sequence), at most `limit` in batches of at most kBatchMax.
  //  - The sink may insert, and may change the home in any way; what it does to an entry of its own
  //    batch comes too late. It must not advance.
  //  - `now` may go back: the cursor stays, and nothing is handed over before its deadline.
  //  - An advance with nothing to do costs one comparison, also after an hour.
  template <class Sink>
  AdvanceResult advance(std::int64_t now_ns, Sink&& sink, std::size_t limit) noexcept {
    const std::uint64_t now = store_.geometry().stamp_of(now_ns);
    if (now < store_.quiet_until()) [[likely]] {
      seen_ = now;  // Also when the clock went back: a cursor that follows later is as good.
      moved_ = 0;
      return {};
    }
    return advance_to(now, now_ns, sink, limit);
  }

  // The earliest live deadline, or an earlier moment that costs one idle advance at most. Exact
  // while the slots in question hold at most 64 entries. kNothingPending if nothing is left.
  std::int64_t next_deadline() noexcept { return peek<false>(kPeekMax); }

  // When advance() has to be called next: the smallest deadline + slack, or earlier for the wheel's
  // own work (the start of a drain, the start of a crowded slot).
  std::int64_t next_wake() noexcept;

  // Looks at up to `entry_budget` entries, slot after slot, and removes dead ones.
  void compact(std::size_t entry_budget) noexcept;

  // No allocation afterwards while at most `node_count` nodes are alive.
  void reserve(std::size_t node_count) noexcept;

  WheelCounters counters() const noexcept;
  const WheelOptions& options() const noexcept { return store_.options(); }

  // Bytes of memory that have been written to, the nodes not counted.
  std::size_t touched_bytes() const noexcept;

  // For tests and debug builds. False, and the reason in `why`, if the structure is broken.
  // REQUIRES: the home is at rest.
  bool check_invariants(std::string* why) const;

  // Calls visit(index, matches, earliest_ns) for every entry: whether its place is the one the
  // node's deadline says, and the start of that place. For check_invariants() of a home.
  template <class Visit>
  void for_each_entry(Visit&& visit) const;

 private:
  using Entries = std::span<detail::WheelEntry>;

  static constexpr std::size_t kPeekMax = 64;
  static constexpr std::size_t kWarmRunMax = 4096;
  static constexpr std::size_t kPrefetchAhead = 32;
  // Dead entries are removed once they are more than half of the live ones and this many, with four
  // looks per insert: so they never outnumber the live ones and twice this many.
  static constexpr std::uint64_t kDeadAllowed = 32'768;
  static constexpr std::uint64_t kLooksPerInsert = 4;
  static constexpr std::uint64_t kLooksPerAdvanceMax = 4096;

  // Without a constructor, so that nothing is zeroed for each batch.
  union Batch {
    Batch() noexcept {}  // NOLINT(modernize-use-equals-default): that one would be deleted.
    Due due[kBatchMax];
  };

  template <class Sink>
  AdvanceResult advance_to(std::uint64_t now,
                           std::int64_t now_ns,
                           Sink& sink,
                           std::size_t limit) noexcept;
  template <class Sink>
  std::size_t hand_over(std::int64_t due_ns, Sink& sink, std::size_t limit) noexcept;
  std::size_t collect(std::int64_t due_ns, std::span<Due> due) noexcept;
  std::size_t collect_run(std::int64_t bound_ns, std::span<Due> due, std::size_t count) noexcept;
  bool drop_from_run(std::uint32_t index,
                     std::int64_t deadline_ns,
                     std::int64_t stored_ns,
                     std::uint64_t sequence) noexcept;
  void collect_tie(detail::LateArrival late, std::span<Due> due, std::size_t& count) noexcept;
  void take(std::uint32_t index,
            std::int64_t deadline_ns,
            std::span<Due> due,
            std::size_t& count) noexcept;
  const detail::LateArrival* late_top() noexcept;
  bool settle_head(std::int64_t due_ns) noexcept;

  void step(std::uint64_t tick) noexcept;
  void catch_up() noexcept;
  void refile(std::uint32_t index, std::int64_t deadline_ns) noexcept;
  void refile_or_drop(std::uint32_t index, std::int64_t deadline_ns) noexcept;
  void move_second(detail::ChunkQueue& queue, std::uint64_t second, std::uint64_t count) noexcept;
  void move_hour(detail::ChunkQueue& queue, std::uint64_t hour, std::uint64_t count) noexcept;
  void move_coarse(detail::WheelEntry entry, std::uint64_t hour) noexcept;
  void drain_ahead(std::uint64_t tick_before) noexcept;
  void open(std::uint64_t tick) noexcept;
  void finish(std::uint64_t now, bool stopped) noexcept;

  void compact_a_little() noexcept;
  std::size_t compact_chunk() noexcept;
  bool next_sweep_slot() noexcept;
  void compact_entry(std::size_t level, std::uint64_t place, detail::WheelEntry entry) noexcept;

  bool may_count(std::uint32_t index, std::int64_t deadline_ns) const noexcept;
  bool matches(std::size_t level, std::uint64_t slot, detail::WheelEntry entry) const noexcept;

  template <bool kWithSlack>
  std::int64_t peek(std::size_t budget) noexcept;
  template <bool kWithSlack>
  std::int64_t value_of(std::uint32_t index, std::int64_t deadline_ns) const noexcept;
  template <bool kWithSlack>
  void peek_run(std::int64_t& best, std::size_t& budget) const noexcept;
  template <bool kWithSlack>
  void peek_late(std::int64_t& best, std::size_t& budget) noexcept;
  template <bool kWithSlack>
  void peek_level(std::size_t level, std::int64_t& best, std::size_t& budget) const noexcept;
  template <bool kWithSlack>
  void peek_queue(std::size_t level,
                  std::uint64_t slot,
                  const detail::ChunkQueue& queue,
                  std::int64_t& best,
                  std::size_t& budget) const noexcept;
  template <class Visit>
  void for_each_while(const detail::ChunkQueue& queue, Visit&& visit) const;
  template <class Visit>
  void for_each_in(const detail::ChunkQueue& queue, Visit&& visit) const;
  bool check_ring(std::size_t level, std::size_t& chunks, std::string* why) const;
  bool check_queue(const detail::ChunkQueue& queue, std::size_t& chunks, std::string* why) const;
  bool check_run(std::string* why) const;

  std::int64_t slack_floor() const noexcept {
    return inserted_ == 0 ? 0 : std::max<std::int64_t>(slack_min_ns_, 0);
  }
  std::int64_t tick_rounded(std::int64_t moment_ns) const noexcept;

  Home& home_;
  detail::WheelStore store_;

  std::uint64_t seen_ = 0;  // what advance() saw last while it had nothing to do
  std::uint64_t inserted_ = 0;
  std::uint64_t removed_ = 0;
  std::int64_t slack_min_ns_ = std::numeric_limits<std::int64_t>::max();
  // While a sink runs: deadlines up to this wait for the next advance.
  std::int64_t hold_back_until_ns_ = kNotAlive;

  // The open run: the current slot in order. Its deadlines are run_start_ns_ + offset.
  detail::OpenRun run_;
  std::int64_t run_start_ns_ = 0;
  bool run_is_cold_ = false;            // too large to be in the cache still when it is handed over
  std::uint64_t run_sequence_max_ = 0;  // a node beyond this was scheduled after the sort
  detail::LateArrivals late_;

  std::uint64_t moved_ = 0;
  std::uint64_t moved_max_ = 0;
  std::uint64_t forced_ = 0;
  std::uint64_t visited_ = 0;
  std::uint64_t compacted_ = 0;

  // The compaction's place: a level (level 2's lifted slot comes last), a slot, what is left of it.
  std::size_t sweep_level_ = 0;
  std::uint64_t sweep_place_ = 0;
  std::uint64_t sweep_left_ = 0;
  std::uint64_t sweep_inserted_ = 0;
  std::size_t sweep_live_ = 0;
  std::uint64_t sweep_credit_ = 0;
  // When so much was inserted, or so few are alive, there may be enough dead entries to look.
  std::uint64_t sweep_at_inserted_ = kDeadAllowed / 2;
  std::size_t sweep_at_live_ = 0;
};

}  // namespace countwheel

#include <countwheel/wheel_advance.h>  // IWYU pragma: export
#include <countwheel/wheel_cascade.h>  // IWYU pragma: export
#include <countwheel/wheel_check.h>    // IWYU pragma: export
#include <countwheel/wheel_peek.h>     // IWYU pragma: export

#endif  // COUNTWHEEL_WHEEL_CORE_H_
