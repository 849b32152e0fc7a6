// The leader's part of the group commit, top to bottom: swap, cut into pieces, elide, write,
// publish. Everything here runs under leader_.
#include <algorithm>

#include <countwheel/assert.h>

#include "group_commit.h"

namespace countwheel::detail {
namespace {

using std::chrono::steady_clock;

// One idle tick after the last blob a watermark is written behind it: a blob is only known to be
// acknowledged when a later one says so (DECISIONS 10).
constexpr auto kIdleBeforeWatermark = std::chrono::milliseconds(10);

}  // namespace

void GroupCommit::commit_locked() {
  if (mode_.load() == Mode::kFailed) {
    fail(work_, work_.ops.size(), Status(Code::kJournalFailed));
    return;
  }
  if (mode_.load() == Mode::kNoSpace && !try_recover()) {
    refuse(work_, work_.ops.size());
    return;
  }
  if (!kept_.empty()) {
    OpQueue kept = std::move(kept_);
    kept_ = OpQueue();
    if (!commit_queue(kept)) {
      return;
    }
  }
  {
    const std::lock_guard lock(queue_mutex_);
    std::swap(work_, incoming_);
    incoming_count_.store(0);
  }
  if (!work_.empty()) {
    begin_batch(work_.ops.back().lsn);
    const bool written = commit_queue(work_);
    work_.clear();
    if (!written) {
      return;
    }
  }
  // A caller waits for `disk` behind an operation that only asked for less.
  if (want_synced_.load() > synced_.load() && written_.load() > synced_.load()) {
    const Status status = write_watermark(true);
    if (!status.ok()) {
      handle_failure(work_, 0, status);
    }
  }
  clean();
}

// True when all of it was written.
bool GroupCommit::commit_queue(OpQueue& queue) {
  std::size_t begin = 0;
  while (begin < queue.ops.size()) {
    const std::size_t end = piece_end(queue, begin);
    const Status status = commit_piece(queue, begin, end);
    if (!status.ok()) {
      handle_failure(queue, begin, status);
      return false;
    }
    begin = end;
  }
  return true;
}

std::size_t GroupCommit::piece_end(const OpQueue& queue, std::size_t begin) const noexcept {
  const std::size_t limit = std::min(queue.ops.size(), begin + kPieceOps);
  std::size_t bytes = 0;
  std::size_t end = begin;
  while (end < limit) {
    const Op& op = queue.ops[end];
    bytes += op.key_bytes + op.payload_bytes + op.text_bytes + queue.writes_of(op).size();
    if (bytes > kPieceBytes && end > begin) {
      break;  // One larger operation may be a piece of its own.
    }
    ++end;
  }
  return end;
}

Status GroupCommit::commit_piece(OpQueue& queue, std::size_t begin, std::size_t end) {
  const std::size_t elided = elide(queue, begin, end);
  Batch batch = describe(queue, begin, end);
  const bool all_synced = synced_.load() >= written_.load();
  // A piece that elides to nothing needs no write, unless the ceilings on disk would be passed or
  // somebody waits for `disk` while earlier operations are not synced.
  const bool skip = batch.op_count == 0 && last_lsn() + 2 * kMaxQueued <= lsn_ceiling_ &&
                    generation_max_ <= generation_ceiling_ && (!batch.sync || all_synced);
  Status status;
  if (!skip) {
    status = write(batch);
  }
  if (!status.ok()) {
    return status;
  }
  if (carried_low_water_ != 0 && batch.low_water != 0) {
    carried_low_water_ = 0;
  }
  advance_marks(batch.last_lsn, skip ? all_synced : batch.sync);
  notify_batch();
  publish(queue, begin, end);
  elided_.clear();
  const std::lock_guard lock(telemetry_mutex_);
  commits_ += skip ? 0 : 1;
  ops_ += end - begin;
  elided_ops_ += elided;
  batch_ops_.add(end - begin);
  return status;
}

// A cancel that meets its schedule in the same piece: neither reaches the log.
std::size_t GroupCommit::elide(OpQueue& queue, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const Op& op = queue.ops[i];
    generation_max_ = std::max(
        generation_max_, op.kind == OpKind::kSchedule ? op.id.generation() : std::uint32_t{0});
    if (op.kind == OpKind::kCancel && op.releases && !queue.has_writes(op) &&
        op.base_lsn >= queue.ops[begin].lsn) {
      elide_chain(queue, begin, i);
    }
  }
  return elided_.size();
}

