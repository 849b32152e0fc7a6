#include "rollback.h"

#include <utility>

#include <countwheel/assert.h>

namespace countwheel::detail {
namespace {

// The deadline goes back; what has become of other tasks of its key meanwhile does not.
void restore_content(Node& node, NodeContent before) noexcept {
  const std::uint8_t now = node.flags.load(std::memory_order_relaxed);
  before.flags =
      static_cast<std::uint8_t>((before.flags & ~kFlagsOfSuccession) | (now & kFlagsOfSuccession));
  write_content(node, before);
}

}  // namespace

std::vector<bool> Rollback::run(const OpQueue& queue, std::size_t begin) {
  std::vector<bool> kept(queue.ops.size(), false);
  std::size_t undo = queue.undos.size();
  for (std::size_t i = queue.ops.size(); i > begin; --i) {
    const Op& op = queue.ops[i - 1];
    const Undo* before = nullptr;
    if (undo > 0 && queue.undos[undo - 1].position == i - 1) {
      before = &queue.undos[--undo];
    }
    if (this->undo(op, before)) {
      ++undone_;
    } else {
      kept[i - 1] = true;
      if (op.kind != OpKind::kCancelGroup && op.kind != OpKind::kRescheduleGroup) {
        kept_ids_.insert(op.id.value);
      }
      if (op.with_group) {
        keep_group_of(op);
      }
    }
  }
  revisit_groups();
  return kept;
}

// What was decided for a member has been taken back: an earlier change of its group may concern it.
void Rollback::back_in_group(Shard& shard, const Node& node, std::uint32_t index) {
  enter_group(shard, node, index);
  if (const std::uint64_t group = shard.groups.of(slot_of(index)); group != 0) {
    groups_.insert(group);
  }
}

void Rollback::revisit_groups() {
  for (const std::uint64_t group : std::exchange(groups_, {})) {
    if (GroupState* state = table_.group_changes.find(group)) {
      state->again = true;
      table_.group_changes.want(0);
    }
  }
}

// Somebody was told that the key of a cancelled member is theirs: its group stays cancelled.
void Rollback::keep_group_of(const Op& op) {
  const Shard& shard = table_.shard_for(op.id);
  kept_groups_.insert(shard.groups.of(slot_of(op.id.index())));
}

// It has reached nobody: only what is durable does.
bool Rollback::undo_group(const Op& op) {
  if (kept_groups_.contains(op.id.value)) {
    return false;
  }
  GroupState* const state = table_.group_changes.find(op.id.value);
  COUNTWHEEL_ASSERT(state != nullptr);
  std::erase_if(state->changes,
                [&op](const GroupChangeEntry& change) { return change.lsn == op.lsn; });
  state->again = true;  // Members that fell due meanwhile have been put aside.
  table_.group_changes.want(0);
  return true;
}

bool Rollback::undo(const Op& op, const Undo* undo) {
  if (op.durability == Durability::kMemory) {
    return false;
  }
  if (op.kind == OpKind::kCancelGroup || op.kind == OpKind::kRescheduleGroup) {
    return undo_group(op);
  }
  if (kept_ids_.contains(op.id.value)) {
    return false;
  }
  Shard& shard = table_.shard_for(op.id);
  switch (op.kind) {
    case OpKind::kSchedule:
      if (op.base_lsn != op.lsn) {
        return false;  // The cleaner's.
      }
      break;
    case OpKind::kCancel:
    case OpKind::kReschedule:
      break;
    default:
      return false;
  }
  Node& node = table_.node(op.id.index());
  COUNTWHEEL_ASSERT(node.load().generation() == op.id.generation());
  if (op.kind == OpKind::kCancel) {
    return undo_cancel(shard, node, op);
  }
  if (op.kind == OpKind::kSchedule && !op.upsert) {
    return undo_schedule(shard, node, op);
  }
  if (undo != nullptr && op.touch) {
    return undo_touch(shard, node, op, *undo);
  }
  if (undo == nullptr) {
    return false;  // Kept once before: whatever stood on it then has been told.
  }
  return op.upsert ? undo_upsert(shard, node, op, *undo) : undo_reschedule(shard, node, op, *undo);
}

bool Rollback::undo_schedule(Shard& shard, Node& node, const Op& op) {
  if (node.has(kFlagNeeded)) {
    return false;  // Without it the task it replaced would be gone for nothing.
  }
  const Word word = node.load();
  if (word.state() != State::kScheduled || !node.transition(word, word.with(State::kFree))) {
    return false;
  }
  const std::uint32_t slot = slot_of(op.id.index());
  if (node.key_bytes != 0 && !node.has(kFlagKeyLost)) {
    shard.keys.erase(slot);
  }
  if (node.has(kFlagBlocked)) {
    // The running task it waited for has its key to itself again.
    std::erase_if(shard.successors, [&](const auto& pair) {
      if (pair.second != op.id.index()) {
        return false;
      }
      Node& running = table_.node(pair.first);
      running.flags.fetch_and(static_cast<std::uint8_t>(~kFlagKeyLost));
      shard.keys.insert(slot_of(pair.first));
      return true;
    });
  }
  limits_.give(1, node.data_bytes());
  --shard.counts.scheduled;
  table_.release(op.id.index());
  if (op.letter != 0) {
    --shard.counts.replaced;
    bury_again(shard, letter_of(op));
  }
  return true;
}

// What was taken out of the dead letters is one again.
void Rollback::bury_again(Shard& shard, std::uint32_t index) {
  Node& node = table_.node(index);
  const Word word = node.load();
  COUNTWHEEL_ASSERT(word.state() == State::kCancelled);
  node.store(word.with(State::kDead));
  ++shard.counts.dead;
  table_.dead_letters.add(TaskId::of(index, word.generation()),
                          table_.attributes_of(shard, slot_of(index)).died_wall_ns);
}

bool Rollback::undo_upsert(Shard& shard, Node& node, const Op& op, const Undo& undo) {
  const Word word = node.load();
  if (word.state() != State::kScheduled || !node.transition(word, word.with(State::kMoving))) {
    return false;
  }
  const std::string_view data = undo.data;
  const std::uint64_t new_bytes = node.data_bytes();
  // The set hashes a slot by its node's key: out before the bytes move, in again after.
  shard.keys.erase(slot_of(op.id.index()));
  TaskTable::drop_data(node);
  const bool put =
      TaskTable::put_data(node, data.substr(0, undo.key_bytes), data.substr(undo.key_bytes));
  COUNTWHEEL_ASSERT(put);
  shard.keys.insert(slot_of(op.id.index()));
  limits_.force_bytes(node.data_bytes());
  limits_.give_bytes(new_bytes);
  const Result<Attributes> attributes = decode_attributes(undo.attributes);
  COUNTWHEEL_ASSERT(attributes.ok());
  table_.set_attributes(shard, slot_of(op.id.index()), *attributes);
  restore_content(node, undo.before);
  node.store(word.bumped(State::kScheduled));
  back_in_group(shard, node, op.id.index());
  --shard.counts.scheduled;
  --shard.counts.replaced;
  file(node, op.id.index());
  return true;
}

bool Rollback::undo_cancel(Shard& shard, Node& node, const Op& op) {
  if (!op.releases) {
    // It only asked a running task not to come back.
    node.flags.fetch_and(static_cast<std::uint8_t>(~kFlagCancelRequested));
    return true;
  }
  if (op.dead) {
    --shard.counts.cancelled;
    bury_again(shard, op.id.index());
    return true;
  }
  const Word word = node.load();
  COUNTWHEEL_ASSERT(word.state() == State::kCancelled);
  if (node.key_bytes != 0 && !node.has(kFlagKeyLost)) {
    if (shard.keys.contains(node.key())) {
      return false;  // A task acknowledged at `memory` has the key now.
    }
    shard.keys.insert(slot_of(op.id.index()));
  }
  // The key was free, so nothing runs that it had to wait for.
  node.flags.fetch_and(static_cast<std::uint8_t>(~kFlagBlocked));
  limits_.force(1, node.data_bytes());
  --shard.counts.cancelled;
  node.store(word.bumped(State::kScheduled));
  back_in_group(shard, node, op.id.index());
  file(node, op.id.index());
  return true;
}

bool Rollback::undo_reschedule(Shard& shard, Node& node, const Op& op, const Undo& undo) {
  const Word word = node.load();
  if (word.state() != State::kScheduled || !node.transition(word, word.with(State::kMoving))) {
    return false;
  }
  restore_content(node, undo.before);
  node.store(word.bumped(State::kScheduled));
  back_in_group(shard, node, op.id.index());
  file(node, op.id.index());
  return true;
}

// Back to the touch before, or to the deadline of the node.
bool Rollback::undo_touch(Shard& shard, Node& node, const Op& op, const Undo& undo) {
  const Word word = node.load();
  if (word.state() != State::kScheduled || !node.transition(word, word.with(State::kMoving))) {
    return false;
  }
  const std::uint32_t slot = slot_of(op.id.index());
  TaskTable::forget_touch(shard, slot);
  restore_content(node, undo.before);
  if (undo.touch) {
    shard.touches[slot] = *undo.touch;
  }
  node.store(word.bumped(State::kScheduled));
  back_in_group(shard, node, op.id.index());
  file(node, op.id.index());
  return true;
}

void Rollback::file(const Node& node, std::uint32_t index) {
  mail_.push_back(mail_of(node, index));
}

}  // namespace countwheel::detail
