// WheelStore: the levels, their rings and the cursor. It files entries and says what comes next;
// it knows nothing about nodes (that is WheelCore's part).
//
//   level 0   [ ][#][ ][ ][#]...            one slot a tick; the cursor's slot is the open run
//   level 1   [ ](S+1 lifted)[ ][#]...      S+1, the next second, is being drained into level 0
//   level 2   [ ](H+1 lifted)[#][ ]...      H+1, the next hour, is being drained into level 1
//
// Three facts carry the bounded cascade:
//   1. When the cursor enters a second, the following second is lifted out of its ring; the same
//      for hours. New timers for a lifted slot go to the level below, whose ring is large enough,
//      so a lifted slot only ever shrinks.
//   2. A lifted slot must be empty at the border. It is drained as late as `rate` entries a tick
//      still finish, so a wheel with nothing to do sleeps until then.
//   3. What is not drained in time, because the host jumped over the border, is paid there at once
//      and counted.
#ifndef COUNTWHEEL_WHEEL_STORE_H_
#define COUNTWHEEL_WHEEL_STORE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <countwheel/wheel_chunk.h>
#include <countwheel/wheel_geometry.h>
#include <countwheel/wheel_options.h>

namespace countwheel::detail {

// No slot.
inline constexpr std::uint64_t kNoSlot = kStampMax;

struct WheelRing {
  std::vector<ChunkList> slots;
  std::vector<std::uint64_t> occupied;  // one bit a slot
  std::vector<std::uint64_t> floor;     // level 2: the earliest hour filed in a slot, any round
  std::uint64_t mask = 0;
  std::uint64_t next = kNoSlot;  // no slot before this one is occupied
  std::uint64_t count = 0;       // entries; right on level 1, the others are never asked

  std::uint64_t place_of(std::uint64_t slot) const noexcept { return slot & mask; }
  bool is_occupied(std::uint64_t place) const noexcept {
    return (occupied[place / 64] >> (place % 64) & 1) != 0;
  }
};

// A slot taken out of its ring to be drained before the cursor enters it.
struct LiftedSlot {
  ChunkQueue queue;
  std::uint64_t rate = 0;  // entries a tick that empty it exactly in time
};

class WheelStore {
 public:
  // REQUIRES: wheel_options_error(options).empty()
  WheelStore(const WheelOptions& options, std::int64_t start_ns)
      : options_(options), geometry_(options) {
    for (std::size_t level = 0; level < kWheelLevelCount; ++level) {
      WheelRing& ring = rings_[level];
      ring.slots.resize(options.ring[level]);
      ring.occupied.resize((options.ring[level] + 63) / 64);
      ring.mask = options.ring[level] - 1;
    }
    rings_[2].floor.resize(options.ring[2], kNoSlot);
    ticks_ = {1, options.span[0], std::uint64_t{options.span[0]} * options.span[1]};
    set_position(geometry_.slot_of(0, geometry_.stamp_of(start_ns)));
    open_end_ = saturating_add(open_end_, geometry_.tick(0));
  }

  const WheelOptions& options() const noexcept { return options_; }
  const WheelGeometry& geometry() const noexcept { return geometry_; }
  ChunkPool& pool() noexcept { return pool_; }
  const ChunkPool& pool() const noexcept { return pool_; }
  WheelRing& ring(std::size_t level) noexcept { return rings_[level]; }
  const WheelRing& ring(std::size_t level) const noexcept { return rings_[level]; }
  LiftedSlot& lifted(std::size_t level) noexcept { return lifted_[level - 1]; }
  const LiftedSlot& lifted(std::size_t level) const noexcept { return lifted_[level - 1]; }

  // The slot of `level` the cursor is in. It never goes back.
  std::uint64_t position(std::size_t level) const noexcept { return position_[level]; }

  // Stamps before this belong to the open run or before it.
  std::uint64_t open_end() const noexcept { return open_end_; }
  void close_front() noexcept { open_end_ = geometry_.start_of(0, position_[0] + 1); }

  // Until this stamp advance() has nothing to do.
  std::uint64_t quiet_until() const noexcept { return quiet_until_; }
  void set_quiet_until(std::uint64_t stamp) noexcept { quiet_until_ = stamp; }
  void wake_by(std::uint64_t stamp) noexcept { quiet_until_ = std::min(quiet_until_, stamp); }

