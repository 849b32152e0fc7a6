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
  content.wall_ns = op.wall_deadline_ns;
  content.flags = static_cast<std::uint8_t>((content.flags & detail::kFlagAttributes) |
                                            (boot ? detail::kFlagBoot : 0));
  if (boot && !same_session) {
    content.flags |= detail::kFlagForeignSession;
  }
}

void note_error(Shard& shard, const Op& op) {
  if (op.text_bytes != 0) {
    shard.errors[op.id.value] = op.text();
  }
}

void free_node(EngineCore& core, Node& node, TaskId id) {
  Shard& shard = core.table.shard_for(id);
  core.table.set_attributes(shard, detail::slot_of(id.index()), {});
  detail::TaskTable::drop_data(node);
  shard.errors.erase(id.value);
  node.store(Word::of(id.generation(), 0, State::kFree));
}

// What stands in the record replaces what the task had.
Status put_attributes(EngineCore& core, const Op& op, NodeContent* content) {
  Result<detail::Attributes> attributes = detail::decode_attributes(op.attributes());
  if (!attributes.ok()) {
    return Status(attributes.code(),
                  "LSN " + std::to_string(op.lsn) + ": " + attributes.status().detail());
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
  core.table.set_attributes(
      core.table.shard_for(op.id), detail::slot_of(op.id.index()), *std::move(attributes));
  return {};
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
  if (Status status = put_attributes(core, op, &content); !status.ok()) {
    return status;
  }
  detail::write_content(*node, content);
  note_error(shard, op);
  node->store(Word::of(op.id.generation(), 0, op.dead ? State::kDead : State::kScheduled));
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
    case OpKind::kCancel:
    case OpKind::kDone:
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
      if (Status status = put_attributes(core, op, &content); !status.ok()) {
        return status;
      }
      detail::write_content(*node, content);
      note_error(shard, op);
      return {};
    case OpKind::kDead:
      content.failures = op.failures;
      content.attempts = op.attempts;
      content.crashes = op.crashes;
      if (Status status = put_attributes(core, op, &content); !status.ok()) {
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

// A delivery that was running when its process ended: one more attempt, and one more crash unless
// its handler had finished. Logged before the cell is cleared, so that a crash in here counts
// nothing twice.
void count_interrupted(EngineCore& core, RestoreSummary* summary) {
  const std::span<AttemptCell> cells = core.journal->attempt_cells();
  core.cells.keep_marked();
  std::vector<std::uint32_t> unused;
  for (std::uint32_t i = 0; i < cells.size(); ++i) {
    const TaskId id{cells[i].id.load()};
    if (!id) {
      continue;
    }
    const std::uint64_t mark = cells[i].mark.load();
    const auto attempt = static_cast<std::uint16_t>(mark >> 1);
    Shard& shard = core.table.shard_for(id);
    const std::lock_guard lock(shard.mutex);
    Node* node = core.table.find(shard, id);
    if (node == nullptr || node->load().state() != State::kScheduled ||
        attempt <= node->attempts.load()) {
      unused.push_back(i);
      continue;
    }
    node->attempts.store(attempt);
    ++summary->redelivered;
    if ((mark & 1) == 0) {
      node->crashes = static_cast<std::uint8_t>(std::min(node->crashes + 1, 255));
      ++summary->crashed;
    }
    Op op;
    op.kind = OpKind::kRetry;
    op.clock = node->clock();
    op.id = id;
    op.wall_deadline_ns = node->wall_ns.load();
    op.boot_deadline_ns = node->deadline_ns.load();
    op.base_lsn = node->lsn.load();
    op.slack_us = node->slack_us.load();
    op.failures = node->failures;
    op.attempts = attempt;
    op.crashes = node->crashes;
    op.cell = i + 1;
    std::string& error = shard.errors[id.value];
    if ((mark & 1) == 0) {
      error = "its process ended during attempt " + std::to_string(attempt);
    }
    core.commit.enqueue(
        op,
        {.text = error,
         .attributes = encode(core.table.attributes_of(shard, detail::slot_of(id.index())))},
        &node->lsn);
  }
  core.cells.give(unused);
}

// Gives the key to the later task; the earlier one was running when that was scheduled and comes
// first. It is the one that has started before, or, if the trace of that is lost, the one with the
// lower LSN (which the record of an interrupted attempt raises).
void take_key(EngineCore& core, Shard& shard, std::uint32_t number, std::uint32_t slot) {
  Node& node = shard.nodes.at(slot);
  if (node.key_bytes == 0) {
    return;
  }
  const auto holder = core.table.find_key(shard, number, node.key());
  if (!holder) {
    shard.keys.insert(slot);
    return;
  }
  std::uint32_t first = detail::slot_of(*holder);
  std::uint32_t second = slot;
  const auto rank = [&shard](std::uint32_t of) {
    const Node& its = shard.nodes.at(of);
    return std::pair(its.attempts.load() == 0, its.lsn.load());
  };
  if (rank(first) > rank(second)) {
    std::swap(first, second);
  }
  shard.keys.erase(detail::slot_of(*holder));
  shard.keys.insert(second);
  shard.nodes.at(first).flags.fetch_or(detail::kFlagKeyLost);
  shard.nodes.at(second).flags.fetch_or(detail::kFlagBlocked);
  shard.successors[number << detail::kSlotBits | first] = number << detail::kSlotBits | second;
}

// A boot deadline of another session is worth what it was worth on the wall.
void translate(Node& node, const Instant& now) {
  if (!node.has(detail::kFlagForeignSession)) {
    return;
  }
  std::int64_t boot_ns = 0;
  if (__builtin_sub_overflow(node.wall_ns.load(), now.wall_ns, &boot_ns) ||
      __builtin_add_overflow(boot_ns, now.boot_ns, &boot_ns)) {
    boot_ns = kNever - 1;
  }
  node.deadline_ns.store(boot_ns);
  node.flags.fetch_and(static_cast<std::uint8_t>(~detail::kFlagForeignSession));
}

// Counts what the log holds, gives keys back and translates deadlines of other sessions. Answers
// the earliest deadline on each face.
Result<Instant> count_tasks(EngineCore& core, const Instant& now, RestoreSummary* summary) {
  Instant start = now;
  for (std::uint32_t number = 0; number < detail::kShards; ++number) {
    Shard& shard = core.table.shard(number);
    for (std::uint32_t slot = 0; slot < shard.used_slots; ++slot) {
      Node& node = shard.nodes.at(slot);
      const State state = node.load().state();
      if (state != State::kScheduled && state != State::kDead) {
        continue;
      }
      // Not asked before: the cleaner may have carried the type's record on, behind its tasks.
      if (const std::uint16_t type = node.type.load();
          core.types.count() <= type || core.types.at(type) == nullptr) {
        const std::uint32_t index = number << detail::kSlotBits | slot;
        return Status(Code::kCorrupt,
                      "task " + std::to_string(TaskId::of(index, node.load().generation()).value) +
                          " is of a type the log has not named");
      }
      ++shard.counts.scheduled;
      if (state == State::kDead) {
        ++shard.counts.dead;
        ++summary->dead;
        core.table.dead_letters.add(
            TaskId::of(number << detail::kSlotBits | slot, node.load().generation()),
            core.table.attributes_of(shard, slot).died_wall_ns);
        continue;
      }
      ++summary->live;
      core.limits.force(node.data_bytes());
      translate(node, now);
      take_key(core, shard, number, slot);
      std::int64_t& face = node.clock() == ClockKind::kWall ? start.wall_ns : start.boot_ns;
      face = std::min(face, node.deadline_ns.load());
      if (node.deadline_ns.load() <= now.on(node.clock())) {
        node.flags.fetch_or(detail::kFlagOverdue);
        ++summary->overdue;
      }
    }
  }
  return start;
}

}  // namespace

Restorer::Restorer(Engine& engine)
    : engine_(engine), session_hash_(engine.core_->clock.session().hash()) {
  COUNTWHEEL_ASSERT(engine.core_->phase.load() == EngineCore::Phase::kCreated);
  engine.core_->phase.store(EngineCore::Phase::kRecovering);
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
  return apply_change(core, op, same_session);
}

Result<RestoreSummary> Restorer::finish(const LogEnd& end) {
  EngineCore& core = *engine_.core_;
  RestoreSummary summary;
  summary.ops = ops_;
  core.commit.resume(
      std::max(end.last_lsn, end.lsn_ceiling) + 1, end.generation_ceiling, end.epoch + 1);
  core.table.finish_restore(end.generation_ceiling);
  if (core.options.clock_policy == ClockPolicy::kFloor && end.last_seen_wall_ns != 0) {
    core.wall_floor_ns.store(end.last_seen_wall_ns);
  }
  const Instant now = core.now();
  const Result<Instant> start = count_tasks(core, now, &summary);
  if (!start.ok()) {
    return start.status();
  }
  // The wheels begin at the oldest deadline: what is overdue then expires in order.
  core.ticker.begin(*start, core.options.reserve_count);
  core.begun = true;
  for (std::uint32_t number = 0; number < detail::kShards; ++number) {
    const Shard& shard = core.table.shard(number);
    for (std::uint32_t slot = 0; slot < shard.used_slots; ++slot) {
      const Node& node = shard.nodes.at(slot);
      if (node.load().state() == State::kScheduled) {
        core.ticker.file({node.deadline_ns.load(),
                          number << detail::kSlotBits | slot,
                          node.slack_us.load(),
                          node.clock()});
      }
    }
  }
  count_interrupted(core, &summary);
  core.restored_crashes = summary.crashed;
  core.phase.store(EngineCore::Phase::kCreated);
  // Everything restored is durable.
  std::vector<detail::MailItem> nothing;
  core.mailbox.put(nothing, core.commit.last_lsn() - core.commit.queued());
  return summary;
}

}  // namespace countwheel
