// How WheelCore moves the cursor and hands over what is due. Included by wheel_core.h.
#ifndef COUNTWHEEL_WHEEL_ADVANCE_H_
#define COUNTWHEEL_WHEEL_ADVANCE_H_

#include <countwheel/wheel_core.h>

namespace countwheel {

// The walk: hand over what is open, move the cursor to the next tick where something lies (or to
// the target), open it, and so on. It takes a turn per occupied slot, never one per tick: 15 days
// with three timers are a handful of turns.
template <class Home>
template <class Sink>
AdvanceResult WheelCore<Home>::advance_to(std::uint64_t now,
                                          std::int64_t now_ns,
                                          Sink& sink,
                                          std::size_t limit) noexcept {
  const detail::WheelGeometry& geometry = store_.geometry();
  COUNTWHEEL_ASSERT(hold_back_until_ns_ == kNotAlive);  // A sink must not advance.
  if (store_.open_end() <= seen_) {
    catch_up();
  }
  moved_ = 0;
  removed_ += late_.settle(
      [this](const detail::LateArrival& late) { return may_count(late.index, late.deadline_ns); });

  const std::uint64_t tick_before = store_.position(0);
  const std::uint64_t target = geometry.slot_of(0, now);
  const std::int64_t due_ns =
      store_.options().precision == Precision::kTick ? geometry.boundary_before(now_ns) : now_ns;
  AdvanceResult result;
  hold_back_until_ns_ = due_ns;
  while (true) {
    result.handed_over += hand_over(due_ns, sink, limit - result.handed_over);
    result.more_due = settle_head(due_ns);
    if (result.more_due || store_.position(0) >= target) {
      break;
    }
    const std::uint64_t stop = store_.next_stop();
    if (result.handed_over >= limit && stop <= target) {
      result.more_due = true;
      break;
    }
    step(std::min(stop, target));
  }
  hold_back_until_ns_ = kNotAlive;

  drain_ahead(tick_before);
  moved_max_ = std::max(moved_max_, moved_);
  compact_a_little();
  finish(now, result.more_due);
  result.more_due = result.more_due || late_.has_fresh();
  return result;
}

// Says until when advance() may answer at once.
template <class Home>
void WheelCore<Home>::finish(std::uint64_t now, bool stopped) noexcept {
  if (stopped || late_.has_fresh()) {
    store_.set_quiet_until(0);
    return;
  }
  seen_ = std::max(seen_, now);
  if (sweep_at_inserted_ == inserted_) {
    store_.set_quiet_until(0);  // There is more to compact.
    return;
  }
  std::int64_t head_ns = kNothingPending;
  if (!run_.empty()) {
    head_ns = run_start_ns_ + run_.front().offset;
  }
  if (const detail::LateArrival* late = late_.top(); late != nullptr) {
    head_ns = std::min(head_ns, late->deadline_ns);
  }
  store_.set_quiet_until(
      std::min(detail::WheelGeometry::stamp_of(tick_rounded(head_ns)), store_.next_event()));
}

template <class Home>
template <class Sink>
std::size_t WheelCore<Home>::hand_over(std::int64_t due_ns,
                                       Sink& sink,
                                       std::size_t limit) noexcept {
  Batch batch;
  std::size_t handed_over = 0;
  while (handed_over < limit) {
    const std::size_t room = std::min(limit - handed_over, kBatchMax);
    const std::size_t count = collect(due_ns, std::span(batch.due, room));
    if (count == 0) {
      break;
    }
    handed_over += count;
    sink(std::span<const Due>(batch.due, count));
  }
  return handed_over;
}

// Merges the run with the late arrivals, equal deadlines by sequence.
template <class Home>
std::size_t WheelCore<Home>::collect(std::int64_t due_ns, std::span<Due> due) noexcept {
  std::size_t count = 0;
  while (count < due.size()) {
    const detail::LateArrival* late = late_top();
    const bool late_is_due = late != nullptr && late->deadline_ns <= due_ns;
    const std::size_t late_count = late_.size();
    count = collect_run(late_is_due ? late->deadline_ns - 1 : due_ns, due, count);
    if (late_.size() != late_count) {
      continue;  // One joined them, and may be the earliest now.
    }
    if (count == due.size() || !late_is_due) {
      break;
    }
    collect_tie(*late_.top(), due, count);
  }
  return count;
}

// Takes the late arrival, or the head of the run if that has the same deadline and was scheduled
// before. A head that turns out to be dead is dropped, and nothing is taken.
template <class Home>
void WheelCore<Home>::collect_tie(detail::LateArrival late,
                                  std::span<Due> due,
                                  std::size_t& count) noexcept {
  if (!run_.empty()) {
    const detail::WheelEntry head = run_.front();
    if (run_start_ns_ + head.offset == late.deadline_ns) {
      const std::int64_t stored_ns = home_.deadline_of(head.index);
      const std::uint64_t sequence = home_.sequence_of(head.index);
      if (stored_ns != late.deadline_ns) {
        run_.consume(1);
        refile_or_drop(head.index, stored_ns);
        return;
      }
      if (sequence > run_sequence_max_) {
        run_.consume(1);
        late_.push({stored_ns, sequence, head.index});
        return;
      }
      if (sequence < late.sequence) {
        run_.consume(1);
        take(head.index, stored_ns, due, count);
        return;
      }
    }
  }
  late_.pop();
  take(late.index, late.deadline_ns, due, count);
}

// An entry leaves the wheel. One that repeats the entry before it is not handed over again.
template <class Home>
void WheelCore<Home>::take(std::uint32_t index,
                           std::int64_t deadline_ns,
                           std::span<Due> due,
                           std::size_t& count) noexcept {
  ++removed_;
  if constexpr (detail::DueOf<Home>::kTakes) {
    due[count++] = home_.take(index, deadline_ns);
  } else if (count == 0 || due[count - 1].index != index ||
             due[count - 1].deadline_ns != deadline_ns) {
    due[count++] = {index, deadline_ns};
  }
}

// Takes live entries from the run while their deadline is at most `bound_ns`. Stops early when an
// entry it met went to the late arrivals, because the bound may have changed.
template <class Home>
std::size_t WheelCore<Home>::collect_run(std::int64_t bound_ns,
                                         std::span<Due> due,
                                         std::size_t count) noexcept {
  // No two entries of a run are equal, but its first may repeat a late arrival. (A node that was
  // taken is no match any more.)
  if constexpr (!detail::DueOf<Home>::kTakes) {
    if (count > 0 && !run_.empty() && run_.front().index == due[count - 1].index &&
        run_start_ns_ + run_.front().offset == due[count - 1].deadline_ns) {
      run_.consume(1);
      ++removed_;
    }
  }
  bool stop = false;
  while (count < due.size() && !run_.empty() && !stop) {
    const std::span<const detail::WheelEntry> entries = run_.entries();
    const std::int64_t start_ns = run_start_ns_;
    const std::uint64_t sequence_max = run_sequence_max_;
    const std::size_t end = std::min(entries.size(), due.size() - count);
    std::size_t i = 0;
    std::size_t dead = 0;
    for (; i < end; ++i) {
      if (run_is_cold_ && i + kPrefetchAhead < entries.size()) {
        home_.prefetch(entries[i + kPrefetchAhead].index);
      }
      const std::uint32_t index = entries[i].index;
      const std::int64_t deadline_ns = start_ns + entries[i].offset;
      if (deadline_ns > bound_ns) {
        stop = true;
        break;
      }
      const std::int64_t stored_ns = home_.deadline_of(index);
      const std::uint64_t sequence = home_.sequence_of(index);
      if (stored_ns == deadline_ns && sequence <= sequence_max) [[likely]] {
        if constexpr (detail::DueOf<Home>::kTakes) {
          due[count++] = home_.take(index, deadline_ns);
        } else {
          due[count++] = {index, deadline_ns};
        }
        continue;
      }
      ++dead;
      if (drop_from_run(index, deadline_ns, stored_ns, sequence)) {
        stop = true;
        ++i;
        break;
      }
    }
    removed_ += i - dead;
    run_.consume(i);
  }
  return count;
}

// What the run must not hand over: a dead entry, or one that was scheduled anew for the same moment
// since the sort and belongs behind its equals. True if something joined the late arrivals.
template <class Home>
bool WheelCore<Home>::drop_from_run(std::uint32_t index,
                                    std::int64_t deadline_ns,
                                    std::int64_t stored_ns,
                                    std::uint64_t sequence) noexcept {
  const std::size_t late_before = late_.size();
  if (stored_ns != deadline_ns) {
    refile_or_drop(index, stored_ns);
  } else {
    late_.push({deadline_ns, sequence, index});
  }
  return late_.size() != late_before;
}

// The earliest late arrival that still counts.
template <class Home>
const detail::LateArrival* WheelCore<Home>::late_top() noexcept {
  while (const detail::LateArrival* late = late_.top()) {
    const detail::LateArrival item = *late;
    const std::int64_t stored_ns = home_.deadline_of(item.index);
    if (stored_ns == item.deadline_ns) {
      const std::uint64_t sequence = home_.sequence_of(item.index);
      if (sequence == item.sequence) {
        return late;
      }
      late_.pop();
      late_.push({item.deadline_ns, sequence, item.index});
    } else {
      late_.pop();
      refile_or_drop(item.index, stored_ns);
    }
  }
  return nullptr;
}

// Drops dead heads. True if and only if something live with deadline <= due_ns is left.
template <class Home>
bool WheelCore<Home>::settle_head(std::int64_t due_ns) noexcept {
  while (!run_.empty()) {
    const detail::WheelEntry head = run_.front();
    const std::int64_t deadline_ns = run_start_ns_ + head.offset;
    if (deadline_ns > due_ns) {
      break;
    }
    const std::int64_t stored_ns = home_.deadline_of(head.index);
    if (stored_ns == deadline_ns) {
      return true;
    }
    run_.consume(1);
    refile_or_drop(head.index, stored_ns);
  }
  const detail::LateArrival* late = late_top();
  return late != nullptr && late->deadline_ns <= due_ns;
}

// Enters `tick`: pays what the cascade owes at borders that are crossed, lifts the next slots,
// opens the tick's slot. REQUIRES: nothing lies between the cursor and `tick`, and the run is
// empty.
template <class Home>
void WheelCore<Home>::step(std::uint64_t tick) noexcept {
  COUNTWHEEL_ASSERT(tick > store_.position(0));
  COUNTWHEEL_ASSERT(run_.empty());
  const std::uint64_t second_before = store_.position(1);
  const std::uint64_t hour_before = store_.position(2);
  store_.set_position(tick);
  for (std::size_t level = kWheelLevelCount - 1; level > 0; --level) {
    const std::uint64_t slot = store_.position(level);
    if (slot == (level == 1 ? second_before : hour_before)) {
      continue;
    }
    detail::ChunkQueue owed;
    std::swap(owed, store_.lifted(level).queue);
    while (true) {
      const std::uint64_t count = owed.size();
      forced_ += count;
      if (level == 1) {
        move_second(owed, slot, count);
      } else {
        move_hour(owed, slot, count);
      }
      if (store_.ring(level).next > slot) {
        break;
      }
      owed = detail::ChunkQueue(store_.take(level, slot));
    }
  }
  for (std::size_t level = 1; level < kWheelLevelCount; ++level) {
    if (store_.lifted(level).queue.empty()) {
      store_.lift(level);
    }
  }
  store_.close_front();
  open(tick);
}

// Brings the cursor to the latest time seen; nothing was due on the way.
template <class Home>
void WheelCore<Home>::catch_up() noexcept {
  const std::uint64_t tick = store_.geometry().slot_of(0, seen_);
  COUNTWHEEL_ASSERT(store_.next_stop() > tick);
  step(tick);
}

template <class Home>
void WheelCore<Home>::refile(std::uint32_t index, std::int64_t deadline_ns) noexcept {
  if (!store_.file(index, store_.geometry().stamp_of(deadline_ns))) {
    late_.push({deadline_ns, home_.sequence_of(index), index});
    store_.wake_by(0);
  }
}

// For an entry that is not its node's word any more. Its node may have moved and wait to be filed
// at `stored_ns`; otherwise the entry is dead.
template <class Home>
void WheelCore<Home>::refile_or_drop(std::uint32_t index, std::int64_t stored_ns) noexcept {
  if constexpr (Home::kLazyMoves) {
    if (stored_ns != kNotAlive && home_.claim_move(index)) {
      refile(index, stored_ns);
      return;
    }
  }
  ++removed_;
}

}  // namespace countwheel

#endif  // COUNTWHEEL_WHEEL_ADVANCE_H_