  // Puts an entry into the slot its deadline says. False if that slot is open or past: the caller
  // keeps it beside the run. Inlined by force: a call costs a sixth of a schedule.
  [[gnu::always_inline]] bool file(std::uint32_t index, std::uint64_t stamp) noexcept {
    if (stamp < open_end_) [[unlikely]] {
      return false;
    }
    // By arithmetic: for a mix of delays, a branch on the level is a guess, and half of them wrong.
    const std::size_t level = (stamp >= reach_[0] ? 1U : 0U) + (stamp >= reach_[1] ? 1U : 0U);
    WheelRing& ring = rings_[level];
    const std::uint64_t slot = geometry_.slot_of(level, stamp);
    const std::uint64_t place = ring.place_of(slot);
    ChunkList& list = ring.slots[place];
    ++ring.count;
    if (slot < ring.next) [[unlikely]] {
      ring.next = slot;
      wake_by(geometry_.start_of(level, level == 0 ? slot : slot - 1));
    }
    if (level == 2 && slot < ring.floor[place]) [[unlikely]] {
      ring.floor[place] = slot;
    }
    const WheelEntry entry{index, geometry_.offset_in(level, slot, stamp)};
    if (list.tail_end() == ChunkList::kFull) [[unlikely]] {
      append_to_new_chunk(list, ring, place, entry);
    } else {
      pool_.append_here(list, entry);
    }
    return true;
  }

  // Files entries of a second on level 0. REQUIRES: its first tick is not open, its last in reach.
  void spread_second(std::uint64_t second, std::span<const WheelEntry> entries) noexcept {
    WheelRing& ring = rings_[0];
    const std::uint64_t first = second * ticks_[1];
    const auto tick = static_cast<std::uint32_t>(geometry_.tick(0));
    COUNTWHEEL_ASSERT(geometry_.start_of(0, first) >= open_end_);
    COUNTWHEEL_ASSERT(geometry_.start_of(0, first + ticks_[1]) <= reach_[0]);
    std::uint64_t lowest = kNoSlot;
    for (const WheelEntry& entry : entries) {
      const auto ticks = static_cast<std::uint32_t>(geometry_.slot_of(0, entry.offset));
      const std::uint64_t place = ring.place_of(first + ticks);
      const WheelEntry moved{entry.index, entry.offset - ticks * tick};
      ChunkList& list = ring.slots[place];
      lowest = std::min<std::uint64_t>(lowest, ticks);
      if (list.tail_end() == ChunkList::kFull) [[unlikely]] {
        append_to_new_chunk(list, ring, place, moved);
      } else {
        pool_.append_here(list, moved);
      }
    }
    if (lowest != kNoSlot && first + lowest < ring.next) {
      ring.next = first + lowest;
      wake_by(geometry_.start_of(0, ring.next));
    }
  }

  // Moves the cursor. Slots that were passed over must be empty. The slot of `tick` is not open
  // yet: call close_front() when it is.
  void set_position(std::uint64_t tick) noexcept {
    position_[0] = tick;
    open_end_ = geometry_.start_of(0, tick);
    reach_[0] = geometry_.start_of(0, saturating_add(tick, options_.ring[0]));
    for (std::size_t level = 1; level < kWheelLevelCount; ++level) {
      if (open_end_ >= slot_end_[level]) {
        position_[level] = geometry_.slot_of(level, open_end_);
        slot_end_[level] = geometry_.start_of(level, position_[level] + 1);
      }
    }
    reach_[1] = geometry_.start_of(1, position_[1] + options_.ring[1]);
  }

  // Takes a slot out of its ring. The list may be empty.
  ChunkList take(std::size_t level, std::uint64_t slot) noexcept {
    WheelRing& ring = rings_[level];
    ChunkList list;
    const std::uint64_t place = ring.place_of(slot);
    std::swap(list, ring.slots[place]);
    ring.occupied[place / 64] &= ~(std::uint64_t{1} << place % 64);
    if (level == 1) {
      ring.count -= list.count;
    } else if (level == 2) {
      ring.floor[place] = kNoSlot;
    }
    if (ring.next <= slot) {
      ring.next = level == 2 ? earliest_floor() : first_occupied(level);
    }
    return list;
  }

