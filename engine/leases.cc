#include "leases.h"

#include <algorithm>

namespace countwheel::detail {

bool Leases::begin(Lease* lease, std::int64_t now_ns, std::int64_t length_ns) {
  const std::lock_guard lock(mutex_);
  if (running_.empty()) {
    looked_ns_ = now_ns;
  }
  lease->ends_ns = now_ns + length_ns - shift_ns_;
  running_.emplace(lease->ends_ns, lease);
  return running_.size() == 1;
}

bool Leases::finish(Lease* lease) {
  const std::lock_guard lock(mutex_);
  return fenced_.erase(lease) == 0 && running_.erase({lease->ends_ns, lease}) == 1;
}

bool Leases::extend(Lease* lease, std::int64_t ends_ns) {
  const std::lock_guard lock(mutex_);
  if (running_.erase({lease->ends_ns, lease}) == 0) {
    return false;
  }
  lease->ends_ns = std::max(lease->ends_ns, ends_ns - shift_ns_);
  running_.emplace(lease->ends_ns, lease);
  return true;
}

std::int64_t Leases::next() const {
  const std::lock_guard lock(mutex_);
  return running_.empty() ? kNever : running_.begin()->first + shift_ns_;
}

std::vector<InFlight> Leases::take_over(std::int64_t now_ns) {
  std::vector<InFlight> over;
  const std::lock_guard lock(mutex_);
  while (!running_.empty() && running_.begin()->first + shift_ns_ <= now_ns) {
    Lease* const lease = running_.begin()->second;
    running_.erase(running_.begin());
    fenced_.insert(lease);
    lease->over.store(true, std::memory_order_relaxed);
    over.push_back(lease->in_flight);
    over_count_.fetch_add(1, std::memory_order_relaxed);
  }
  return over;
}

void Leases::look(std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  const std::int64_t since_ns = now_ns - std::exchange(looked_ns_, now_ns);
  if (!running_.empty() && since_ns > 2 * kBeatNs) {
    shift_ns_ += since_ns - kBeatNs;
  }
}

std::vector<TaskId> Leases::fenced() const {
  const std::lock_guard lock(mutex_);
  std::vector<TaskId> ids;
  for (const Lease* lease : fenced_) {
    ids.push_back(lease->in_flight.id);
  }
  return ids;
}

std::size_t Leases::fenced_count() const {
  const std::lock_guard lock(mutex_);
  return fenced_.size();
}

}  // namespace countwheel::detail
