// Calls for a whole group: one record each, whatever the size. They take the locks of all shards
// for a moment, so that the change takes place between two calls for any of its members.
#include <string>
#include <utility>

#include "engine_core.h"

namespace countwheel::detail {

namespace {

std::uint64_t live_members(TaskTable& table, std::uint64_t group) {
  std::uint64_t count = 0;
  for (std::uint32_t i = 0; i < kShards; ++i) {
    count += table.shard(i).groups.count(group);
  }
  return count;
}

Status no_group() {
  return Status(Code::kInvalidArgument, "group 0 is no group");
}

}  // namespace

GroupChange EngineCore::change_group(std::uint64_t group,
                                     const std::optional<Deadline>& deadline,
                                     Durability durability) {
  if (Status status = open_for_mutations(); !status.ok()) {
    return {std::move(status), {}, 0};
  }
  if (group == 0) {
    return {refuse(no_group()), {}, 0};
  }
  Op op;
  op.kind = OpKind::kCancelGroup;
  op.durability = durability;
  op.id = TaskId{group};
  GroupChangeEntry change;
  change.cancel = !deadline.has_value();
  if (deadline) {
    const Result<ResolvedDeadline> resolved = resolve(*deadline, now(), options);
    if (!resolved.ok()) {
      return {refuse(resolved.status()), {}, 0};
    }
    op.kind = OpKind::kRescheduleGroup;
    resolved->put_into(&op);
    change.deadline_ns = resolved->on_clock();
    change.wall_ns = resolved->wall_ns;
    change.boot = resolved->clock == ClockKind::kBoot;
    change.overdue = resolved->overdue;
  }
  GroupChange answer;
  {
    const AllShards locked(table);
    answer.count = live_members(table, group);
    if (answer.count == 0) {
      answer.status = Status(Code::kNotFound, "group " + std::to_string(group) + " has no task");
      return answer;
    }
    change.lsn = commit.enqueue(op);
    table.group_changes.state(group).changes.push_back(change);
    table.group_changes.want(change.lsn);
    answer.lsn = {change.lsn};
  }
  commit.nudge();
  return answer;
}

Status EngineCore::pause_group(std::uint64_t group, bool paused) {
  if (Status status = open_for_calls(); !status.ok()) {
    return status;
  }
  if (group == 0) {
    return no_group();
  }
  {
    const AllShards locked(table);
    GroupState* state = table.group_changes.find(group);
    if (state == nullptr && !paused) {
      return {};
    }
    state = &table.group_changes.state(group);
    // What fell due meanwhile has been put aside.
    state->again |= state->paused && !paused;
    state->paused = paused;
    if (state->again) {
      table.group_changes.want(0);
    }
  }
  ticker.wake();
  return {};
}

std::uint64_t EngineCore::group_count(std::uint64_t group) {
  const AllShards locked(table);
  return live_members(table, group);
}

}  // namespace countwheel::detail

namespace countwheel {

using detail::acknowledged;

GroupChange Engine::submit_cancel_group(std::uint64_t group, std::optional<Durability> durability) {
  return core_->change_group(group, {}, durability.value_or(core_->options.durability));
}
GroupChange Engine::submit_reschedule_group(std::uint64_t group,
                                            Deadline deadline,
                                            std::optional<Durability> durability) {
  return core_->change_group(group, deadline, durability.value_or(core_->options.durability));
}
GroupChange Engine::submit_expire_group(std::uint64_t group, std::optional<Durability> durability) {
  return submit_reschedule_group(group, Deadline(), durability);
}
GroupChange Engine::cancel_group(std::uint64_t group, std::optional<Durability> durability) {
  const Durability level = durability.value_or(core_->options.durability);
  return acknowledged(submit_cancel_group(group, level), *core_, level);
}
GroupChange Engine::reschedule_group(std::uint64_t group,
                                     Deadline deadline,
                                     std::optional<Durability> durability) {
  const Durability level = durability.value_or(core_->options.durability);
  return acknowledged(submit_reschedule_group(group, deadline, level), *core_, level);
}
GroupChange Engine::expire_group(std::uint64_t group, std::optional<Durability> durability) {
  return reschedule_group(group, Deadline(), durability);
}
std::uint64_t Engine::group_count(std::uint64_t group) const {
  return core_->open_for_reading().ok() ? core_->group_count(group) : 0;
}

Status Engine::pause_group(std::uint64_t group) {
  return core_->pause_group(group, true);
}

Status Engine::resume_group(std::uint64_t group) {
  return core_->pause_group(group, false);
}

}  // namespace countwheel