  // Takes the first chunk of a place of a ring: copies its entries and frees it. Returns how many.
  std::size_t take_chunk(std::size_t level,
                         std::uint64_t place,
                         std::span<WheelEntry, ChunkShape::kEntryCount> entries) noexcept {
    WheelRing& ring = rings_[level];
    ChunkList& list = ring.slots[place];
    if (list.count == 0) {
      return 0;
    }
    const std::uint32_t number = list.head;
    const ChunkHeader& header = pool_.header(number);
    const std::uint32_t used = pool_.end_in(list, number) - header.begin;
    std::copy_n(pool_.entries(number) + header.begin, used, entries.begin());
    list.head = header.next;
    list.count -= used;
    ring.count -= level == 1 ? used : 0;
    if (list.count == 0) {
      list = ChunkList{};
      ring.occupied[place / 64] &= ~(std::uint64_t{1} << place % 64);
    }
    pool_.release(number);
    return used;
  }

  void put_back(std::size_t level, std::uint64_t place, WheelEntry entry) noexcept {
    WheelRing& ring = rings_[level];
    ring.occupied[place / 64] |= std::uint64_t{1} << place % 64;
    pool_.append(ring.slots[place], entry);
    ring.count += level == 1 ? 1 : 0;
  }

  // Takes the slot after the cursor's out of the ring of `level`. REQUIRES: the last one is empty.
  void lift(std::size_t level) noexcept {
    LiftedSlot& lifted = this->lifted(level);
    const std::uint64_t slot = position_[level] + 1;
    if (rings_[level].next > slot) {
      return;
    }
    lifted.queue = ChunkQueue(take(level, slot));
    lifted.rate = rate_for(lifted.queue.size(), ticks_left(level));
  }

  // Ticks from the cursor to the next slot of `level`; at least 1.
  std::uint64_t ticks_left(std::size_t level) const noexcept {
    return saturating_multiply(position_[level] + 1, ticks_[level]) - position_[0];
  }

  // The earliest tick at which the cursor must stop because something lies there.
  std::uint64_t next_stop() const noexcept {
    std::uint64_t stop = rings_[0].next;
    for (std::size_t level = 1; level < kWheelLevelCount; ++level) {
      const std::uint64_t slot =
          lifted(level).queue.empty() ? rings_[level].next : position_[level] + 1;
      stop = std::min(stop, saturating_multiply(slot, ticks_[level]));
    }
    return stop;
  }

  // How many entries of the lifted second must move in this tick.
  std::uint64_t seconds_due() const noexcept {
    const LiftedSlot& second = lifted(1);
    return excess(second.queue.size(), saturating_multiply(second.rate, ticks_left(1) - 1));
  }

  // The same for the lifted hour, when `moved` entries have moved already in `ticks` ticks. Seconds
  // go first and the budget is one, so draining starts early enough for both; only if that was not
  // enough (a second with thousands of entries) do the two add up.
  std::uint64_t hours_due(std::uint64_t moved, std::uint64_t ticks) const noexcept {
    const LiftedSlot& hour = lifted(2);
    const std::uint64_t left = ticks_left(2) - 1;
    const std::uint64_t budget =
        excess(saturating_multiply(options_.moves_per_tick_max, ticks), moved);
    const std::uint64_t wanted = excess(moves_ahead(hour.queue.size()),
                                        saturating_multiply(options_.moves_per_tick_max, left));
    const std::uint64_t owed = excess(hour.queue.size(), saturating_multiply(hour.rate, left));
    return std::min<std::uint64_t>(hour.queue.size(), std::max(std::min(wanted, budget), owed));
  }

  // The tick at which draining has to start, over both levels; kNoSlot if nothing waits.
  std::uint64_t drain_start() const noexcept {
    std::uint64_t start = kNoSlot;
    for (std::size_t level = 1; level < kWheelLevelCount; ++level) {
      const LiftedSlot& lifted = this->lifted(level);
      const WheelRing& ring = rings_[level];
      if (!lifted.queue.empty()) {
        start = std::min(start,
                         start_for(level, position_[level] + 1, lifted.queue.size(), lifted.rate));
      } else if (ring.next != kNoSlot) {
        const std::uint64_t count = ring.slots[ring.next & ring.mask].count;
        const std::uint64_t rate = rate_for(count, ticks_[level]);
        start = std::min(start, start_for(level, ring.next, count, rate));
      }
    }
    return start;
  }

