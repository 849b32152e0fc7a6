// schedule: a new task, or with KeyPolicy::kReplace new contents for the task of the key. State and
// record in one step under the shard lock: that is where it takes place (SEMANTICS 3).
#include <utility>
#include <vector>

#include <countwheel/assert.h>

#include "engine_core.h"

namespace countwheel::detail {
namespace {

constexpr std::chrono::nanoseconds kDedupWindowMax = std::chrono::hours(24 * 3653);

std::string name_of(TaskId id) {
  return "task " + std::to_string(id.value);
}

}  // namespace

struct EngineCore::Request {
  Request(const TaskSpec& checked, const Writes& with) : spec(checked), writes(with) {}

  const TaskSpec& spec;
  const Writes& writes;
  TaskType* type = nullptr;
  ResolvedDeadline deadline;
  std::uint32_t slack_us = 0;
  std::uint32_t shard = 0;
  Durability durability = Durability::kDisk;
  Attributes attributes;
  std::string encoded_attributes;

  OpBytes op_bytes() const {
    return {.key = spec.key,
            .payload = spec.payload,
            .attributes = encoded_attributes,
            .writes = writes.bytes};
  }
  std::uint64_t bytes() const noexcept { return spec.key.size() + spec.payload.size(); }
  NodeContent content() const {
    NodeContent content;
    deadline.put_into(&content);
    content.slack_us = slack_us;
    content.type = type->number;
    content.flags |= attributes.empty() ? std::uint8_t{0} : kFlagAttributes;
    return content;
  }
  Status read_dedup_window() {
    const std::chrono::nanoseconds window = spec.dedup_window;
    if (window.count() < 0 || window > kDedupWindowMax) {
      return Status(Code::kOutOfRange,
                    "TaskSpec::dedup_window is " + std::to_string(window.count()) +
                        " ns, allowed: 0 to 10 years");
    }
    if (window.count() != 0 && spec.key.empty()) {
      return Status(Code::kInvalidArgument, "TaskSpec::dedup_window needs a key");
    }
    attributes.dedup_window_ns = window.count();
    return {};
  }
  // Checks what only some tasks have.
  Status read_attributes() {
    if (spec.retry != nullptr) {
      if (Status status = validate(*spec.retry); !status.ok()) {
        return status;
      }
      attributes.retry = *spec.retry;
    }
    if (spec.max_lateness) {
      if (spec.max_lateness->count() < 0) {
        return Status(Code::kOutOfRange,
                      "TaskSpec::max_lateness is " + std::to_string(spec.max_lateness->count()) +
                          " ns, allowed: 0 and more");
      }
      attributes.max_lateness_ns = spec.max_lateness->count();
    }
    attributes.group = spec.group;
    if (spec.recurrence != nullptr) {
      if (Status status = validate(*spec.recurrence); !status.ok()) {
        return status;
      }
      attributes.recurrence = *spec.recurrence;
    }
    if (Status status = read_dedup_window(); !status.ok()) {
      return status;
    }
    if (!attributes.empty()) {
      encoded_attributes = encode(attributes);
    }
    return {};
  }
  Op record(TaskId id) const {
    Op op;
    op.kind = OpKind::kSchedule;
    op.durability = durability;
    op.id = id;
    op.slack_us = slack_us;
    op.type = type->number;
    deadline.put_into(&op);
    return op;
  }
};

Status EngineCore::refuse(Status status) {
  refused.fetch_add(1, std::memory_order_relaxed);
  return status;
}

Status EngineCore::open_for_mutations(const Writes& writes) {
  if (Status status = open_for_calls(); !status.ok()) {
    return status;
  }
  Status status = commit.accepting();
  if (status.ok() && !writes.empty()) [[unlikely]] {
    status = accept_writes(writes);
  }
  return status.ok() ? status : refuse(std::move(status));
}

Result<Submitted> EngineCore::submit(const TaskSpec& spec, const Writes& writes) {
  if (Status status = open_for_mutations(writes); !status.ok()) {
    return status;
  }
  if (Status status = check_sizes(spec, options); !status.ok()) {
    return refuse(std::move(status));
  }
  const Result<ResolvedDeadline> deadline = resolve(spec.deadline, now_for(spec.deadline), options);
  if (!deadline.ok()) {
    return refuse(deadline.status());
  }
  const Result<TaskType*> type =
      types.intern(spec.type, [this](const TaskType& made) { carry_type_record(made); });
  if (!type.ok()) {
    return refuse(type.status());
  }
  Request request(spec, writes);
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
  if (Status status = request.read_attributes(); !status.ok()) {
    return refuse(std::move(status));
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
  if (!id ||
      !TaskTable::put_data(table.node(id->index()), request.spec.key, request.spec.payload)) {
    if (id) {
      table.release(id->index());
    }
    limits.give(1, request.bytes());
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
  if (!request.attributes.empty()) {
    table.set_attributes(shard, slot_of(id.index()), request.attributes);
    enter_group(shard, node, id.index());
  }
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
  const std::uint64_t lsn = commit.enqueue(request.record(id), request.op_bytes(), &node.lsn);
  return {id, {lsn}, false};
}

// A live task has the key. An answer, or nothing when a new task takes the key over; `blocked` says
// that it must wait for the running one to end.
std::optional<Result<Submitted>> EngineCore::meet_holder(Shard& shard,
                                                         const Request& request,
                                                         std::uint32_t holder,
                                                         bool* blocked) {
  Node& node = table.node(holder);
  for (;;) {
    const Word word = node.load();
    const TaskId id = TaskId::of(holder, word.generation());
    if (gone_with_group(shard, node, id)) {
      // Its own record comes with the new task's, before the tick thread gets to it.
      (void)cancel_node(shard, node, id, {}, request.durability);
      return std::nullopt;
    }
    if (word.state() == State::kDone) {
      if (forget_done(shard, id, now_on(ClockKind::kWall))) {
        return std::nullopt;
      }
      return Result<Submitted>(
          Status(Code::kDuplicate, name_of(id) + " with this key was done within its window"));
    }
    const KeyPolicy policy = request.spec.key_policy;
    // Its own key from its handler is for the time after it, whatever the policy.
    if (word.state() == State::kRunning &&
        (policy == KeyPolicy::kReplace || dispatcher.in_handler_of(id))) {
      *blocked = true;
      return std::nullopt;
    }
    if (policy == KeyPolicy::kReplace) {
      if (auto answer = upsert(shard, request, holder, word)) {
        return answer;
      }
      continue;  // It started meanwhile.
    }
    if (policy == KeyPolicy::kKeep) {
      // Acknowledged when all that is known of it is as durable as this call asks for.
      return Result<Submitted>(Submitted{.id = id, .lsn = {commit.last_lsn()}, .kept = true});
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
        Code::kOverloaded,
        "EngineOptions::max_pending_bytes is " + std::to_string(options.max_pending_bytes))));
  }
  if (!node.transition(word, word.with(State::kMoving))) {
    limits.give_bytes(request.bytes());
    return std::nullopt;
  }
  Undo undo;
  undo.before = undo_content(shard, node, index);
  undo.has_data = true;
  undo.data.assign(node.data(), node.data_bytes());
  undo.key_bytes = static_cast<std::uint16_t>(node.key_bytes);
  undo.attributes = encode(table.attributes_of(shard, slot_of(index)));
  shard.keys.erase(slot_of(index));
  TaskTable::drop_data(node);
  if (!TaskTable::put_data(node, request.spec.key, request.spec.payload)) {
    const std::string_view old = undo.data;
    const bool restored =
        TaskTable::put_data(node, old.substr(0, undo.key_bytes), old.substr(undo.key_bytes));
    COUNTWHEEL_ASSERT(restored);
    shard.keys.insert(slot_of(index));
    node.store(word);
    limits.give_bytes(request.bytes());
    // A wheel that looked meanwhile has dropped its entry.
    std::vector<MailItem> mail = {
        {undo.before.deadline_ns, index, undo.before.slack_us, node.clock()}};
    if (mailbox.put(mail, 0)) {
      ticker.wake();
    }
    return Result<Submitted>(refuse(Status(Code::kResource, "no memory for the payload")));
  }
  shard.keys.insert(slot_of(index));
  limits.give_bytes(old_bytes);
  NodeContent content = request.content();
  content.flags |= undo.before.flags & kFlagsOfSuccession;
  table.forget_touch(shard, slot_of(index));
  content.attempts = undo.before.attempts;
  // Fencing tokens ascend while the id stays: so do the numbers of runs.
  Attributes attributes = request.attributes;
  attributes.run = table.attributes_of(shard, slot_of(index)).run;
  content.flags |= attributes.empty() ? std::uint8_t{0} : kFlagAttributes;
  OpBytes bytes = request.op_bytes();
  const std::string encoded = encode(attributes);
  bytes.attributes = encoded;
  table.set_attributes(shard, slot_of(index), std::move(attributes));
  write_content(node, content);
  enter_group(shard, node, index);
  ++shard.counts.scheduled;
  ++shard.counts.replaced;
  node.store(word.bumped(State::kScheduled));
  Op op = request.record(id);
  op.upsert = true;
  op.attempts = content.attempts;
  const std::uint64_t lsn = commit.enqueue(op, bytes, &node.lsn, std::move(undo));
  return Result<Submitted>(Submitted{id, {lsn}, true});
}

}  // namespace countwheel::detail
