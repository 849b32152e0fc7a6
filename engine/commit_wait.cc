// Callers that wait until an operation is as durable as they ask: whoever finds nobody committing
// leads, the others sleep until the batch that theirs is in has ended.
#include <algorithm>
#include <thread>
#include <utility>

#include "futex.h"
#include "group_commit.h"

namespace countwheel::detail {
namespace {

using std::chrono::steady_clock;

}  // namespace

bool GroupCommit::was_refused(std::uint64_t lsn) const {
  if (!any_refused_.load()) {
    return false;
  }
  const std::lock_guard lock(wait_mutex_);
  const auto range = refused_.lower_bound(lsn);
  return range != refused_.end() && range->second <= lsn;
}

// Answers whether the fate of `lsn` is known, and which it is. Marks pass over what was refused.
bool GroupCommit::settled(std::uint64_t lsn, Durability level, Status* status) const {
  const Mode mode = mode_.load();
  const bool reached = lsn <= mark(level);
  if (lsn == 0 || (reached && level == Durability::kMemory)) {
    return true;
  }
  if (was_refused(lsn)) {
    *status = Status(Code::kNoSpace, std::string(parts_.journal.path()));
    return true;
  }
  if (!reached && mode == Mode::kFailed) {
    // Neither mark moves any more.
    const std::lock_guard lock(wait_mutex_);
    *status = Status(Code::kJournalFailed, failure_);
    return true;
  }
  return reached;
}

Status GroupCommit::wait(std::uint64_t lsn, Durability level, Nanoseconds timeout) {
  Status status;
  if (settled(lsn, level, &status)) {
    return status;
  }
  if (lsn > last_lsn()) {
    return not_handed_out(lsn);
  }
  want(lsn, level);
  const steady_clock::time_point start = steady_clock::now();
  // A bound on the sleep, so that a commit nobody leads is led by the next that looks.
  constexpr auto kLook = std::chrono::milliseconds(5);
  for (;;) {
    if (leader_.try_lock()) {
      {
        const std::lock_guard lead(leader_, std::adopt_lock);
        if (!settled(lsn, level, &status)) {
          let_others_join();
          commit_locked();
        }
      }
      call_settled();
      // The next batch needs a leader, and the chores of this one a thread that is awake for them.
      if (incoming_count_.load() != 0 ||
          (sleep_.load() == Sleep::kAsleep && !chore_planned_.load())) {
        kick();
      }
    }
    if (settled(lsn, level, &status)) {
      return status;
    }
    if (steady_clock::now() - start >= timeout) {
      return Status(Code::kTimedOut,
                    "LSN " + std::to_string(lsn) + " is not " + std::string(to_string(level)));
    }
    sleep_until_batch(lsn, level, std::min<Nanoseconds>(kLook, timeout));
  }
}

// Those that the last batch has woken are about to come back with the next operation: whoever is
// first would sync its own alone while all the others wait for the second sync. Nobody waits here
// for a time to pass: one turn of the scheduler is as long as they take to get here.
void GroupCommit::let_others_join() const noexcept {
  constexpr int kTurns = 3;
  const std::size_t woken = woken_.load(std::memory_order_relaxed);
  for (int i = 0; i < kTurns && incoming_count_.load() < woken; ++i) {
    std::this_thread::yield();
  }
}

void GroupCommit::sleep_until_batch(std::uint64_t lsn, Durability level, Nanoseconds timeout) {
  WaitSlot* slot = nullptr;
  std::uint32_t epoch = 0;
  {
    const std::lock_guard lock(wait_mutex_);
    if (lsn <= mark(level)) {
      return;
    }
    const std::uint64_t batch = lsn <= batch_last_lsn_ ? batch_ : batch_ + 1;
    slot = &wait_[batch % kWaitSlots];
    epoch = slot->epoch.load();
    ++slot->sleepers;
  }
  futex_wait(slot->epoch, epoch, timeout);
}

// Before the next commit ends, the mark of `level` will have reached `lsn`.
void GroupCommit::want(std::uint64_t lsn, Durability level) noexcept {
  if (level == Durability::kDisk) {
    std::uint64_t wanted = want_synced_.load();
    while (wanted < lsn && !want_synced_.compare_exchange_weak(wanted, lsn)) {
    }
  }
}

void GroupCommit::begin_batch(std::uint64_t last_lsn) {
  const std::lock_guard lock(wait_mutex_);
  ++batch_;
  batch_last_lsn_ = std::max(batch_last_lsn_, last_lsn);
}

void GroupCommit::notify_batch() {
  WaitSlot& slot = wait_[batch_ % kWaitSlots];
  {
    // The lock orders the marks before the look of a caller that is about to wait.
    const std::lock_guard lock(wait_mutex_);
    slot.epoch.fetch_add(1);
    woken_.store(std::exchange(slot.sleepers, 0), std::memory_order_relaxed);
  }
  if (woken_.load(std::memory_order_relaxed) != 0) {
    futex_wake_all(slot.epoch);
  }
}

void GroupCommit::notify_all() {
  const std::lock_guard lock(wait_mutex_);
  for (WaitSlot& slot : wait_) {
    slot.epoch.fetch_add(1);
    slot.sleepers = 0;
    futex_wake_all(slot.epoch);
  }
}

}  // namespace countwheel::detail