  // The first stamp at which advance() has something to do on the levels.
  std::uint64_t next_event() const noexcept {
    std::uint64_t event = geometry_.start_of(0, rings_[0].next);
    for (std::size_t level = 1; level < kWheelLevelCount; ++level) {
      const LiftedSlot& lifted = this->lifted(level);
      if (!lifted.queue.empty()) {
        const std::uint64_t tick =
            start_for(level, position_[level] + 1, lifted.queue.size(), lifted.rate);
        event = std::min(event, geometry_.start_of(0, tick));
      }
      if (rings_[level].next != kNoSlot) {
        event = std::min(event, geometry_.start_of(level, rings_[level].next - 1));
      }
    }
    return event;
  }

  std::uint64_t ticks_in(std::size_t level) const noexcept { return ticks_[level]; }

 private:
  // Apart and last, so that file() needs no registers saved.
  [[gnu::noinline]] void append_to_new_chunk(ChunkList& list,
                                             WheelRing& ring,
                                             std::uint64_t place,
                                             WheelEntry entry) noexcept {
    ring.occupied[place / 64] |= std::uint64_t{1} << place % 64;
    pool_.append(list, entry);
  }

  std::uint64_t rate_for(std::uint64_t count, std::uint64_t ticks) const noexcept {
    return std::max<std::uint64_t>(options_.moves_per_tick_max, ceil_divide(count, ticks));
  }

  // Moves that have to happen before the next hour begins: its entries, those of level 1 on their
  // way down, and a 64th for entries of the hour's first second, which move twice.
  std::uint64_t moves_ahead(std::uint64_t hour_count) const noexcept {
    return hour_count == 0
               ? 0
               : hour_count + hour_count / 64 + rings_[1].count + lifted(1).queue.size();
  }

  // As late as `rate` entries a tick still finish, but within the slot before.
  std::uint64_t start_for(std::size_t level,
                          std::uint64_t slot,
                          std::uint64_t count,
                          std::uint64_t rate) const noexcept {
    std::uint64_t ticks = ceil_divide(count, rate);
    if (level == 2) {
      ticks = std::max(ticks, ceil_divide(moves_ahead(count), options_.moves_per_tick_max));
    }
    // What this tick owed has been moved: the next move is due with the next tick.
    return std::max(saturating_multiply(slot, ticks_[level]) - std::min(ticks, ticks_[level]),
                    position_[0] + 1);
  }

  std::uint64_t first_occupied(std::size_t level) const noexcept {
    const WheelRing& ring = rings_[level];
    const std::uint64_t from = position_[level];
    const std::size_t words = ring.occupied.size();
    std::size_t word = ring.place_of(from) / 64;
    std::uint64_t bits = ring.occupied[word] & (~std::uint64_t{0} << ring.place_of(from) % 64);
    for (std::size_t i = 0; i <= words; ++i) {
      if (bits != 0) {
        const std::uint64_t place = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
        return from + ((place - from) & ring.mask);
      }
      word = word + 1 == words ? 0 : word + 1;
      bits = ring.occupied[word];
    }
    return kNoSlot;
  }

  std::uint64_t earliest_floor() const noexcept {
    const WheelRing& ring = rings_[2];
    std::uint64_t earliest = kNoSlot;
    for (std::size_t place = 0; place < ring.floor.size(); ++place) {
      earliest = std::min(earliest, ring.floor[place]);
    }
    return earliest;
  }

  WheelOptions options_;
  WheelGeometry geometry_;
  std::array<WheelRing, kWheelLevelCount> rings_;
  std::array<LiftedSlot, kWheelLevelCount - 1> lifted_;
  ChunkPool pool_;

  std::array<std::uint64_t, kWheelLevelCount> position_ = {};
  std::array<std::uint64_t, kWheelLevelCount> slot_end_ = {};
  std::array<std::uint64_t, kWheelLevelCount> ticks_ = {};  // ticks of level 0 in one of a level
  std::array<std::uint64_t, 2> reach_ = {};  // the first stamp too far for level 0, for level 1
  std::uint64_t open_end_ = 0;
  std::uint64_t quiet_until_ = kStampMax;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_WHEEL_STORE_H_
