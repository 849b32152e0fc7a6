// check_invariants() of WheelCore, and its counters. Included by wheel_core.h.
#ifndef COUNTWHEEL_WHEEL_CHECK_H_
#define COUNTWHEEL_WHEEL_CHECK_H_

#include <countwheel/wheel_core.h>

namespace countwheel {
namespace detail {

// Says why and answers false.
inline bool broken(std::string* why, const char* what, std::uint64_t level, std::uint64_t slot) {
  if (why != nullptr) {
    *why = std::string(what) + " (level " + std::to_string(level) + ", slot " +
           std::to_string(slot) + ")";
  }
  return false;
}

}  // namespace detail

template <class Home>
WheelCounters WheelCore<Home>::counters() const noexcept {
  WheelCounters counters;
  counters.entry_count = inserted_ - removed_;
  counters.dead_count = detail::excess(counters.entry_count, home_.live_count());
  counters.moved_in_last_advance = moved_;
  counters.moved_in_advance_max = moved_max_;
  counters.cascade_forced = forced_;
  counters.visited = visited_;
  counters.compacted = compacted_;
  counters.chunk_count = store_.pool().used_count();
  return counters;
}

template <class Home>
void WheelCore<Home>::reserve(std::size_t node_count) noexcept {
  // Dead entries may equal the live ones and twice kDeadAllowed, and every slot may have a chunk
  // that is not full.
  std::size_t slots = 0;
  for (const std::uint32_t ring : store_.options().ring) {
    slots += ring;
  }
  const std::size_t entries = 2 * node_count + 2 * kDeadAllowed;
  const std::size_t filled = node_count / detail::ChunkShape::kEntryCount + 1;
  store_.pool().reserve(entries / detail::ChunkShape::kEntryCount + slots + 16, slots + 16, filled);
  late_.reserve(node_count + 1024);
  run_.reserve(entries);
}

template <class Home>
std::size_t WheelCore<Home>::touched_bytes() const noexcept {
  std::size_t bytes = sizeof(*this) + store_.pool().touched_bytes();
  for (std::size_t level = 0; level < kWheelLevelCount; ++level) {
    const detail::WheelRing& ring = store_.ring(level);
    bytes += ring.slots.size() * sizeof(detail::ChunkList) + ring.occupied.size() * 8 +
             ring.floor.size() * 8;
  }
  return bytes;
}

template <class Home>
bool WheelCore<Home>::check_queue(const detail::ChunkQueue& queue,
                                  std::size_t& chunks,
                                  std::string* why) const {
  const detail::ChunkPool& pool = store_.pool();
  const detail::ChunkList& list = queue.list();
  if (list.head == 0) {
    return list.count == 0 ? true : detail::broken(why, "entries without a chunk", 0, list.count);
  }
  std::uint64_t count = 0;
  std::uint32_t consumed = queue.consumed();
  for (std::uint32_t number = list.head;; number = pool.header(number).next) {
    ++chunks;
    count += pool.end_in(list, number) - pool.header(number).begin - consumed;
    consumed = 0;
    if (number == list.tail_chunk()) {
      break;
    }
  }
  return count == list.count ? true : detail::broken(why, "a list lost count", count, list.count);
}

template <class Home>
bool WheelCore<Home>::check_ring(std::size_t level, std::size_t& chunks, std::string* why) const {
  const detail::WheelRing& ring = store_.ring(level);
  const std::uint64_t position = store_.position(level);
  std::uint64_t count = 0;
  for (std::uint64_t place = 0; place <= ring.mask; ++place) {
    const detail::ChunkList& list = ring.slots[place];
    const std::uint64_t slot =
        level == 2 ? ring.floor[place] : position + ((place - position) & ring.mask);
    count += list.count;
    if (!check_queue(detail::ChunkQueue(list), chunks, why)) {
      return false;
    }
    if (ring.is_occupied(place) != (list.count > 0)) {
      return detail::broken(why, "the occupancy bit lies", level, place);
    }
    if (list.count > 0 && ring.next > slot) {
      return detail::broken(why, "an occupied slot before the next one", level, slot);
    }
    if (list.count > 0 && slot <= position + (level == 0 ? 0 : 1)) {
      return detail::broken(why, "an occupied slot the cursor has passed", level, slot);
    }
  }
  return level != 1 || count == ring.count ? true
                                           : detail::broken(why, "a ring lost count", level, count);
}

template <class Home>
bool WheelCore<Home>::check_run(std::string* why) const {
  bool ordered = true;
  const detail::WheelEntry* before = nullptr;
  for (const detail::WheelEntry& entry : run_.entries()) {
    ordered = ordered && (before == nullptr || before->offset <= entry.offset) &&
              entry.offset < store_.geometry().tick(0);
    before = &entry;
  }
  if (!ordered) {
    return detail::broken(why, "the run is out of order", 0, store_.position(0));
  }
  return late_.is_ordered() ? true : detail::broken(why, "late arrivals out of order", 0, 0);
}

template <class Home>
bool WheelCore<Home>::check_invariants(std::string* why) const {
  std::size_t chunks = 0;
  std::uint64_t entries = late_.size() + run_.size();
  if (!check_run(why)) {
    return false;
  }
  for (std::size_t level = 0; level < kWheelLevelCount; ++level) {
    if (!check_ring(level, chunks, why)) {
      return false;
    }
    for (const detail::ChunkList& list : store_.ring(level).slots) {
      entries += list.count;
    }
    if (level == 0) {
      continue;
    }
    const detail::LiftedSlot& lifted = store_.lifted(level);
    entries += lifted.queue.size();
    if (!check_queue(lifted.queue, chunks, why)) {
      return false;
    }
    if (lifted.queue.size() > lifted.rate * store_.ticks_left(level)) {
      return detail::broken(why, "a lifted slot will not be drained in time", level, 0);
    }
  }
  if (entries != inserted_ - removed_) {
    return detail::broken(why, "entries were lost or invented", entries, inserted_ - removed_);
  }
  return chunks == store_.pool().used_count()
             ? true
             : detail::broken(why, "chunks leak", chunks, store_.pool().used_count());
}

}  // namespace countwheel

#endif  // COUNTWHEEL_WHEEL_CHECK_H_
