// Mailbox: what the group commit tells the tick thread.
//
// Durable (re)schedules arrive here and only here: a task that is in a wheel is durable. `released`
// is the LSN up to which everything has passed: a wheel entry whose task has a later LSN belongs
// to a reschedule that is not durable yet and is not handed over.
#ifndef COUNTWHEEL_ENGINE_MAILBOX_H_
#define COUNTWHEEL_ENGINE_MAILBOX_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include <countwheel/clock.h>
#include <countwheel/journal.h>

#include "node.h"

namespace countwheel::detail {

struct MailItem {
  std::int64_t deadline_ns = 0;  // on its clock
  std::uint32_t index = 0;
  std::uint32_t slack_us = 0;
  ClockKind clock = ClockKind::kWall;
};

// True for operations that file a task in a wheel once they are durable. The cleaner's do not:
// their tasks are filed already.
inline bool mailed(const Op& op) noexcept {
  switch (op.kind) {
    case OpKind::kSchedule:
      return op.base_lsn == op.lsn;
    case OpKind::kReschedule:
      return !op.touch;
    case OpKind::kRetry:
      return true;
    default:
      return false;
  }
}
inline MailItem mail_of(const Op& op) noexcept {
  return {op.clock == ClockKind::kBoot ? op.boot_deadline_ns : op.wall_deadline_ns,
          op.id.index(),
          op.slack_us,
          op.clock};
}
inline MailItem mail_of(const Node& node, std::uint32_t index) noexcept {
  return {node.deadline_ns.load(std::memory_order_relaxed),
          index,
          node.slack_us.load(std::memory_order_relaxed),
          node.clock()};
}

// Thread contract: put() from any thread, take() and announce() by the tick thread.
class Mailbox {
 public:
  // The tick thread is woken when something arrives that is due before it would wake, or when this
  // many items wait.
  static constexpr std::size_t kWakeCount = 16 * 1024;

  // Adds the items, which are left empty, and moves `released` on (0 leaves it). True when the
  // tick thread must be woken.
  bool put(std::vector<MailItem>& items, std::uint64_t released) {
    Instant earliest{kNever, kNever};
    for (const MailItem& item : items) {
      std::int64_t& face = item.clock == ClockKind::kWall ? earliest.wall_ns : earliest.boot_ns;
      face = std::min(face, wake_of(item));
    }
    std::size_t waiting = 0;
    {
      const std::lock_guard lock(mutex_);
      if (items_.empty()) {
        items_.swap(items);
      } else {
        items_.insert(items_.end(), items.begin(), items.end());
      }
      released_ = std::max(released_, released);
      waiting = items_.size();
    }
    items.clear();
    // seq_cst, like announce() and the check behind it: either this load sees the announcement or
    // the tick thread sees the items.
    return earliest.wall_ns < next_wake_wall_.load() || earliest.boot_ns < next_wake_boot_.load() ||
           waiting > kWakeCount;
  }

  // Moves everything into `items`, which is empty; answers `released`.
  std::uint64_t take(std::vector<MailItem>& items) {
    const std::lock_guard lock(mutex_);
    items.swap(items_);
    return released_;
  }

  // True when the tick thread should have woken by itself a while ago: a sleep that a suspend of
  // the machine has prolonged, say. Whoever sees it wakes it.
  bool overslept(Instant now) const noexcept {
    return passed(next_wake_wall_.load(), now.wall_ns) ||
           passed(next_wake_boot_.load(), now.boot_ns);
  }

  bool has_items() {
    const std::lock_guard lock(mutex_);
    return !items_.empty();
  }

  // What take() would answer.
  std::uint64_t released() {
    const std::lock_guard lock(mutex_);
    return released_;
  }

  // While the tick thread is awake it looks at the mailbox before it sleeps: nobody need wake it.
  void awake() noexcept {
    next_wake_wall_.store(std::numeric_limits<std::int64_t>::min());
    next_wake_boot_.store(std::numeric_limits<std::int64_t>::min());
  }

  // Says when the tick thread will look again. True when it must look at once instead.
  bool announce(Instant next_wake) {
    next_wake_wall_.store(next_wake.wall_ns);
    next_wake_boot_.store(next_wake.boot_ns);
    const std::lock_guard lock(mutex_);
    return !items_.empty();
  }

 private:
  static constexpr std::int64_t kOversleptNs = 1'000'000;

  static bool passed(std::int64_t wake_ns, std::int64_t now_ns) noexcept {
    return wake_ns > 0 && now_ns > wake_ns && now_ns - wake_ns > kOversleptNs;
  }

  // Saturating: a deadline close to the end of time must not wrap into the past.
  static std::int64_t wake_of(const MailItem& item) noexcept {
    std::int64_t wake = 0;
    return __builtin_add_overflow(item.deadline_ns, std::int64_t{item.slack_us} * 1000, &wake)
               ? kNever
               : wake;
  }

  std::mutex mutex_;
  std::vector<MailItem> items_;  // guarded by mutex_
  std::uint64_t released_ = 0;   // guarded by mutex_
  std::atomic<std::int64_t> next_wake_wall_{std::numeric_limits<std::int64_t>::min()};
  std::atomic<std::int64_t> next_wake_boot_{std::numeric_limits<std::int64_t>::min()};
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_MAILBOX_H_
