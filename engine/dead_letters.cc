// Dead letters: requeue, purge and what may be kept of them. Like every mutation each decides and
// enqueues its record in one step under the shard lock.
#include <algorithm>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "engine_core.h"

namespace countwheel::detail {
namespace {

Status not_dead(TaskId id) {
  return Status(Code::kNotFound, "no dead letter has id " + std::to_string(id.value));
}

}  // namespace

// The letter's slot stays until the record is written; with it goes the letter (Op::letter).
Result<Submitted> EngineCore::requeue(TaskId id, const Deadline& deadline, Durability durability) {
  if (Status status = open_for_mutations(); !status.ok()) {
    return status;
  }
  const Result<ResolvedDeadline> resolved = resolve(deadline, now_for(deadline), options);
  if (!resolved.ok()) {
    return refuse(resolved.status());
  }
  Shard& shard = table.shard_for(id);
  std::unique_lock lock(shard.mutex);
  Result<Submitted> submitted = requeue_locked(shard, id, *resolved, durability);
  lock.unlock();
  commit.nudge();
  return submitted;
}

// For a task that is made of a letter. Forgets a done task whose window is over.
Status EngineCore::key_is_free(Shard& shard, std::uint32_t number, std::string_view key) {
  const auto holder = key.empty() ? std::nullopt : table.find_key(shard, number, key);
  if (!holder) {
    return {};
  }
  const Word word = table.node(*holder).load();
  const TaskId id = TaskId::of(*holder, word.generation());
  if (word.state() != State::kDone) {
    return Status(Code::kExists, "task " + std::to_string(id.value) + " has its key");
  }
  return forget_done(shard, id, now_on(ClockKind::kWall))
             ? Status()
             : Status(Code::kDuplicate,
                      "task " + std::to_string(id.value) + " with its key was done");
}

Result<Submitted> EngineCore::requeue_locked(Shard& shard,
                                             TaskId dead_id,
                                             const ResolvedDeadline& deadline,
                                             Durability durability) {
  const std::uint32_t number = shard_of(dead_id.index());
  Node* const dead = table.find(shard, dead_id);
  if (dead == nullptr || dead->load().state() != State::kDead) {
    return not_dead(dead_id);
  }
  if (Status status = key_is_free(shard, number, dead->key()); !status.ok()) {
    return status;
  }
  if (!limits.take(dead->data_bytes())) {
    return refuse(Status(Code::kOverloaded,
                         "EngineOptions::max_pending_count or max_pending_bytes is reached"));
  }
  const std::optional<TaskId> id = table.allocate(number);
  if (!id || !TaskTable::put_data(table.node(id->index()), dead->key(), dead->payload())) {
    if (id) {
      table.release(id->index());
    }
    limits.give(1, dead->data_bytes());
    return refuse(Status(Code::kResource, "no memory for another task"));
  }
  Node& node = table.node(id->index());
  Attributes attributes = table.attributes_of(shard, slot_of(dead_id.index()));
  table.dead_letters.remove(dead_id, attributes.died_wall_ns);
  attributes.died_wall_ns = 0;
  attributes.reason = DeadReason::kNone;
  attributes.first_due_wall_ns = 0;
  attributes.run_due.reset();
  attributes.requeued_from = dead_id;

  Op op;
  op.kind = OpKind::kSchedule;
  op.durability = durability;
  op.id = *id;
  op.letter = slot_of(dead_id.index()) + 1;
  op.slack_us = dead->slack_us.load(std::memory_order_relaxed);
  op.type = dead->type.load(std::memory_order_relaxed);
  deadline.put_into(&op);
  NodeContent content;
  deadline.put_into(&content);
  content.slack_us = op.slack_us;
  content.type = op.type;
  content.flags |= kFlagAttributes;
  write_content(node, content);
  const std::string encoded = encode(attributes);
  table.set_attributes(shard, slot_of(id->index()), std::move(attributes));
  enter_group(shard, node, id->index());
  if (node.key_bytes != 0) {
    shard.keys.insert(slot_of(id->index()));
  }
  dead->store(dead->load().with(State::kCancelled));
  --shard.counts.dead;
  ++shard.counts.replaced;
  ++shard.counts.scheduled;
  node.store(Word::of(id->generation(), 0, State::kScheduled));
  const std::uint64_t lsn = commit.enqueue(
      op, {.key = node.key(), .payload = node.payload(), .attributes = encoded}, &node.lsn);
  return Submitted{*id, {lsn}, false};
}

Change EngineCore::purge(TaskId id, Durability durability) {
  if (Status status = open_for_mutations(); !status.ok()) {
    return {std::move(status), id, {}, {}};
  }
  Change change;
  {
    Shard& shard = table.shard_for(id);
    const std::lock_guard lock(shard.mutex);
    Node* const node = table.find(shard, id);
    if (node == nullptr || node->load().state() != State::kDead) {
      return {not_dead(id), id, {}, {}};
    }
    table.dead_letters.remove(id, table.attributes_of(shard, slot_of(id.index())).died_wall_ns);
    node->store(node->load().with(State::kCancelled));
    --shard.counts.dead;
    ++shard.counts.cancelled;
    Op op;
    op.kind = OpKind::kCancel;
    op.durability = durability;
    op.id = id;
    op.dead = true;
    op.releases = true;
    change.lsn = {commit.enqueue(op)};
    change.deadline =
        WallTime(std::chrono::nanoseconds(node->wall_ns.load(std::memory_order_relaxed)));
  }
  commit.nudge();
  change.id = id;
  return change;
}

// A done task that was kept for its deduplication window leaves when that is over.
bool EngineCore::forget_done(Shard& shard, TaskId id, std::int64_t wall_now_ns) {
  const std::uint32_t slot = slot_of(id.index());
  const Node* const node = table.find(shard, id);
  if (node == nullptr || node->load().state() != State::kDone) {
    return false;
  }
  const std::int64_t until_ns = table.attributes_of(shard, slot).done_until_wall_ns;
  if (until_ns == 0 || until_ns > wall_now_ns) {
    return false;
  }
  shard.keys.erase(slot);
  table.done_tasks.remove(id, until_ns);
  table.release(id.index());
  return true;
}

void EngineCore::trim_ended() {
  const std::int64_t wall_now_ns = now_on(ClockKind::kWall);
  for (const TaskId id :
       table.done_tasks.excess(std::numeric_limits<std::size_t>::max(), wall_now_ns)) {
    Shard& shard = table.shard_for(id);
    const std::lock_guard lock(shard.mutex);
    (void)forget_done(shard, id, wall_now_ns);
  }
  std::int64_t died_before = std::numeric_limits<std::int64_t>::min();
  if (options.max_dead_age.count() != 0) {
    (void)__builtin_sub_overflow(
        now_on(ClockKind::kWall), options.max_dead_age.count(), &died_before);
  }
  for (const TaskId id : table.dead_letters.excess(options.max_dead_count, died_before)) {
    (void)purge(id, Durability::kMemory);
  }
}

}  // namespace countwheel::detail
