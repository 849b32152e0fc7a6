// schedule, cancel and reschedule. Each decides with one CAS and enqueues its record in the same
// step under the shard lock: that is where it takes place (SEMANTICS 3).
#include <limits>

#include <countwheel/assert.h>

#include "engine_core.h"

namespace countwheel::detail {
namespace {

// Until the record has its LSN no wheel entry of this task counts, not even one of an earlier
// tenant of the slot that happens to have the same deadline.
constexpr std::uint64_t kNoLsnYet = std::numeric_limits<std::uint64_t>::max();

std::string name_of(TaskId id) {
  return "task " + std::to_string(id.value);
}

WallTime wall_time(std::int64_t ns) {
  return WallTime(std::chrono::nanoseconds(ns));
}

void put_deadline(NodeContent& content, const ResolvedDeadline& deadline) {
  content.deadline_ns = deadline.on_clock();
  content.wall_ns = deadline.wall_ns;
  content.lsn = kNoLsnYet;
  content.flags = static_cast<std::uint8_t>(
      (content.flags & ~(kFlagBoot | kFlagOverdue | kFlagForeignSession)) |
      (deadline.clock == ClockKind::kBoot ? kFlagBoot : 0) |
      (deadline.overdue ? kFlagOverdue : 0));
}

void put_deadline(Op& op, const ResolvedDeadline& deadline) {
  op.clock = deadline.clock;
  op.wall_deadline_ns = deadline.wall_ns;
  op.boot_deadline_ns = deadline.boot_ns;
}

}  // namespace

struct EngineCore::Request {
  explicit Request(const TaskSpec& checked) : spec(checked) {}

  const TaskSpec& spec;
  TaskType* type = nullptr;
  ResolvedDeadline deadline;
  std::uint32_t slack_us = 0;
  std::uint32_t shard = 0;
  Durability durability = Durability::kDisk;