// Follows the task back from its cancel to its schedule. With them go the reschedules between;
// if anything else is there, nothing goes.
bool GroupCommit::elide_chain(OpQueue& queue, std::size_t begin, std::size_t cancel) {
  const std::size_t already = elided_.size();
  std::size_t at = cancel;
  for (;;) {
    elided_.emplace_back(at, queue.ops[at].kind);
    const Op& op = queue.ops[at];
    const std::uint64_t offset = op.base_lsn - queue.ops[begin].lsn;
    const bool inside = op.base_lsn >= queue.ops[begin].lsn && begin + offset < at;
    const std::size_t previous = begin + (inside ? offset : 0);
    if (!inside || queue.ops[previous].lsn != op.base_lsn || queue.ops[previous].id != op.id) {
      break;
    }
    const Op& before = queue.ops[previous];
    if (queue.has_writes(before)) {
      break;  // They are applied, whatever becomes of the task.
    }
    if (before.kind == OpKind::kReschedule) {
      at = previous;
      continue;
    }
    if (before.kind != OpKind::kSchedule || before.upsert || before.letter != 0 ||
        before.base_lsn != before.lsn) {
      break;
    }
    elided_.emplace_back(previous, before.kind);
    for (std::size_t i = already; i < elided_.size(); ++i) {
      queue.ops[elided_[i].first].kind = OpKind::kNone;
    }
    return true;
  }
  elided_.resize(already);
  return false;
}

Batch GroupCommit::describe(const OpQueue& queue, std::size_t begin, std::size_t end) const {
  Batch batch;
  batch.ops = std::span(queue.ops).subspan(begin, end - begin);
  batch.first_lsn = queue.ops[begin].lsn;
  batch.last_lsn = queue.ops[end - 1].lsn;
  for (const Op& op : batch.ops) {
    batch.op_count += op.kind == OpKind::kNone ? 0 : 1;
    batch.sync |= op.durability == Durability::kDisk;
  }
  if (!queue.writes.empty()) {
    batch.writes = queue.writes_between(batch.first_lsn, batch.last_lsn);
  }
  batch.sync |= want_synced_.load() >= batch.first_lsn;
  if (carried_low_water_ != 0 && !carry_again_ && batch.last_lsn >= carried_lsn_) {
    batch.low_water = carried_low_water_;
    batch.sync = true;
  }
  return batch;
}

// Completes the batch's description of the engine and hands it to the journal.
Status GroupCommit::write(Batch& batch) {
  batch.lsn_ceiling = last_lsn() + kLsnReserve;
  batch.generation_ceiling = generation_max_ < 0xffffffff - kGenerationReserve
                                 ? generation_max_ + kGenerationReserve
                                 : 0xffffffff;
  batch.epoch = epoch_;
  batch.session_hash = session_hash_;
  batch.wall_ns = parts_.now().wall_ns;
  const steady_clock::time_point start = steady_clock::now();
  Status status = parts_.journal.append(batch);
  if (!status.ok()) {
    return status;
  }
  last_write_ = start;
  lsn_ceiling_ = batch.lsn_ceiling;
  generation_ceiling_ = batch.generation_ceiling;
  if (batch.sync) {
    const Nanoseconds took = steady_clock::now() - start;
    const std::lock_guard lock(telemetry_mutex_);
    sync_ns_.add(static_cast<std::uint64_t>(took.count()));
  }
  return status;
}

Status GroupCommit::write_watermark(bool sync, bool clean_stop) {
  Batch batch;
  batch.first_lsn = written_.load();
  batch.last_lsn = batch.first_lsn;
  batch.sync = sync;
  batch.clean_stop = clean_stop;
  // What this sync makes certain, only a later watermark can say.
  const bool has_news = sync && written_.load() > synced_.load();
  Status status = write(batch);
  if (status.ok()) {
    advance_marks(batch.last_lsn, sync);
    if (!has_news) {
      unmarked_since_.reset();
    }
    notify_batch();
  }
  return status;
}

void GroupCommit::advance_marks(std::uint64_t written, bool synced) {
  written_.store(std::max(written_.load(), written));
  if (synced) {
    synced_.store(written_.load());
    unsynced_since_.reset();
  } else if (!unsynced_since_ && written_.load() > synced_.load()) {
    unsynced_since_ = steady_clock::now();
  }
  unmarked_since_ = steady_clock::now();
}

