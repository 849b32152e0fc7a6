// What WheelCore knows about the future, and what it checks about itself. Included by wheel_core.h.
#ifndef COUNTWHEEL_WHEEL_PEEK_H_
#define COUNTWHEEL_WHEEL_PEEK_H_

#include <countwheel/wheel_core.h>

namespace countwheel {

template <class Home>
std::int64_t WheelCore<Home>::tick_rounded(std::int64_t moment_ns) const noexcept {
  return store_.options().precision == Precision::kExact
             ? moment_ns
             : store_.geometry().boundary_after(moment_ns);
}

template <class Home>
std::int64_t WheelCore<Home>::next_wake() noexcept {
  const std::int64_t expiry_ns = tick_rounded(peek<true>(kPeekMax));
  const std::uint64_t drain = store_.drain_start();
  if (drain == detail::kNoSlot) {
    return expiry_ns;
  }
  return std::min(expiry_ns, store_.geometry().moment_of(store_.geometry().start_of(0, drain)));
}

// The smallest deadline (plus slack) over the run, the late arrivals and the levels. It looks at
// `budget` entries; where that is not enough, the start of the slot stands in for what is in it.
template <class Home>
template <bool kWithSlack>
std::int64_t WheelCore<Home>::peek(std::size_t budget) noexcept {
  if (store_.open_end() <= seen_) {
    catch_up();
  }
  std::int64_t best = kNothingPending;
  peek_late<kWithSlack>(best, budget);
  peek_run<kWithSlack>(best, budget);
  for (std::size_t level = 0; level < kWheelLevelCount; ++level) {
    peek_level<kWithSlack>(level, best, budget);
  }
  return best;
}

// When the node of an entry wants to be handed over; kNothingPending if the entry is dead.
template <class Home>
template <bool kWithSlack>
std::int64_t WheelCore<Home>::value_of(std::uint32_t index,
                                       std::int64_t deadline_ns) const noexcept {
  std::int64_t value = kNothingPending;
  if (deadline_ns != kNotAlive) {
    value = deadline_ns;
    if constexpr (kWithSlack) {
      const std::int64_t slack_ns = std::max<std::int64_t>(home_.slack_of(index), 0);
      if (__builtin_add_overflow(value, slack_ns, &value)) {
        value = kNothingPending;
      }
    }
  }
  return value;
}

template <class Home>
template <bool kWithSlack>
void WheelCore<Home>::peek_run(std::int64_t& best, std::size_t& budget) const noexcept {
  const std::int64_t floor_ns = kWithSlack ? slack_floor() : 0;
  for (const detail::WheelEntry& entry : run_.entries()) {
    const std::int64_t deadline_ns = run_start_ns_ + entry.offset;
    std::int64_t bound = 0;
    if (__builtin_add_overflow(deadline_ns, floor_ns, &bound) || bound >= best) {
      return;
    }
    if (budget == 0) {
      best = bound;
      return;
    }
    --budget;
    const std::int64_t stored_ns = home_.deadline_of(entry.index);
    if (may_count(entry.index, deadline_ns)) {
      best = std::min(best, value_of<kWithSlack>(entry.index, stored_ns));
    }
  }
}

template <class Home>
template <bool kWithSlack>
void WheelCore<Home>::peek_late(std::int64_t& best, std::size_t& budget) noexcept {
  if (late_.size() > budget) {
    // Too many to look at each: the earliest of them will do.
    late_.for_each(
        [&](const detail::LateArrival& late) { best = std::min(best, late.deadline_ns); });
    return;
  }
  budget -= late_.size();
  late_.for_each([&](const detail::LateArrival& late) {
    const std::int64_t stored_ns = home_.deadline_of(late.index);
    if (may_count(late.index, late.deadline_ns)) {
      best = std::min(best, value_of<kWithSlack>(late.index, stored_ns));
    }
  });
}

template <class Home>
template <bool kWithSlack>
void WheelCore<Home>::peek_level(std::size_t level,
                                 std::int64_t& best,
                                 std::size_t& budget) const noexcept {
  if (level > 0 && !store_.lifted(level).queue.empty()) {
    peek_queue<kWithSlack>(
        level, store_.position(level) + 1, store_.lifted(level).queue, best, budget);
  }
  const detail::WheelRing& ring = store_.ring(level);
  const detail::WheelGeometry& geometry = store_.geometry();
  if (ring.next == detail::kNoSlot ||
      geometry.moment_of(geometry.start_of(level, ring.next)) >= best) {
    return;
  }
  // In the order of the slots, so that the first live one mostly ends the search. On level 2 a slot
  // holds hours of several turns, and its floor says the earliest of them.
  const std::uint64_t first = ring.next;
  for (std::uint64_t i = 0; i <= ring.mask; ++i) {
    const std::uint64_t place = (first + i) & ring.mask;
    if (ring.occupied[place / 64] >> place % 64 == 0) {
      i += std::min(63 - place % 64, ring.mask - place);  // Nothing in the rest of this word.
      continue;
    }
    if (!ring.is_occupied(place)) {
      continue;
    }
    const std::uint64_t slot = level == 2 ? ring.floor[place] : first + i;
    if (geometry.moment_of(geometry.start_of(level, slot)) < best) {
      peek_queue<kWithSlack>(level, slot, detail::ChunkQueue(ring.slots[place]), best, budget);
    } else if (level < 2) {
      break;
    }
  }
}

template <class Home>
template <bool kWithSlack>
void WheelCore<Home>::peek_queue(std::size_t level,
                                 std::uint64_t slot,
                                 const detail::ChunkQueue& queue,
                                 std::int64_t& best,
                                 std::size_t& budget) const noexcept {
  const std::int64_t start_ns =
      store_.geometry().moment_of(store_.geometry().start_of(level, slot));
  if (queue.size() > budget) {
    std::int64_t bound = 0;
    if (!__builtin_add_overflow(start_ns, kWithSlack ? slack_floor() : 0, &bound)) {
      best = std::min(best, bound);
    }
    budget = 0;
    return;
  }
  budget -= queue.size();
  for_each_in(queue, [&](const detail::WheelEntry& entry) {
    const std::int64_t stored_ns = home_.deadline_of(entry.index);
    bool counts = matches(level, slot, entry);
    if constexpr (Home::kLazyMoves) {
      counts = counts || (stored_ns != kNotAlive && home_.is_moved(entry.index));
    }
    if (counts) {
      best = std::min(best, value_of<kWithSlack>(entry.index, stored_ns));
    }
  });
}

template <class Home>
template <class Visit>
void WheelCore<Home>::for_each_while(const detail::ChunkQueue& queue, Visit&& visit) const {
  if (queue.empty()) {
    return;
  }
  const detail::ChunkPool& pool = store_.pool();
  std::uint32_t number = queue.list().head;
  for (std::uint32_t consumed = queue.consumed();; consumed = 0) {
    const std::uint32_t end = pool.end_in(queue.list(), number);
    for (std::uint32_t i = pool.header(number).begin + consumed; i < end; ++i) {
      if (!visit(pool.entries(number)[i])) {
        return;
      }
    }
    if (number == queue.list().tail_chunk()) {
      return;
    }
    number = pool.header(number).next;
  }
}

template <class Home>
template <class Visit>
void WheelCore<Home>::for_each_in(const detail::ChunkQueue& queue, Visit&& visit) const {
  for_each_while(queue, [&](const detail::WheelEntry& entry) {
    visit(entry);
    return true;
  });
}

template <class Home>
template <class Visit>
void WheelCore<Home>::for_each_entry(Visit&& visit) const {
  const detail::WheelGeometry& geometry = store_.geometry();
  late_.for_each([&](const detail::LateArrival& late) {
    visit(late.index, home_.deadline_of(late.index) == late.deadline_ns, late.deadline_ns);
  });
  for (const detail::WheelEntry& entry : run_.entries()) {
    const std::int64_t deadline_ns = run_start_ns_ + entry.offset;
    visit(entry.index, home_.deadline_of(entry.index) == deadline_ns, deadline_ns);
  }
  for (std::size_t level = 0; level < kWheelLevelCount; ++level) {
    const detail::WheelRing& ring = store_.ring(level);
    const std::uint64_t position = store_.position(level);
    const auto visit_slot = [&](std::uint64_t slot, std::int64_t start_ns) {
      return [&visit, this, level, slot, start_ns](const detail::WheelEntry& entry) {
        visit(entry.index, matches(level, slot, entry), start_ns);
      };
    };
    if (level > 0) {
      const std::uint64_t slot = position + 1;
      for_each_in(store_.lifted(level).queue,
                  visit_slot(slot, geometry.moment_of(geometry.start_of(level, slot))));
    }
    for (std::uint64_t place = 0; place <= ring.mask; ++place) {
      const std::uint64_t slot =
          level == 2 ? ring.floor[place] : position + ((place - position) & ring.mask);
      for_each_in(detail::ChunkQueue(ring.slots[place]),
                  visit_slot(slot, geometry.moment_of(geometry.start_of(level, slot))));
    }
  }
}

}  // namespace countwheel

#endif  // COUNTWHEEL_WHEEL_PEEK_H_
