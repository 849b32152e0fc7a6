// What an engine says about its tasks and about itself.
#include <string>
#include <vector>

#include "engine_core.h"

namespace countwheel::detail {

TaskInfo EngineCore::info(const Shard& shard, TaskId id, const Node& node) const {
  const NodeContent content = content_of(node);
  TaskInfo info;
  info.id = id;
  info.state = node.load().state();
  const DueTime due = table.due_of(shard, slot_of(id.index()));
  info.clock = due.clock;
  info.type = types.at(content.type)->name;
  info.key = node.key();
  info.payload = node.payload();
  info.deadline = WallTime(std::chrono::nanoseconds(due.wall_ns));
  info.boot_deadline_ns = due.clock == ClockKind::kBoot ? due.deadline_ns : 0;
  info.order_lsn = {content.lsn};
  info.attempts = content.attempts;
  info.failures = content.failures;
  info.crashes = content.crashes;
  if (const auto error = shard.errors.find(id.value); error != shard.errors.end()) {
    info.last_error = error->second;
  }
  const Attributes attributes = table.attributes_of(shard, slot_of(id.index()));
  info.dead_reason = attributes.reason;
  info.died_at = WallTime(std::chrono::nanoseconds(attributes.died_wall_ns));
  info.requeued_from = attributes.requeued_from;
  info.group = attributes.group;
  info.runs = attributes.runs;
  return info;
}

Result<bool> EngineCore::is_due(const Result<TaskInfo>& task) const {
  if (!task.ok()) {
    return task.status();
  }
  const Instant instant = now();
  return task->clock == ClockKind::kBoot
             ? instant.boot_ns >= task->boot_deadline_ns
             : instant.wall_ns >= task->deadline.time_since_epoch().count();
}

Result<TaskInfo> EngineCore::find(TaskId id) const {
  if (Status status = open_for_reading(); !status.ok()) {
    return status;
  }
  auto& tasks = const_cast<TaskTable&>(table);
  Shard& shard = tasks.shard_for(id);
  const std::lock_guard lock(shard.mutex);
  const Node* node = tasks.find(shard, id);
  if (node == nullptr) {
    return Status(Code::kNotFound);
  }
  const State state = node->load().state();
  if (state == State::kCancelled || state == State::kDone || gone_with_group(shard, *node, id)) {
    return Status(Code::kNotFound);
  }
  return info(shard, id, *node);
}

std::vector<TaskInfo> EngineCore::list(TaskId after, std::size_t limit, bool dead_only) const {
  std::vector<TaskInfo> tasks;
  if (!open_for_reading().ok()) {
    return tasks;
  }
  auto& shards = const_cast<TaskTable&>(table);
  std::uint32_t number = shard_of(after.index());
  std::uint32_t slot = after ? slot_of(after.index()) + 1 : 0;
  for (; number < kShards && tasks.size() < limit; ++number, slot = 0) {
    Shard& shard = shards.shard(number);
    const std::lock_guard lock(shard.mutex);
    for (; slot < shard.used_slots && tasks.size() < limit; ++slot) {
      const Node& node = shard.nodes.at(slot);
      const State state = node.load().state();
      const bool live = state == State::kScheduled || state == State::kRunning;
      const TaskId id = TaskId::of(number << kSlotBits | slot, node.load().generation());
      if (state == State::kDead || (live && !dead_only && !gone_with_group(shard, node, id))) {
        tasks.push_back(info(shard, id, node));
      }
    }
  }
  return tasks;
}

Stats EngineCore::stats() const {
  Stats stats;
  if (!open_for_reading().ok()) {
    return stats;
  }
  {
    const AllShards locked(table);
    for (std::uint32_t i = 0; i < kShards; ++i) {
      const ShardCounts& counts = table.shard(i).counts;
      stats.scheduled += counts.scheduled;
      stats.done += counts.done;
      stats.cancelled += counts.cancelled;
      stats.dead += counts.dead;
      stats.replaced += counts.replaced;
      stats.failed_attempts += counts.failed_attempts;
      stats.pending += counts.pending();
    }
    stats.pending_bytes = limits.bytes();
  }
  stats.group_visits = group_visits.load(std::memory_order_relaxed);
  stats.refused = refused.load(std::memory_order_relaxed);
  stats.crashes = restored_crashes;
  dispatcher.fill(&stats);
  ticker.fill(&stats);
  commit.fill(&stats);
  return stats;
}

std::string EngineCore::check_invariants() {
  if (Status status = open_for_reading(); !status.ok()) {
    return status.text();
  }
  std::uint64_t pending = 0;
  for (std::uint32_t number = 0; number < kShards; ++number) {
    Shard& shard = table.shard(number);
    const std::lock_guard lock(shard.mutex);
    std::uint64_t live = 0;
    std::uint64_t dead = 0;
    std::uint64_t keyed = 0;
    for (std::uint32_t slot = 0; slot < shard.used_slots; ++slot) {
      const Node& node = shard.nodes.at(slot);
      const State state = node.load().state();
      dead += state == State::kDead ? 1 : 0;
      const bool beside = shard.attributes.contains(slot) || shard.groups.of(slot) != 0;
      if (node.has(kFlagAttributes) != beside) {
        return "slot " + std::to_string(slot) + " of shard " + std::to_string(number) +
               " has attributes and says otherwise, or the reverse";
      }
      if (node.has(kFlagTouched) != shard.touches.contains(slot)) {
        return "slot " + std::to_string(slot) + " of shard " + std::to_string(number) +
               " was touched and says otherwise, or the reverse";
      }
      keyed += state == State::kDone && table.attributes_of(shard, slot).done_until_wall_ns != 0;
      if (state != State::kScheduled && state != State::kRunning) {
        continue;
      }
      ++live;
      if (shard.groups.lists(slot) != (shard.groups.of(slot) != 0)) {
        return "slot " + std::to_string(slot) + " of shard " + std::to_string(number) +
               " lives and is not listed by its group";
      }
      if (node.key_bytes != 0 && !node.has(kFlagKeyLost)) {
        ++keyed;
        const auto holder = table.find_key(shard, number, node.key());
        if (!holder || slot_of(*holder) != slot) {
          return "slot " + std::to_string(slot) + " of shard " + std::to_string(number) +
                 " is not found by its key";
        }
      }
    }
    if (live != shard.counts.pending() || dead != shard.counts.dead) {
      return "shard " + std::to_string(number) + " counts " +
             std::to_string(shard.counts.pending()) + " pending and holds " + std::to_string(live) +
             ", counts " + std::to_string(shard.counts.dead) + " dead and holds " +
             std::to_string(dead);
    }
    if (keyed != shard.keys.size()) {
      return "shard " + std::to_string(number) + " has " + std::to_string(shard.keys.size()) +
             " keys for " + std::to_string(keyed) + " tasks";
    }
    pending += live;
  }
  if (pending != limits.count()) {
    return "pending is " + std::to_string(pending) + ", the limit counts " +
           std::to_string(limits.count());
  }
  return ticker.check_invariants();
}

Result<Lsn> EngineCore::snapshot(const std::function<void(const TaskInfo&)>& visit) const {
  if (Status status = open_for_reading(); !status.ok()) {
    return status;
  }
  const AllShards locked(table);
  for (std::uint32_t number = 0; number < kShards; ++number) {
    const Shard& shard = table.shard(number);
    for (std::uint32_t slot = 0; slot < shard.used_slots; ++slot) {
      const Node& node = shard.nodes.at(slot);
      const State state = node.load().state();
      const TaskId id = TaskId::of(number << kSlotBits | slot, node.load().generation());
      const bool live = state == State::kScheduled || state == State::kRunning;
      if (state == State::kDead || (live && !gone_with_group(shard, node, id))) {
        visit(info(shard, id, node));
      }
    }
  }
  return Lsn{commit.last_lsn()};
}

}  // namespace countwheel::detail
