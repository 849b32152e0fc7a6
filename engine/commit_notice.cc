// Callers of the group commit that wait without a thread. Whoever has led a commit calls them, once
// the leader's lock is released; on their behalf the commit thread is woken as a caller that waits
// would lead.
#include <string>

#include "group_commit.h"

namespace countwheel::detail {

void GroupCommit::notify(std::uint64_t lsn, Durability level, const Notice& notice) {
  Status status;
  if (settled(lsn, level, &status)) {
    notice.run(notice.argument, status);
    return;
  }
  if (lsn > last_lsn()) {
    notice.run(notice.argument, not_handed_out(lsn));
    return;
  }
  if (!waiters_.add(lsn, level, notice)) {
    // Stopped: what is not settled by now never will be.
    if (!settled(lsn, level, &status)) {
      status = Status(Code::kStopped);
    }
    notice.run(notice.argument, status);
    return;
  }
  want(lsn, level);
  // seq_cst: partner of the look at work_waiting() in run(). A nap is cut short too: somebody
  // waits.
  if (sleep_.load() != Sleep::kAwake) {
    kick();
  }
  // The batch may have passed between the look and the addition.
  if (settled(lsn, level, &status)) {
    call_settled();
  }
}

bool GroupCommit::withdraw(std::uint64_t lsn, Durability level, const Notice& notice) {
  return level != Durability::kMemory && waiters_.remove(lsn, level, notice);
}

// Calls everybody whose LSN is settled. Without locks.
void GroupCommit::call_settled() {
  parts_.events.deliver();
  if (waiters_.empty()) {
    return;
  }
  // Behind a mark that stands still there may be somebody whose operation failed.
  const bool all = mode_.load() != Mode::kOk || any_refused_.load();
  const auto taken = waiters_.take(all, [this](std::uint64_t lsn, Durability level, Status* why) {
    return settled(lsn, level, why);
  });
  for (const SettledNotice& settled : taken) {
    settled.notice.run(settled.notice.argument, settled.status);
  }
}

// The last commit was made: who is not settled by it hears that the engine has stopped.
void GroupCommit::call_the_rest() {
  parts_.events.deliver();
  waiters_.close();
  const auto taken = waiters_.take(true, [this](std::uint64_t lsn, Durability level, Status* why) {
    if (!settled(lsn, level, why)) {
      *why = Status(Code::kStopped);
    }
    return true;
  });
  for (const SettledNotice& settled : taken) {
    settled.notice.run(settled.notice.argument, settled.status);
  }
}

// A synced watermark is due although nothing is queued.
bool GroupCommit::sync_wanted() const noexcept {
  return mode_.load() == Mode::kOk && written_.load() > synced_.load() &&
         want_synced_.load() > synced_.load();
}

Status GroupCommit::not_handed_out(std::uint64_t lsn) {
  return Status(Code::kOutOfRange, "LSN " + std::to_string(lsn) + " has not been handed out");
}

}  // namespace countwheel::detail
