// What the dispatcher says about itself: to stop(), and for stats.
#include <algorithm>

#include "dispatcher.h"

namespace countwheel::detail {

void Dispatcher::leave() noexcept {
  const std::lock_guard lock(drained_mutex_);
  inside_.fetch_sub(1);
  drained_.notify_all();
}

void Dispatcher::end_running() noexcept {
  const std::lock_guard lock(drained_mutex_);
  running_.fetch_sub(1);
  drained_.notify_all();
}

bool Dispatcher::drained(std::chrono::nanoseconds timeout) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(drained_mutex_);
  while (running_.load() != 0 || inside_.load() != 0) {
    const std::chrono::nanoseconds left = timeout - (std::chrono::steady_clock::now() - start);
    if (left.count() <= 0) {
      return false;
    }
    // Capped, since the end of the wait must not overflow the clock.
    drained_.wait_for(lock, std::min<std::chrono::nanoseconds>(left, std::chrono::hours(1)));
  }
  return true;
}

std::vector<TaskId> Dispatcher::running() const {
  std::vector<TaskId> ids = leases_.fenced();
  for (std::size_t i = 0; i < parts_.cells.size(); ++i) {
    const AttemptCell& cell = parts_.cells.cell(static_cast<std::uint32_t>(i));
    const TaskId id{cell.id.load(std::memory_order_acquire)};
    if (id && (cell.mark.load(std::memory_order_acquire) & 1) == 0) {
      ids.push_back(id);
    }
  }
  return ids;
}

void Dispatcher::fill(Stats* stats) const {
  stats->started = started_.load(std::memory_order_relaxed);
  stats->skipped = skipped_.load(std::memory_order_relaxed);
  stats->repeated = repeated_.load(std::memory_order_relaxed);
  stats->stuck = leases_.fenced_count();
  stats->leases_expired = leases_.over_count();
  // Two looks, and between them one that was stuck may have answered.
  const std::uint64_t running = running_.load();
  stats->running = running - std::min(running, stats->stuck);
  const std::size_t types = parts_.types.count();
  for (std::size_t i = 0; i < types; ++i) {
    const TaskType* type = parts_.types.at(static_cast<std::uint16_t>(i));
    if (type == nullptr) {
      continue;
    }
    if (!type->ready.load(std::memory_order_acquire)) {
      stats->parked += type->overflow_count.load();
      continue;
    }
    stats->backlog += type->ring.size() + type->overflow_count.load() + type->spread_count.load();
    ClockKind clock = ClockKind::kWall;
    if (const std::int64_t deadline = type->ring.oldest_deadline(&clock); deadline != 0) {
      const std::int64_t late_ns = parts_.now_on(clock) - deadline;
      stats->oldest_overdue_ns = std::max(stats->oldest_overdue_ns, late_ns);
    }
  }
}

}  // namespace countwheel::detail
