// cancel and reschedule. Each decides with one CAS and enqueues its record in the same step under
// the shard lock: that is where it takes place (SEMANTICS 3).
#include <utility>

#include "engine_core.h"

namespace countwheel::detail {
namespace {

WallTime wall_time(std::int64_t ns) {
  return WallTime(std::chrono::nanoseconds(ns));
}

}  // namespace

// The key is free for others, or back with the task this one was to follow, unless that was
// cancelled as well.
void EngineCore::leave_key(Shard& shard, Node& node, std::uint32_t index) {
  if (node.key_bytes == 0 || node.has(kFlagKeyLost)) {
    return;
  }
  shard.keys.erase(slot_of(index));
  if (!node.has(kFlagBlocked)) {
    return;
  }
  for (auto it = shard.successors.begin(); it != shard.successors.end(); ++it) {
    if (it->second == index) {
      Node& before = table.node(it->first);
      before.flags.fetch_and(static_cast<std::uint8_t>(~kFlagKeyLost));
      if (before.load().state() != State::kCancelled) {
        shard.keys.insert(slot_of(it->first));
      }
      shard.successors.erase(it);
      return;
    }
  }
}

Change EngineCore::cancel(TaskId id, Durability durability, const Writes& writes) {
  if (Status status = open_for_mutations(writes); !status.ok()) {
    return {std::move(status), id, {}, {}};
  }
  Change change;
  {
    Shard& shard = table.shard_for(id);
    const std::lock_guard lock(shard.mutex);
    change = cancel_locked(shard, id, durability, writes);
  }
  commit.nudge();
  return change;
}

Change EngineCore::cancel(std::string_view key, Durability durability, const Writes& writes) {
  if (Status status = open_for_mutations(writes); !status.ok()) {
    return {std::move(status), {}, {}, {}};
  }
  Change change;
  {
    const std::uint32_t number = TaskTable::shard_of_key(key);
    Shard& shard = table.shard(number);
    const std::lock_guard lock(shard.mutex);
    const auto holder = table.find_key(shard, number, key);
    if (!holder) {
      return {Status(Code::kNotFound), {}, {}, {}};
    }
    change = cancel_locked(
        shard, TaskId::of(*holder, table.node(*holder).load().generation()), durability, writes);
  }
  commit.nudge();
  return change;
}

Change EngineCore::cancel_locked(Shard& shard,
                                 TaskId id,
                                 Durability durability,
                                 const Writes& writes) {
  Node* node = table.find(shard, id);
  if (node == nullptr) {
    return {Status(Code::kNotFound), id, {}, {}};
  }
  if (gone_with_group(shard, *node, id)) {
    return {Status(Code::kNotFound), id, {}, {}};
  }
  const WallTime deadline = wall_time(table.due_of(shard, slot_of(id.index())).wall_ns);
  return cancel_node(shard, *node, id, deadline, durability, writes);
}

Change EngineCore::cancel_node(Shard& shard,
                               Node& node,
                               TaskId id,
                               WallTime deadline,
                               Durability durability,
                               const Writes& writes) {
  Op op;
  op.with_group = gone_with_group(shard, node, id);
  op.kind = OpKind::kCancel;
  op.durability = durability;
  op.id = id;
  op.base_lsn = node.lsn.load(std::memory_order_relaxed);
  for (;;) {
    const Word word = node.load();
    switch (word.state()) {
      case State::kScheduled:
        if (!node.transition(word, word.with(State::kCancelled))) {
          continue;  // It started meanwhile.
        }
        leave_key(shard, node, id.index());
        leave_group(shard, node, id.index());
        limits.give(1, node.data_bytes());
        ++shard.counts.cancelled;
        op.releases = true;
        return {
            Status(Code::kCancelled), id, {commit.enqueue(op, {.writes = writes.bytes})}, deadline};
      case State::kRunning:
        if ((node.flags.fetch_or(kFlagCancelRequested) & kFlagCancelRequested) != 0) {
          return {Status(Code::kTooLate, "running"), id, {}, deadline};
        }
        // Logged, so that a crash of this attempt does not bring the task back. Not with the
        // writes: they belong to a task that is cancelled.
        return {Status(Code::kTooLate, "running"), id, {commit.enqueue(op)}, deadline};
      case State::kDead:
        return {Status(Code::kTooLate, "a dead letter"), id, {}, deadline};
      default:
        return {Status(Code::kNotFound), id, {}, {}};
    }
  }
}

Change EngineCore::reschedule(TaskId id,
                              const Deadline& deadline,
                              Durability durability,
                              std::optional<WallTime> expected) {
  return decide_on(id, deadline, [&](Shard& shard, const ResolvedDeadline& resolved) {
    return reschedule_locked(shard, id, resolved, durability, expected);
  });
}

// No task (id 0) while no call is possible: the call with the id says why.
std::optional<TaskId> EngineCore::holder_of(std::string_view key) {
  if (!open_for_calls().ok()) {
    return TaskId{};
  }
  const std::uint32_t number = TaskTable::shard_of_key(key);
  Shard& shard = table.shard(number);
  const std::lock_guard lock(shard.mutex);
  const auto holder = table.find_key(shard, number, key);
  if (!holder) {
    return std::nullopt;
  }
  return TaskId::of(*holder, table.node(*holder).load().generation());
}

Change EngineCore::reschedule(std::string_view key,
                              const Deadline& deadline,
                              Durability durability,
                              std::optional<WallTime> expected) {
  const std::optional<TaskId> id = holder_of(key);
  return id ? reschedule(*id, deadline, durability, expected)
            : Change{Status(Code::kNotFound), {}, {}, {}};
}

// A touched task is put back to the deadline of its touch.
NodeContent EngineCore::undo_content(const Shard& shard, const Node& node, std::uint32_t index) {
  NodeContent content = content_of(node);
  if (node.has(kFlagTouched)) {
    const Touch& touch = shard.touches.find(slot_of(index))->second;
    content.deadline_ns = touch.deadline_ns;
    content.wall_ns = touch.wall_ns;
    content.flags = static_cast<std::uint8_t>(content.flags & ~kFlagTouched);
  }
  return content;
}

Change EngineCore::reschedule_locked(Shard& shard,
                                     TaskId id,
                                     const ResolvedDeadline& deadline,
                                     Durability durability,
                                     std::optional<WallTime> expected) {
  Node* node = table.find(shard, id);
  if (node == nullptr) {
    return {Status(Code::kNotFound), id, {}, {}};
  }
  const WallTime before = wall_time(table.due_of(shard, slot_of(id.index())).wall_ns);
  const Word word = node->load();
  if (word.state() == State::kCancelled || word.state() == State::kDone ||
      gone_with_group(shard, *node, id)) {
    return {Status(Code::kNotFound), id, {}, {}};
  }
  if (expected && before != *expected && word.state() == State::kScheduled) {
    return {Status(Code::kChanged, "the deadline is another"), id, {}, before};
  }
  // The CAS fails only against the start of its handler.
  if (word.state() != State::kScheduled || !node->transition(word, word.with(State::kMoving))) {
    return {Status(Code::kTooLate), id, {}, before};
  }
  Undo undo;
  undo.before = undo_content(shard, *node, id.index());
  table.forget_touch(shard, slot_of(id.index()));
  NodeContent content = content_of(*node);
  Op op;
  op.kind = OpKind::kReschedule;
  op.durability = durability;
  op.id = id;
  op.slack_us = content.slack_us;
  op.base_lsn = content.lsn;
  deadline.put_into(&op);
  deadline.put_into(&content);
  write_content(*node, content);
  node->store(word.bumped(State::kScheduled));
  const std::uint64_t lsn = commit.enqueue(op, {}, &node->lsn, std::move(undo));
  enter_group(shard, *node, id.index());
  return {Status(), id, {lsn}, before};
}

}  // namespace countwheel::detail