  std::uint64_t bytes() const noexcept { return spec.key.size() + spec.payload.size(); }
  NodeContent content() const {
    NodeContent content;
    put_deadline(content, deadline);
    content.slack_us = slack_us;
    content.type = type->number;
    return content;
  }
  Op record(TaskId id) const {
    Op op;
    op.kind = OpKind::kSchedule;
    op.durability = durability;
    op.id = id;
    op.slack_us = slack_us;
    op.type = type->number;
    put_deadline(op, deadline);
    return op;
  }
};

Status EngineCore::refuse(Status status) {
  refused.fetch_add(1, std::memory_order_relaxed);
  return status;
}

Result<Submitted> EngineCore::submit(const TaskSpec& spec) {
  if (Status status = open_for_calls(); !status.ok()) {
    return status;
  }
  if (Status status = commit.accepting(); !status.ok()) {
    return refuse(std::move(status));
  }
  if (Status status = check_sizes(spec, options); !status.ok()) {
    return refuse(std::move(status));
  }
  const Result<ResolvedDeadline> deadline = resolve(spec.deadline, now(), options);
  if (!deadline.ok()) {
    return refuse(deadline.status());
  }
  const Result<TaskType*> type =
      types.intern(spec.type, [this](const TaskType& made) { carry_type_record(made); });
  if (!type.ok()) {
    return refuse(type.status());
  }
  Request request(spec);
  request.type = *type;
  request.deadline = *deadline;
  request.slack_us = (*type)->slack_us.load(std::memory_order_relaxed);
  if (spec.slack) {
    const Result<std::uint32_t> slack = slack_us(*spec.slack);
    if (!slack.ok()) {
      return refuse(slack.status());
    }
    request.slack_us = *slack;
  }
  request.durability = spec.durability.value_or(options.durability);
  request.shard =
      spec.key.empty() ? TaskTable::shard_of_thread() : TaskTable::shard_of_key(spec.key);
  Result<Submitted> submitted = place(request);
  if (submitted.ok()) {
    commit.nudge();
  }
  return submitted;
}

Result<Submitted> EngineCore::place(const Request& request) {
  Shard& shard = table.shard(request.shard);
  const std::lock_guard lock(shard.mutex);
  bool blocked = false;
  if (!request.spec.key.empty()) {
    if (const auto holder = table.find_key(shard, request.shard, request.spec.key)) {
      if (auto answer = meet_holder(shard, request, *holder, &blocked)) {
        return *std::move(answer);
      }
    }
  }
  if (!limits.take(request.bytes())) {
    return refuse(Status(Code::kOverloaded,
                         std::to_string(limits.count()) + " tasks with " +
                             std::to_string(limits.bytes()) +
                             " bytes are pending; EngineOptions::max_pending_count is " +
                             std::to_string(options.max_pending_count) + ", max_pending_bytes " +
                             std::to_string(options.max_pending_bytes)));
  }
  const std::optional<TaskId> id = table.allocate(request.shard);
  if (!id || !TaskTable::put_data(table.node(id->index()), request.spec.key,
                                  request.spec.payload)) {
    if (id) {
      table.release(id->index());
    }
    limits.give(request.bytes());
    return refuse(Status(Code::kResource, "no memory for another task"));
  }
  return add(shard, request, *id, blocked ? kFlagBlocked : 0);
}

Submitted EngineCore::add(Shard& shard,
                          const Request& request,
                          TaskId id,
                          std::uint8_t extra_flags) {
  Node& node = table.node(id.index());
  NodeContent content = request.content();
  content.flags |= extra_flags;
  write_content(node, content);
  if ((extra_flags & kFlagBlocked) != 0) {
    const auto holder = table.find_key(shard, request.shard, request.spec.key);
    COUNTWHEEL_ASSERT(holder.has_value());
    table.node(*holder).flags.fetch_or(kFlagKeyLost);
    shard.keys.erase(slot_of(*holder));
    shard.successors[*holder] = id.index();
  }
  if (!request.spec.key.empty()) {
    shard.keys.insert(slot_of(id.index()));
  }
  ++shard.counts.scheduled;
  node.store(Word::of(id.generation(), 0, State::kScheduled));
  const std::uint64_t lsn = commit.enqueue(
      request.record(id), request.spec.key, request.spec.payload, {}, &node.lsn);
  return {id, {lsn}, false};
}

// A live task has the key. An answer, or nothing when a new task takes the key over; `blocked` says
// that it must wait for the running one to end.
std::optional<Result<Submitted>> EngineCore::meet_holder(Shard& shard,
                                                         const Request& request,
                                                         std::uint32_t holder,
                                                         bool* blocked) {
  const Node& node = table.node(holder);
  for (;;) {
    const Word word = node.load();
    const TaskId id = TaskId::of(holder, word.generation());
    const bool replace = request.spec.key_policy == KeyPolicy::kReplace;
    if (word.state() == State::kRunning) {
      if (replace || Dispatcher::current_task() == id) {
        *blocked = true;
        return std::nullopt;
      }
    } else if (replace) {
      if (auto answer = upsert(shard, request, holder, word)) {
        return answer;
      }
      continue;  // It started meanwhile.
    }
    return Result<Submitted>(Status(Code::kExists, name_of(id) + " has this key"));
  }
}

// Moves the live task in place: same id, everything else new. Nothing when it started meanwhile.
std::optional<Result<Submitted>> EngineCore::upsert(Shard& shard,
                                                    const Request& request,
                                                    std::uint32_t index,
                                                    Word word) {
  Node& node = table.node(index);
  const TaskId id = TaskId::of(index, word.generation());
  const std::uint64_t old_bytes = node.data_bytes();
  if (!limits.take_bytes(request.bytes())) {
    return Result<Submitted>(refuse(Status(
        Code::kOverloaded, "EngineOptions::max_pending_bytes is " +
                               std::to_string(options.max_pending_bytes))));
  }
  if (!node.transition(word, word.with(State::kMoving))) {
    limits.give_bytes(request.bytes());
    return std::nullopt;
  }
  Undo undo;
  undo.before = content_of(node);
  undo.has_data = true;
  undo.data.assign(node.data(), node.data_bytes());
  undo.key_bytes = static_cast<std::uint16_t>(node.key_bytes);
  const std::uint8_t blocked = undo.before.flags & kFlagBlocked;
  shard.keys.erase(slot_of(index));
  TaskTable::drop_data(node);
  if (!TaskTable::put_data(node, request.spec.key, request.spec.payload)) {
    const std::string_view old = undo.data;
    const bool restored = TaskTable::put_data(
        node, old.substr(0, undo.key_bytes), old.substr(undo.key_bytes));
    COUNTWHEEL_ASSERT(restored);
    shard.keys.insert(slot_of(index));
    node.store(word);
    limits.give_bytes(request.bytes());
    return Result<Submitted>(refuse(Status(Code::kResource, "no memory for the payload")));
  }
  shard.keys.insert(slot_of(index));
  limits.give_bytes(old_bytes);
  NodeContent content = request.content();
  content.flags |= blocked;
  write_content(node, content);
  ++shard.counts.scheduled;
  ++shard.counts.replaced;
  node.store(word.bumped(State::kScheduled));
  Op op = request.record(id);
  op.upsert = true;
  const std::uint64_t lsn = commit.enqueue(
      op, request.spec.key, request.spec.payload, {}, &node.lsn, std::move(undo));
  return Result<Submitted>(Submitted{id, {lsn}, true});
}

// The key is free for others, or back with the running task this one was to follow.
void EngineCore::leave_key(Shard& shard, Node& node, std::uint32_t index) {
  if (node.key_bytes == 0 || node.has(kFlagKeyLost)) {
    return;
  }
  shard.keys.erase(slot_of(index));
  if (!node.has(kFlagBlocked)) {
    return;
  }
  for (const auto& [running, successor] : shard.successors) {
    if (successor == index) {
      table.node(running).flags.fetch_and(static_cast<std::uint8_t>(~kFlagKeyLost));
      shard.keys.insert(slot_of(running));
      shard.successors.erase(running);
      return;
    }
  }
}

Change EngineCore::cancel(TaskId id, Durability durability) {
  if (Status status = open_for_calls(); !status.ok()) {
    return {std::move(status), id, {}, {}};
  }
  if (Status status = commit.accepting(); !status.ok()) {
    return {refuse(std::move(status)), id, {}, {}};
  }
  Change change;
  {
    Shard& shard = table.shard_for(id);
    const std::lock_guard lock(shard.mutex);
    change = cancel_locked(shard, id, durability);
  }
  commit.nudge();
  return change;
}

Change EngineCore::cancel(std::string_view key, Durability durability) {
  if (Status status = open_for_calls(); !status.ok()) {
    return {std::move(status), {}, {}, {}};
  }
  if (Status status = commit.accepting(); !status.ok()) {
    return {refuse(std::move(status)), {}, {}, {}};
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
        shard, TaskId::of(*holder, table.node(*holder).load().generation()), durability);
  }
  commit.nudge();
  return change;
}

