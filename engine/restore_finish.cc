// What follows the fold: what was running is counted, keys and places in the order are given back,
// and every task is filed in the wheels.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <countwheel/restore.h>

#include "engine_core.h"

namespace countwheel {

using detail::EngineCore;
using detail::Node;
using detail::Shard;

namespace {

// The order of (re)schedules, which the log gives up when the cleaner carries tasks on.
void sort_groups(Shard& shard) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> members;
  for (const std::uint64_t group : shard.groups.groups()) {
    shard.groups.begin_visit(group);
    for (std::uint32_t slot = shard.groups.next_to_visit(group); slot != detail::GroupIndex::kNone;
         slot = shard.groups.next_to_visit(group)) {
      shard.groups.visited(group);
      members.emplace_back(shard.nodes.at(slot).lsn.load(), slot);
    }
  }
  std::sort(members.begin(), members.end());
  for (const auto& [lsn, slot] : members) {
    shard.groups.enter(slot);
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
    const auto attempt = static_cast<std::uint16_t>(mark >> 1 & 0xffff);
    const std::uint64_t run = mark >> detail::kRunShift;
    Shard& shard = core.table.shard_for(id);
    const std::lock_guard lock(shard.mutex);
    Node* node = core.table.find(shard, id);
    if (node == nullptr || node->load().state() != State::kScheduled ||
        attempt <= node->attempts.load() ||
        run != core.table.attributes_of(shard, detail::slot_of(id.index())).run) {
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
std::int64_t translated(std::int64_t wall_ns, const Instant& now) {
  std::int64_t boot_ns = 0;
  if (__builtin_sub_overflow(wall_ns, now.wall_ns, &boot_ns) ||
      __builtin_add_overflow(boot_ns, now.boot_ns, &boot_ns)) {
    boot_ns = kNever - 1;
  }
  return boot_ns;
}

void translate(Shard& shard, std::uint32_t slot, const Instant& now) {
  Node& node = shard.nodes.at(slot);
  if (node.has(detail::kFlagAttributes)) {
    if (const auto found = shard.attributes.find(slot); found != shard.attributes.end()) {
      auto& run_due = found->second.run_due;
      if (run_due && run_due->deadline_ns == detail::kForeignDeadline) {
        run_due->deadline_ns = translated(run_due->wall_ns, now);
      }
    }
  }
  if (node.clock() == ClockKind::kWall || node.deadline_ns.load() != detail::kForeignDeadline) {
    return;
  }
  node.deadline_ns.store(translated(node.wall_ns.load(), now));
}

// Done tasks keep their keys for their windows, unless a later task has them.
void keep_done_tasks(EngineCore& core, const Instant& now) {
  for (std::uint32_t number = 0; number < detail::kShards; ++number) {
    Shard& shard = core.table.shard(number);
    for (std::uint32_t slot = 0; slot < shard.used_slots; ++slot) {
      const Node& node = shard.nodes.at(slot);
      if (node.load().state() != State::kDone) {
        continue;
      }
      const std::uint32_t index = number << detail::kSlotBits | slot;
      const std::int64_t until_ns = core.table.attributes_of(shard, slot).done_until_wall_ns;
      if (until_ns <= now.wall_ns || core.table.find_key(shard, number, node.key())) {
        core.table.release(index);
        continue;
      }
      shard.keys.insert(slot);
      core.table.done_tasks.add(TaskId::of(index, node.load().generation()), until_ns);
    }
  }
}

// Counts what the log holds, collects free slots, gives keys back and translates deadlines of other
// sessions. Answers the earliest deadline on each face.
Result<Instant> count_tasks(EngineCore& core, const Instant& now, RestoreSummary* summary) {
  Instant start = now;
  std::uint64_t live_bytes = 0;
  for (std::uint32_t number = 0; number < detail::kShards; ++number) {
    Shard& shard = core.table.shard(number);
    for (std::uint32_t slot = 0; slot < shard.used_slots; ++slot) {
      Node& node = shard.nodes.at(slot);
      const State state = node.load().state();
      if (state == State::kFree) {
        core.table.add_free(shard, slot);
      }
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
      live_bytes += node.data_bytes();
      translate(shard, slot, now);
      take_key(core, shard, number, slot);
      std::int64_t& face = node.clock() == ClockKind::kWall ? start.wall_ns : start.boot_ns;
      face = std::min(face, node.deadline_ns.load());
      if (node.deadline_ns.load() <= now.on(node.clock())) {
        node.flags.fetch_or(detail::kFlagOverdue);
        ++summary->overdue;
        ++core.types.at(node.type.load())->missed_count;
      }
    }
  }
  core.limits.force(summary->live, live_bytes);
  return start;
}

}  // namespace

Result<RestoreSummary> Restorer::finish(const LogEnd& end) {
  EngineCore& core = *engine_.core_;
  RestoreSummary summary;
  summary.ops = ops_;
  core.commit.resume(
      std::max(end.last_lsn, end.lsn_ceiling) + 1, end.generation_ceiling, end.epoch + 1);
  core.table.set_generation_floor(end.generation_ceiling);
  if (core.options.clock_policy == ClockPolicy::kFloor && end.last_seen_wall_ns != 0) {
    core.wall_floor_ns.store(end.last_seen_wall_ns);
  }
  const Instant now = core.now();
  const Result<Instant> start = count_tasks(core, now, &summary);
  if (!start.ok()) {
    return start.status();
  }
  keep_done_tasks(core, now);
  // The wheels begin at the oldest deadline: what is overdue then expires in order.
  core.ticker.begin(*start, core.options.reserve_count);
  core.begun = true;
  for (std::uint32_t number = 0; number < detail::kShards; ++number) {
    Shard& shard = core.table.shard(number);
    sort_groups(shard);
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
  core.dispatcher.set_restored(core.commit.last_lsn());
  count_interrupted(core, &summary);
  core.restored_crashes = summary.crashed;
  core.phase.store(EngineCore::Phase::kCreated);
  // Everything restored is durable.
  std::vector<detail::MailItem> nothing;
  core.mailbox.put(nothing, core.commit.last_lsn() - core.commit.queued());
  return summary;
}

}  // namespace countwheel
