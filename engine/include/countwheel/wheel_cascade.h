// How WheelCore moves entries down the levels, opens a slot and removes dead entries. Included by
// wheel_core.h.
#ifndef COUNTWHEEL_WHEEL_CASCADE_H_
#define COUNTWHEEL_WHEEL_CASCADE_H_

#include <countwheel/wheel_core.h>

namespace countwheel {

// Moves what the ticks since `tick_before` owe: the next second first, then the next hour.
template <class Home>
void WheelCore<Home>::drain_ahead(std::uint64_t tick_before) noexcept {
  const std::uint64_t ticks = store_.position(0) - tick_before;
  if (ticks == 0) {
    return;
  }
  if (!store_.lifted(1).queue.empty()) {
    move_second(store_.lifted(1).queue, store_.position(1) + 1, store_.seconds_due());
  }
  if (!store_.lifted(2).queue.empty()) {
    move_hour(store_.lifted(2).queue, store_.position(2) + 1, store_.hours_due(moved_, ticks));
  }
}

// Entries of a second know their nanosecond, so no node is touched on the way to level 0.
template <class Home>
void WheelCore<Home>::move_second(detail::ChunkQueue& queue,
                                  std::uint64_t second,
                                  std::uint64_t count) noexcept {
  while (count > 0 && !queue.empty()) {
    const Entries entries = queue.front(store_.pool());
    const std::size_t share = std::min<std::size_t>(entries.size(), count);
    store_.spread_second(second, entries.first(share));
    queue.consume(store_.pool(), share);
    count -= share;
    moved_ += share;
  }
}

// Entries of an hour know their millisecond only: the nodes are read, all of a chunk prefetched.
template <class Home>
void WheelCore<Home>::move_hour(detail::ChunkQueue& queue,
                                std::uint64_t hour,
                                std::uint64_t count) noexcept {
  while (count > 0 && !queue.empty()) {
    const Entries entries = queue.front(store_.pool());
    const std::size_t share = std::min<std::size_t>(entries.size(), count);
    for (const detail::WheelEntry& entry : entries.first(share)) {
      home_.prefetch(entry.index);
    }
    for (const detail::WheelEntry& entry : entries.first(share)) {
      move_coarse(entry, hour);
    }
    queue.consume(store_.pool(), share);
    count -= share;
    moved_ += share;
  }
}

// One entry of an hour: to the level its deadline says now, which is the same slot again if it
// means a later turn of the ring.
template <class Home>
void WheelCore<Home>::move_coarse(detail::WheelEntry entry, std::uint64_t hour) noexcept {
  const std::int64_t stored_ns = home_.deadline_of(entry.index);
  if (stored_ns == kNotAlive) {
    ++removed_;
    return;
  }
  const detail::WheelGeometry& geometry = store_.geometry();
  const std::uint64_t stamp = geometry.stamp_of(stored_ns);
  const std::uint64_t stored_hour = geometry.slot_of(2, stamp);
  const std::uint64_t mask = store_.ring(2).mask;
  if ((stored_hour & mask) != (hour & mask) ||
      geometry.offset_in(2, stored_hour, stamp) != entry.offset) {
    refile_or_drop(entry.index, stored_ns);
    return;
  }
  if constexpr (Home::kLazyMoves) {
    home_.claim_move(entry.index);  // It is filed exactly from here on.
  }
  refile(entry.index, stored_ns);
}

// Makes the slot of `tick` the run: without its dead entries, and sorted unless they came in order.
template <class Home>
void WheelCore<Home>::open(std::uint64_t tick) noexcept {
  if (store_.ring(0).next > tick) {
    return;
  }
  const detail::ChunkList list = store_.take(0, tick);
  run_start_ns_ = store_.geometry().moment_of(store_.geometry().start_of(0, tick));
  run_sequence_max_ = 0;
  run_is_cold_ = list.count > kWarmRunMax;
  visited_ += list.count;

  std::uint32_t last_offset = 0;
  std::uint64_t last_sequence = 0;
  // Collected without a branch: whether one entry lies before the last is a coin toss.
  bool offsets_sorted = true;
  bool ties_sorted = true;
  run_.fill(
      store_.pool(),
      list,
      [this](const detail::WheelEntry& entry) { home_.prefetch(entry.index); },
      [&](const detail::WheelEntry& entry) {
        const std::int64_t stored_ns = home_.deadline_of(entry.index);
        if (stored_ns != run_start_ns_ + entry.offset) [[unlikely]] {
          refile_or_drop(entry.index, stored_ns);
          return false;
        }
        const std::uint64_t sequence = home_.sequence_of(entry.index);
        run_sequence_max_ = std::max(run_sequence_max_, sequence);
        offsets_sorted &= entry.offset >= last_offset;
        ties_sorted &= (entry.offset != last_offset) | (sequence > last_sequence);
        last_offset = entry.offset;
        last_sequence = sequence;
        return true;
      });
  if (!offsets_sorted) {
    run_.sort_by_offset(static_cast<unsigned>(std::bit_width(store_.geometry().tick(0) - 1)));
  }
  if (!offsets_sorted || !ties_sorted) {
    if (run_.has_ties()) {
      removed_ += run_.sort_ties([this](std::uint32_t index) { return home_.sequence_of(index); });
    }
  }
}

// True if the node says what the entry says, or may be waiting to be filed anew.
template <class Home>
bool WheelCore<Home>::may_count(std::uint32_t index, std::int64_t deadline_ns) const noexcept {
  const std::int64_t stored_ns = home_.deadline_of(index);
  if constexpr (Home::kLazyMoves) {
    return stored_ns == deadline_ns || (stored_ns != kNotAlive && home_.is_moved(index));
  }
  return stored_ns == deadline_ns;
}

// True if `slot` of `level` is where an entry of the node's deadline lies. On level 2 any turn of
// the ring will do.
template <class Home>
bool WheelCore<Home>::matches(std::size_t level,
                              std::uint64_t slot,
                              detail::WheelEntry entry) const noexcept {
  const std::int64_t stored_ns = home_.deadline_of(entry.index);
  if (stored_ns == kNotAlive) {
    return false;
  }
  const detail::WheelGeometry& geometry = store_.geometry();
  const std::uint64_t stamp = geometry.stamp_of(stored_ns);
  if (level < 2) {
    return stamp == geometry.start_of(level, slot) + entry.offset;
  }
  const std::uint64_t hour = geometry.slot_of(2, stamp);
  const std::uint64_t mask = store_.ring(2).mask;
  return (hour & mask) == (slot & mask) && geometry.offset_in(2, hour, stamp) == entry.offset;
}

// Pays for the inserts and cancels since the last time, if there is anything to gain.
template <class Home>
void WheelCore<Home>::compact_a_little() noexcept {
  const std::size_t live = home_.live_count();
  const std::uint64_t inserts = inserted_ - sweep_inserted_;
  const std::uint64_t ended = detail::excess(sweep_live_, live);
  sweep_inserted_ = inserted_;
  sweep_live_ = live;
  const std::uint64_t allowed = live + live / 2 + kDeadAllowed;
  if (inserted_ - removed_ > allowed) {
    // A burst of cancels may be a million: its share is spread over the advances to come.
    sweep_credit_ += kLooksPerInsert * ended;
    const std::uint64_t share = std::min(sweep_credit_, kLooksPerAdvanceMax);
    sweep_credit_ -= share;
    compact(std::max<std::uint64_t>(kLooksPerInsert * inserts + share, kPeekMax));
  } else {
    sweep_credit_ = 0;
  }
  const std::uint64_t spare = detail::excess(allowed, inserted_ - removed_);
  sweep_at_inserted_ = inserted_ + spare / 2;
  sweep_at_live_ = detail::excess(live, spare / 3);
}

template <class Home>
void WheelCore<Home>::compact(std::size_t entry_budget) noexcept {
  std::uint64_t left = std::min<std::uint64_t>(entry_budget, inserted_ - removed_);
  while (left > 0) {
    if (sweep_left_ == 0 && !next_sweep_slot()) {
      return;
    }
    const std::size_t looked_at = compact_chunk();
    sweep_left_ = looked_at == 0 ? 0 : detail::excess(sweep_left_, looked_at);
    left = detail::excess(left, std::max<std::size_t>(looked_at, 1));
  }
}

// Finds the next slot with entries, level after level; after level 2 comes its lifted slot.
template <class Home>
bool WheelCore<Home>::next_sweep_slot() noexcept {
  for (std::size_t turn = 0; turn <= kWheelLevelCount + 1; ++turn) {
    if (sweep_level_ < kWheelLevelCount) {
      const detail::WheelRing& ring = store_.ring(sweep_level_);
      for (; sweep_place_ <= ring.mask; ++sweep_place_) {
        if (ring.occupied[sweep_place_ / 64] >> sweep_place_ % 64 == 0) {
          sweep_place_ |= 63;  // Nothing in the rest of this word.
        } else if (ring.is_occupied(sweep_place_)) {
          sweep_left_ = ring.slots[sweep_place_++].count;
          return true;
        }
      }
    } else if (sweep_place_ == 0 && !store_.lifted(2).queue.empty()) {
      sweep_left_ = store_.lifted(2).queue.size();
      sweep_place_ = 1;
      return true;
    }
    sweep_level_ = sweep_level_ == kWheelLevelCount ? 0 : sweep_level_ + 1;
    sweep_place_ = 0;
  }
  return false;
}

// Takes the first chunk of the slot in question and appends what counts of it behind the others.
// Returns how many entries it looked at; 0 if the slot is empty by now.
template <class Home>
std::size_t WheelCore<Home>::compact_chunk() noexcept {
  std::array<detail::WheelEntry, detail::ChunkShape::kEntryCount> copy;
  std::size_t count = 0;
  const bool lifted = sweep_level_ == kWheelLevelCount;
  const std::size_t level = lifted ? 2 : sweep_level_;
  const std::uint64_t place = lifted ? store_.position(2) + 1 : sweep_place_ - 1;
  if (lifted) {
    detail::ChunkQueue& queue = store_.lifted(2).queue;
    if (queue.empty()) {
      return 0;
    }
    const Entries front = queue.front(store_.pool());
    count = front.size();
    std::copy(front.begin(), front.end(), copy.begin());
    queue.consume(store_.pool(), count);
  } else {
    count = store_.take_chunk(level, place, copy);
  }
  for (std::size_t i = 0; i < count; ++i) {
    home_.prefetch(copy[i].index);
  }
  const std::uint64_t removed_before = removed_;
  for (std::size_t i = 0; i < count; ++i) {
    compact_entry(level, place, copy[i]);
  }
  compacted_ += removed_ - removed_before;
  return count;
}

template <class Home>
void WheelCore<Home>::compact_entry(std::size_t level,
                                    std::uint64_t place,
                                    detail::WheelEntry entry) noexcept {
  const std::uint64_t position = store_.position(level);
  const std::uint64_t slot = position + ((place - position) & store_.ring(level).mask);
  if (!matches(level, slot, entry)) {
    refile_or_drop(entry.index, home_.deadline_of(entry.index));
  } else if (sweep_level_ == kWheelLevelCount) {
    store_.lifted(2).queue.append(store_.pool(), entry);
  } else {
    store_.put_back(level, place, entry);
  }
}

}  // namespace countwheel

#endif  // COUNTWHEEL_WHEEL_CASCADE_H_
