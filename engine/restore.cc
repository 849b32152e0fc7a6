// The fold of the log onto the task table.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <countwheel/restore.h>

#include "engine_core.h"

namespace countwheel {

using detail::EngineCore;
using detail::Node;
using detail::NodeContent;
using detail::Shard;
using detail::Word;

namespace {

Status nonsense(const Op& op, const char* why) {
  return Status(Code::kCorrupt, "LSN " + std::to_string(op.lsn) + ": " + why);
}

// Where the operation puts its task in time. A boot deadline means something only in its session.
void put_deadline(NodeContent& content, const Op& op, bool same_session) {
  const bool boot = op.clock == ClockKind::kBoot;
  content.deadline_ns = boot ? op.boot_deadline_ns : op.wall_deadline_ns;
  if (boot && !same_session) {
    content.deadline_ns = detail::kForeignDeadline;
  }
  content.wall_ns = op.wall_deadline_ns;
  content.flags = static_cast<std::uint8_t>((content.flags & detail::kFlagAttributes) |
                                            (boot ? detail::kFlagBoot : 0));
}

void note_error(Shard& shard, const Op& op) {
  if (op.text_bytes != 0) {
    shard.errors[op.id.value] = op.text();
  }
}

void free_node(EngineCore& core, Node& node, TaskId id) {
  Shard& shard = core.table.shard_for(id);
  if (node.has(detail::kFlagAttributes)) {
    core.table.set_attributes(shard, detail::slot_of(id.index()), {});
  }
  detail::TaskTable::drop_data(node);
  if (!shard.errors.empty()) {
    shard.errors.erase(id.value);
  }
  node.store(Word::of(id.generation(), 0, State::kFree));
}

// What stands in the record replaces what the task had.
Status put_attributes(EngineCore& core, const Op& op, bool same_session, NodeContent* content) {
  Result<detail::Attributes> attributes = detail::decode_attributes(op.attributes());
  if (!attributes.ok()) {
    return Status(attributes.code(),
                  "LSN " + std::to_string(op.lsn) + ": " + attributes.status().detail());
  }
  if (attributes->run_due && attributes->run_due->clock == ClockKind::kBoot && !same_session) {
    attributes->run_due->deadline_ns = detail::kForeignDeadline;
  }
  const auto flag = attributes->empty() ? 0 : detail::kFlagAttributes;
  content->flags = static_cast<std::uint8_t>((content->flags & ~detail::kFlagAttributes) | flag);
  if (const TaskId letter = attributes->requeued_from; letter && op.kind == OpKind::kSchedule) {
    // The same record ends the dead letter; a carried one has done so before.
    Node* const dead = core.table.find(core.table.shard_for(letter), letter);
    if (dead != nullptr && dead->load().state() == State::kDead) {
      free_node(core, *dead, letter);
    }
  }
  Shard& shard = core.table.shard_for(op.id);
  core.table.set_attributes(shard, detail::slot_of(op.id.index()), *std::move(attributes));
  if (op.kind == OpKind::kDead || op.dead) {
    shard.groups.leave(detail::slot_of(op.id.index()));
  } else {
    shard.groups.enter(detail::slot_of(op.id.index()));
  }
  return {};
}

// One record for all members there are at this point of the log.
void apply_group(EngineCore& core, const Op& op, bool same_session) {
  const std::uint64_t group = op.id.value;
  for (std::uint32_t number = 0; number < detail::kShards; ++number) {
    Shard& shard = core.table.shard(number);
    shard.groups.begin_visit(group);
    for (std::uint32_t slot = shard.groups.next_to_visit(group); slot != detail::GroupIndex::kNone;
         slot = shard.groups.next_to_visit(group)) {
      shard.groups.visited(group);
      Node& node = shard.nodes.at(slot);
      if (op.kind == OpKind::kCancelGroup) {
        const std::uint32_t index = number << detail::kSlotBits | slot;
        free_node(core, node, TaskId::of(index, node.load().generation()));
        continue;
      }
      NodeContent content = detail::content_of(node);
      put_deadline(content, op, same_session);
      detail::write_content(node, content);
    }
  }
}

Status apply_schedule(EngineCore& core, const Op& op, bool same_session) {
  if (op.id.generation() == 0) {
    return nonsense(op, "a task without a generation");
  }
  Node* node = core.table.place(op.id.index());
  if (node == nullptr) {
    return Status(Code::kResource, "no memory for the task table");
  }
  Shard& shard = core.table.shard_for(op.id);
  const Word word = node->load();
  if (word.generation() > op.id.generation()) {
    return nonsense(op, "a task older than the one that has its place");
  }
  detail::TaskTable::drop_data(*node);
  if (!detail::TaskTable::put_data(*node, op.key(), op.payload())) {
    return Status(Code::kResource, "no memory for a payload");
  }
  NodeContent content;
  put_deadline(content, op, same_session);
  content.lsn = op.base_lsn;
  content.slack_us = op.slack_us;
  content.type = op.type;
  content.failures = op.failures;
  content.attempts = op.attempts;
  content.crashes = op.crashes;
  bool done = false;
  // Most tasks have none, and their places had none: that is what a large log is loaded by.
  if (op.attribute_bytes != 0 || node->has(detail::kFlagAttributes)) {
    if (Status status = put_attributes(core, op, same_session, &content); !status.ok()) {
      return status;
    }
    const std::uint32_t slot = detail::slot_of(op.id.index());
    done = core.table.attributes_of(shard, slot).done_until_wall_ns != 0;
    if (done) {
      shard.groups.leave(slot);
    }
  }
  detail::write_content(*node, content);
  note_error(shard, op);
  const State state = op.dead ? State::kDead : done ? State::kDone : State::kScheduled;
  node->store(Word::of(op.id.generation(), 0, state));
  return {};
}

// It keeps its key until its window is over.
Status keep_done(EngineCore& core, const Op& op, Node& node, NodeContent* content) {
  if (Status status = put_attributes(core, op, /*same_session=*/true, content); !status.ok()) {
    return status;
  }
  Shard& shard = core.table.shard_for(op.id);
  shard.groups.leave(detail::slot_of(op.id.index()));
  shard.errors.erase(op.id.value);
  detail::TaskTable::drop_payload(node);
  detail::write_content(node, *content);
  node.store(node.load().with(State::kDone));
  return {};
}

// The operations that follow a schedule. One of a task that is not there is of a part of the log
// that the cleaner has dropped, and means nothing.
Status apply_change(EngineCore& core, const Op& op, bool same_session) {
  Shard& shard = core.table.shard_for(op.id);
  Node* node = core.table.find(shard, op.id);
  if (node == nullptr) {
    return {};
  }
  NodeContent content = detail::content_of(*node);
  switch (op.kind) {
    case OpKind::kDone:
      if (op.attribute_bytes != 0) {
        return keep_done(core, op, *node, &content);
      }
      free_node(core, *node, op.id);
      return {};
    case OpKind::kCancel:
      free_node(core, *node, op.id);
      return {};
    case OpKind::kReschedule:
      put_deadline(content, op, same_session);
      content.lsn = op.lsn;
      detail::write_content(*node, content);
      return {};
    case OpKind::kRetry:
      put_deadline(content, op, same_session);
      content.lsn = op.lsn;
      content.failures = op.failures;
      content.attempts = op.attempts;
      content.crashes = op.crashes;
      if (Status status = put_attributes(core, op, same_session, &content); !status.ok()) {
        return status;
      }
      detail::write_content(*node, content);
      note_error(shard, op);
      return {};
    case OpKind::kDead:
      content.failures = op.failures;
      content.attempts = op.attempts;
      content.crashes = op.crashes;
      if (Status status = put_attributes(core, op, same_session, &content); !status.ok()) {
        return status;
      }
      detail::write_content(*node, content);
      note_error(shard, op);
      node->store(node->load().with(State::kDead));
      return {};
    default:
      return nonsense(op, "an operation this build does not know");
  }
}

}  // namespace

Restorer::Restorer(Engine& engine)
    : engine_(engine), session_hash_(engine.core_->clock.session().hash()) {
  COUNTWHEEL_ASSERT(engine.core_->phase.load() == EngineCore::Phase::kCreated);
  engine.core_->phase.store(EngineCore::Phase::kRecovering);
}

void Restorer::expect(const Op& op) const noexcept {
  if (op.kind != OpKind::kType) {
    engine_.core_->table.prefetch_if_known(op.id.index());
  }
}

Status Restorer::apply(const Op& op, std::uint64_t session_hash) {
  EngineCore& core = *engine_.core_;
  ++ops_;
  const bool same_session = session_hash == session_hash_;
  if (op.kind == OpKind::kType) {
    const bool fits = op.id.value < detail::TypeRegistry::kMaxTypes;
    return fits && core.types.restore(static_cast<std::uint16_t>(op.id.value), op.payload())
               ? Status()
               : nonsense(op, "a task type that contradicts another");
  }
  if (op.kind == OpKind::kSchedule) {
    return apply_schedule(core, op, same_session);
  }
  if (op.kind == OpKind::kCancelGroup || op.kind == OpKind::kRescheduleGroup) {
    apply_group(core, op, same_session);
    return {};
  }
  return apply_change(core, op, same_session);
}

}  // namespace countwheel
