// What becomes of operations that the journal did not take. Under leader_.
#include <algorithm>

#include "group_commit.h"
#include "rollback.h"

namespace countwheel::detail {
namespace {

using std::chrono::steady_clock;

constexpr auto kRecoverEvery = std::chrono::milliseconds(250);
// Refused ranges that are remembered for callers that ask late.
constexpr std::size_t kRefusedRanges = 4096;

void keep(const OpQueue& from, const std::vector<bool>& kept, std::size_t begin, OpQueue* to) {
  for (std::size_t i = begin; i < from.ops.size(); ++i) {
    if (kept[i]) {
      const Op& op = from.ops[i];
      to->push(op, op.key(), op.payload(), op.text());
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
  OpQueue late;
  {
    const std::lock_guard lock(queue_mutex_);
    std::swap(late, incoming_);
    incoming_count_.store(0);
  }
  if (late.empty() && begin >= queue.ops.size()) {
    return;
  }
  Rollback rollback(parts_.table, parts_.limits);
  const std::vector<bool> kept_late = rollback.run(late, 0);
  const std::vector<bool> kept_queue = rollback.run(queue, begin);
  OpQueue kept = std::move(kept_);
  kept_ = OpQueue();
  keep(queue, kept_queue, begin, &kept);
  keep(late, kept_late, 0, &kept);
  kept_ = std::move(kept);
  {
    const std::lock_guard lock(wait_mutex_);
    const auto note = [this](const OpQueue& ops, const std::vector<bool>& kept_ops, std::size_t from) {
      for (std::size_t i = from; i < ops.ops.size(); ++i) {
        if (kept_ops[i]) {
          continue;
        }
        const std::uint64_t lsn = ops.ops[i].lsn;
        const auto before = refused_.find(lsn - 1);
        std::uint64_t start = lsn;
        if (before != refused_.end()) {
          start = before->second;
          refused_.erase(before);
        }
        refused_[lsn] = start;
      }
    };
    note(queue, kept_queue, begin);
    note(late, kept_late, 0);
    while (refused_.size() > kRefusedRanges) {
      refused_.erase(refused_.begin());
    }
  }
  // Tasks accepted at `memory` run although they are not in the log: they were acknowledged.
  std::vector<MailItem>& mail = rollback.mail();
  std::uint64_t released = 0;
  for (const Op& op : kept_.ops) {
    released = std::max(released, op.lsn);
    if (op.kind == OpKind::kSchedule || op.kind == OpKind::kReschedule ||
        op.kind == OpKind::kRetry) {
      mail.push_back({op.clock == ClockKind::kBoot ? op.boot_deadline_ns : op.wall_deadline_ns,
                      op.id.index(),
                      op.slack_us,
                      op.clock});
    }
  }
  parts_.mailbox.put(mail, released);
  parts_.wake_ticker();
  {
    const std::lock_guard lock(telemetry_mutex_);
    rolled_back_ += rollback.undone();
  }
  notify_all();
}

// Unknown: it may or may not be in the log. Memory stays as it is; reopening settles it.
void GroupCommit::fail(OpQueue& queue, std::size_t begin, const Status& why) {
  OpQueue late;
  {
    const std::lock_guard lock(queue_mutex_);
    std::swap(late, incoming_);
    incoming_count_.store(0);
  }
  const bool first = mode_.load() != Mode::kFailed;
  if (first) {
    const std::lock_guard lock(wait_mutex_);
    failed_from_ = written_.load() + 1;
    failure_ = why.detail();
    mode_.store(Mode::kFailed);
  }
  // The engine's own work goes on in memory: retries are filed, ended tasks leave.
  const auto settle = [this](const OpQueue& ops, std::size_t from) {
    for (std::size_t i = from; i < ops.ops.size(); ++i) {
      const Op& op = ops.ops[i];
      if (op.kind == OpKind::kRetry) {
        mail_.push_back({op.clock == ClockKind::kBoot ? op.boot_deadline_ns : op.wall_deadline_ns,
                         op.id.index(),
                         op.slack_us,
                         op.clock});
      }
      if (op.kind == OpKind::kDone && op.releases) {
        released_[shard_of(op.id.index())].push_back(op.id.index());
      }
      if (op.cell != 0) {
        free_cells_.push_back(op.cell - 1);
      }
    }
  };
  settle(kept_, 0);
  settle(queue, begin);
  settle(late, 0);
  kept_.clear();
  if (!mail_.empty() || first) {
    parts_.mailbox.put(mail_, ~std::uint64_t{0});
    parts_.wake_ticker();
  }
  release_slots();
  if (first) {
    notify_all();
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