Change EngineCore::cancel_locked(Shard& shard, TaskId id, Durability durability) {
  Node* node = table.find(shard, id);
  if (node == nullptr) {
    return {Status(Code::kNotFound), id, {}, {}};
  }
  const WallTime deadline = wall_time(node->wall_ns.load(std::memory_order_relaxed));
  Op op;
  op.kind = OpKind::kCancel;
  op.durability = durability;
  op.id = id;
  op.base_lsn = node->lsn.load(std::memory_order_relaxed);
  for (;;) {
    const Word word = node->load();
    switch (word.state()) {
      case State::kScheduled:
        if (!node->transition(word, word.with(State::kCancelled))) {
          continue;  // It started meanwhile.
        }
        leave_key(shard, *node, id.index());
        limits.give(node->data_bytes());
        ++shard.counts.cancelled;
        op.releases = true;
        return {Status(Code::kCancelled), id, {commit.enqueue(op, {}, {}, {}, nullptr)}, deadline};
      case State::kRunning:
        if ((node->flags.fetch_or(kFlagCancelRequested) & kFlagCancelRequested) != 0) {
          return {Status(Code::kTooLate, "running"), id, {}, deadline};
        }
        // Logged, so that a crash of this attempt does not bring the task back.
        return {Status(Code::kTooLate, "running"),
                id,
                {commit.enqueue(op, {}, {}, {}, nullptr)},
                deadline};
      case State::kDead:
        return {Status(Code::kTooLate, "a dead letter"), id, {}, deadline};
      default:
        return {Status(Code::kNotFound), id, {}, {}};
    }
  }
}

Change EngineCore::reschedule(TaskId id, const Deadline& deadline, Durability durability) {
  if (Status status = open_for_calls(); !status.ok()) {
    return {std::move(status), id, {}, {}};
  }
  if (Status status = commit.accepting(); !status.ok()) {
    return {refuse(std::move(status)), id, {}, {}};
  }
  const Result<ResolvedDeadline> resolved = resolve(deadline, now(), options);
  if (!resolved.ok()) {
    return {refuse(resolved.status()), id, {}, {}};
  }
  Change change;
  {
    Shard& shard = table.shard_for(id);
    const std::lock_guard lock(shard.mutex);
    change = reschedule_locked(shard, id, *resolved, durability);
  }
  commit.nudge();
  return change;
}

Change EngineCore::reschedule(std::string_view key,
                              const Deadline& deadline,
                              Durability durability) {
  if (Status status = open_for_calls(); !status.ok()) {
    return {std::move(status), {}, {}, {}};
  }
  const std::uint32_t number = TaskTable::shard_of_key(key);
  TaskId id;
  {
    Shard& shard = table.shard(number);
    const std::lock_guard lock(shard.mutex);
    const auto holder = table.find_key(shard, number, key);
    if (!holder) {
      return {Status(Code::kNotFound), {}, {}, {}};
    }
    id = TaskId::of(*holder, table.node(*holder).load().generation());
  }
  return reschedule(id, deadline, durability);
}

Change EngineCore::reschedule_locked(Shard& shard,
                                     TaskId id,
                                     const ResolvedDeadline& deadline,
                                     Durability durability) {
  Node* node = table.find(shard, id);
  if (node == nullptr) {
    return {Status(Code::kNotFound), id, {}, {}};
  }
  const WallTime before = wall_time(node->wall_ns.load(std::memory_order_relaxed));
  const Word word = node->load();
  if (word.state() == State::kCancelled || word.state() == State::kDone) {
    return {Status(Code::kNotFound), id, {}, {}};
  }
  // The CAS fails only against the start of its handler.
  if (word.state() != State::kScheduled || !node->transition(word, word.with(State::kMoving))) {
    return {Status(Code::kTooLate), id, {}, before};
  }
  Undo undo;
  undo.before = content_of(*node);
  NodeContent content = undo.before;
  Op op;
  op.kind = OpKind::kReschedule;
  op.durability = durability;
  op.id = id;
  op.slack_us = content.slack_us;
  op.base_lsn = content.lsn;
  put_deadline(op, deadline);
  put_deadline(content, deadline);
  write_content(*node, content);
  node->store(word.bumped(State::kScheduled));
  const std::uint64_t lsn = commit.enqueue(op, {}, {}, {}, &node->lsn, std::move(undo));
  return {Status(), id, {lsn}, before};
}

}  // namespace countwheel::detail
