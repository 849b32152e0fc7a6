// What becomes of operations that the journal did not take. Under leader_.
#include <algorithm>

#include "group_commit.h"
#include "rollback.h"

namespace countwheel::detail {
namespace {

using std::chrono::steady_clock;

constexpr auto kRecoverEvery = std::chrono::milliseconds(250);
// Refused ranges that are remembered for callers that ask late: more than one refusal can make.
constexpr std::size_t kRefusedRanges = std::size_t{1} << 20;

void keep(const OpQueue& from, const std::vector<bool>& kept, std::size_t begin, OpQueue* to) {
  for (std::size_t i = begin; i < from.ops.size(); ++i) {
    if (kept[i]) {
      const Op& op = from.ops[i];
      to->push(op, {op.key(), op.payload(), op.text(), op.attributes()});
      if (from.has_writes(op)) {
        to->push_writes(op.lsn, from.writes_of(op));
      }
    }
  }
}

}  // namespace

void GroupCommit::handle_failure(OpQueue& queue, std::size_t begin, const Status& why) {
  // An elided pair shares the fate of its piece.
  for (const auto& [position, kind] : elided_) {
    queue.ops[position].kind = kind;
  }
  elided_.clear();
  if (why.code() == Code::kNoSpace) {
    refuse(queue, begin);
  } else {
    fail(queue, begin, why);
  }
}

// Definite: nothing of it was written. Takes back everything that is not written yet, newest first.
void GroupCommit::refuse(OpQueue& queue, std::size_t begin) {
  const bool first = mode_.load() == Mode::kOk;
  mode_.store(Mode::kNoSpace);
  if (first) {
    next_recover_ = steady_clock::now() + kRecoverEvery;
  }
  if (incoming_count_.load() == 0 && begin >= queue.ops.size()) {
    return;  // Most often: it is asked before each look whether there is space again.
  }
  OpQueue late;
  std::vector<bool> kept_late;
  std::vector<bool> kept_queue;
  Rollback rollback(parts_.table, parts_.limits);
  {
    // In one moment. A call that was accepted before the refusal may be decided only now: half-way
    // it would stand on what is taken back next, be acknowledged at `memory`, and be lost.
    const AllShards locked(parts_.table);
    {
      const std::lock_guard lock(queue_mutex_);
      std::swap(late, incoming_);
      incoming_count_.store(0);
    }
    kept_late = rollback.run(late, 0);
    kept_queue = rollback.run(queue, begin);
  }
  // A task that is taken back was not carried while it was cancelled.
  carry_again_ = carried_low_water_ != 0;
  OpQueue kept = std::move(kept_);
  kept_ = OpQueue();
  keep(queue, kept_queue, begin, &kept);
  keep(late, kept_late, 0, &kept);
  kept_ = std::move(kept);
  note_refused(queue, kept_queue, begin);
  note_refused(late, kept_late, 0);
  mail_kept(rollback.mail());
  {
    const std::lock_guard lock(telemetry_mutex_);
    rolled_back_ += rollback.undone();
  }
  notify_all();
}

void GroupCommit::note_refused(const OpQueue& queue,
                               const std::vector<bool>& kept,
                               std::size_t begin) {
  const std::lock_guard lock(wait_mutex_);
  for (std::size_t i = begin; i < queue.ops.size(); ++i) {
    if (kept[i]) {
      continue;
    }
    const std::uint64_t lsn = queue.ops[i].lsn;
    std::uint64_t first = lsn;
    if (const auto before = refused_.find(lsn - 1); before != refused_.end()) {
      first = before->second;
      refused_.erase(before);
    }
    refused_[lsn] = first;
  }
  while (refused_.size() > kRefusedRanges) {
    refused_.erase(refused_.begin());
  }
  any_refused_.store(!refused_.empty());
}

// Tasks accepted at `memory` run although they are not in the log: they were acknowledged.
void GroupCommit::mail_kept(std::vector<MailItem>& mail) {
  std::uint64_t released = 0;
  for (const Op& op : kept_.ops) {
    released = std::max(released, op.lsn);
    if (mailed(op)) {
      mail.push_back(mail_of(op));
    }
  }
  if (parts_.mailbox.put(mail, released)) {
    parts_.wake_ticker();
  }
}

// Unknown: it may or may not be in the log. Memory stays as it is; reopening settles it.
void GroupCommit::fail(OpQueue& queue, std::size_t begin, const Status& why) {
  OpQueue late;
  {
    const std::lock_guard lock(queue_mutex_);
    std::swap(late, incoming_);
    incoming_count_.store(0);
  }
  if (mode_.load() != Mode::kFailed) {
    const std::lock_guard lock(wait_mutex_);
    failure_ = why.detail();
    mode_.store(Mode::kFailed);
  }
  settle_failed(kept_, 0);
  settle_failed(queue, begin);
  settle_failed(late, 0);
  kept_.clear();
  const bool starved = parts_.cells.give_marked(free_cells_);
  free_cells_.clear();
  if (parts_.mailbox.put(mail_, 0) || starved) {
    parts_.wake_ticker();
  }
  release_slots();
  notify_all();
}

// The engine's own work goes on in memory: retries are filed, ended tasks leave.
void GroupCommit::settle_failed(const OpQueue& queue, std::size_t begin) {
  for (std::size_t i = begin; i < queue.ops.size(); ++i) {
    const Op& op = queue.ops[i];
    if (op.kind == OpKind::kRetry) {
      // Back to the place in the order that was released, which its record would have changed: the
      // mark of what is released stands still, for the sake of those whose outcome is unknown.
      Shard& shard = parts_.table.shard_for(op.id);
      const std::lock_guard lock(shard.mutex);
      Node* node = parts_.table.find(shard, op.id);
      if (node != nullptr && node->lsn.load(std::memory_order_relaxed) == op.lsn) {
        node->lsn.store(op.base_lsn, std::memory_order_relaxed);
        mail_.push_back(mail_of(op));
      }
    }
    if (op.kind == OpKind::kDone && op.releases) {
      released_[shard_of(op.id.index())].push_back(op.id.index());
    }
    if (op.cell != 0) {
      free_cells_.push_back(op.cell - 1);
    }
  }
}

bool GroupCommit::try_recover() {
  const steady_clock::time_point now = steady_clock::now();
  if (now < next_recover_) {
    return false;
  }
  next_recover_ = now + kRecoverEvery;
  if (!parts_.journal.recover().ok()) {
    return false;
  }
  mode_.store(Mode::kOk);
  return true;
}

}  // namespace countwheel::detail
