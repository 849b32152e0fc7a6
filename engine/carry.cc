// What the cleaner asks for: the whole present state of a task or a type, logged again so that the
// oldest part of the log can go.
#include "engine_core.h"

namespace countwheel::detail {

void EngineCore::carry_type_record(const TaskType& type) {
  Op op;
  op.kind = OpKind::kType;
  op.durability = Durability::kOs;
  op.id = TaskId{type.number};
  op.type = type.number;
  commit.enqueue(op, {.payload = type.name});
}

void EngineCore::carry_type(std::uint16_t number) {
  if (number < types.count() && types.at(number) != nullptr) {
    carry_type_record(*types.at(number));
  }
}

// Takes an LSN of its own and carries the original one: the order of equal deadlines stays, and a
// cancel that is already queued comes later in the log and still wins.
bool EngineCore::carry_task(TaskId id) {
  Shard& shard = table.shard_for(id);
  const std::lock_guard lock(shard.mutex);
  const Node* node = table.find(shard, id);
  if (node == nullptr) {
    return true;
  }
  const State state = node->load().state();
  const bool live = state == State::kScheduled || state == State::kRunning;
  const Fate fate = table.fate_of(shard, slot_of(id.index()));
  if (live && fate.lsn > commit.mark(Durability::kOs)) {
    return false;
  }
  if (live && fate.cancelled) {
    return true;  // The record of its group comes before this one and must win.
  }
  const Attributes attributes = table.attributes_of(shard, slot_of(id.index()));
  const bool kept = state == State::kDone && attributes.done_until_wall_ns > 0;
  if (!live && state != State::kDead && !kept) {
    return true;
  }
  const NodeContent content = content_of(*node);
  Op op;
  op.kind = OpKind::kSchedule;
  const DueTime due = table.due_of(shard, slot_of(id.index()));
  op.clock = due.clock;
  op.durability = Durability::kOs;
  op.dead = state == State::kDead;
  op.slack_us = content.slack_us;
  op.id = id;
  op.wall_deadline_ns = due.wall_ns;
  op.boot_deadline_ns = due.deadline_ns;
  if (fate.move == nullptr && node->has(kFlagTouched)) {
    // As far ahead as the log has been told: a touch since then was not.
    const Touch& touch = shard.touches.find(slot_of(id.index()))->second;
    op.wall_deadline_ns = touch.logged_wall_ns;
    op.boot_deadline_ns = touch.logged_ns;
  }
  op.base_lsn = content.lsn;
  op.type = content.type;
  op.failures = content.failures;
  op.attempts = content.attempts;
  op.crashes = content.crashes;
  op.reason = attributes.reason;
  const auto error = shard.errors.find(id.value);
  const std::string_view text =
      error == shard.errors.end() ? std::string_view() : std::string_view(error->second);
  commit.enqueue(op,
                 {.key = node->key(),
                  .payload = node->payload(),
                  .text = text,
                  .attributes = encode(attributes)});
  if (node->has(kFlagCancelRequested)) {
    // Behind it again, or a crash of this attempt would bring the task back.
    Op cancel;
    cancel.kind = OpKind::kCancel;
    cancel.durability = Durability::kMemory;  // A rollback leaves it where it is.
    cancel.id = id;
    cancel.base_lsn = content.lsn;
    commit.enqueue(cancel);
  }
  return true;
}

}  // namespace countwheel::detail