// What is durable now goes to the tick thread; slots and cells whose records are written are free.
void GroupCommit::publish(const OpQueue& queue, std::size_t begin, std::size_t end) {
  bool for_group = false;
  tell(std::span(queue.ops).subspan(begin, end - begin));
  for (std::size_t i = begin; i < end; ++i) {
    const Op& op = queue.ops[i];
    if (mailed(op)) {
      mail_.push_back(mail_of(op));
    }
    // The tick thread takes it to the members.
    for_group |= op.kind == OpKind::kCancelGroup || op.kind == OpKind::kRescheduleGroup;
    if (op.releases) {
      released_[shard_of(op.id.index())].push_back(op.id.index());
    }
    if (op.letter != 0) {
      released_[shard_of(op.id.index())].push_back(letter_of(op));
    }
    if (op.cell != 0) {
      free_cells_.push_back(op.cell - 1);
    }
  }
  const bool some = !mail_.empty();
  const bool early = parts_.mailbox.put(mail_, queue.ops[end - 1].lsn);
  if (early || for_group || (some && parts_.mailbox.overslept(parts_.now()))) {
    parts_.wake_ticker();
  }
  release_slots();
}

void GroupCommit::release_slots() {
  for (std::uint32_t number = 0; number < kShards; ++number) {
    release_slots_of(parts_.table.shard(number), released_[number]);
    released_[number].clear();
  }
  if (!mail_.empty() && parts_.mailbox.put(mail_, 0)) {
    parts_.wake_ticker();
  }
  if (!free_cells_.empty()) {
    if (parts_.cells.give(free_cells_)) {
      parts_.wake_ticker();
    }
    free_cells_.clear();
  }
}

// In small groups, so that no caller waits for a whole batch.
void GroupCommit::release_slots_of(Shard& shard, std::span<const std::uint32_t> indices) {
  constexpr std::size_t kGroup = 32;
  while (!indices.empty()) {
    const auto group = indices.first(std::min(kGroup, indices.size()));
    indices = indices.subspan(group.size());
    for (const std::uint32_t index : group) {
      parts_.table.prefetch(index);
    }
    const std::lock_guard lock(shard.mutex);
    for (const std::uint32_t index : group) {
      // Of a task that was cancelled before it could be delivered again.
      if (const auto freed = parts_.table.unblock_successor(shard, index)) {
        mail_.push_back(mail_of(parts_.table.node(*freed), *freed));
      }
      parts_.table.release(index);
    }
  }
}

// Carries what lives in the oldest part of the log on to its end, one request at a time.
void GroupCommit::clean() {
  if (carry_again_) {
    carry();
  }
  if (carried_low_water_ != 0 || mode_.load() != Mode::kOk) {
    return;
  }
  // About 48 bytes of record for each task beside its key and payload.
  const std::uint64_t live_bytes = parts_.limits.bytes() + parts_.limits.count() * 48;
  carried_ = {};
  if (!parts_.journal.next_to_clean(live_bytes, &carried_)) {
    return;
  }
  carried_low_water_ = carried_.low_water;
  carry();
}

void GroupCommit::carry() {
  const std::uint64_t before = last_lsn();
  carry_again_ = false;
  for (const std::uint16_t type : carried_.types) {
    parts_.carry_type(type);
  }
  for (const TaskId id : carried_.ids) {
    carry_again_ |= !parts_.carry_task(id);
  }
  carried_lsn_ = last_lsn();
  const std::lock_guard lock(telemetry_mutex_);
  reappended_ += carried_lsn_ - before;
}

void GroupCommit::chores() {
  if (mode_.load() != Mode::kOk) {
    return;
  }
  const steady_clock::time_point now = steady_clock::now();
  Status status;
  // The cleaner's promise is kept even when nothing is scheduled any more.
  const bool carried = carried_low_water_ != 0 && !carry_again_ && incoming_count_.load() == 0;
  if (carried && written_.load() >= carried_lsn_) {
    Batch batch;
    batch.first_lsn = written_.load();
    batch.last_lsn = batch.first_lsn;
    batch.low_water = carried_low_water_;
    batch.sync = true;
    status = write(batch);
    if (status.ok()) {
      carried_low_water_ = 0;
      advance_marks(batch.last_lsn, true);
    }
  } else if (unsynced_since_ && now - *unsynced_since_ >= os_sync_bound_) {
    status = write_watermark(true);
  } else if (parts_.journal.durable() && (now - last_write_ >= kWallSeenEvery ||
                                          (unmarked_since_ && !unsynced_since_ &&
                                           now - *unmarked_since_ >= kIdleBeforeWatermark))) {
    status = write_watermark(false);
  }
  if (!status.ok()) {
    handle_failure(work_, 0, status);
  }
}

std::optional<GroupCommit::SteadyTime> GroupCommit::next_chore() const {
  if (mode_.load() == Mode::kNoSpace) {
    return next_recover_;
  }
  if (mode_.load() == Mode::kFailed) {
    return std::nullopt;
  }
  if (unsynced_since_) {
    return *unsynced_since_ + os_sync_bound_;
  }
  if (unmarked_since_ && parts_.journal.durable()) {
    return *unmarked_since_ + kIdleBeforeWatermark;
  }
  return std::nullopt;
}

}  // namespace countwheel::detail
