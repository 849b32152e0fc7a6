// The tick thread's part of a change of a group: takes it to the members once its record is
// durable, a bounded number a step, the earliest (re)schedule first.
#include "engine_core.h"

namespace countwheel::detail {
namespace {

// Members a step. The locks of all shards are held meanwhile.
constexpr std::size_t kMembersAStep = 256;

constexpr auto kRelaxed = std::memory_order_relaxed;

// Begins a visit if there is a reason for one.
void begin_visit(TaskTable& table, std::uint64_t group, GroupState& state, std::uint64_t released) {
  std::uint64_t last = 0;
  for (const GroupChangeEntry& change : state.changes) {
    const bool news = change.forget_at == 0 && change.lsn <= released;
    last = news ? change.lsn : last;
  }
  if (last == 0 && !state.again) {
    return;
  }
  state.visiting = true;
  state.visit_lsn = released;
  state.filing = std::exchange(state.again, false);
  for (std::uint32_t i = 0; i < kShards; ++i) {
    table.shard(i).groups.begin_visit(group);
  }
}

// The shard that has the next member, by the order of (re)schedules; kShards when there is none.
std::uint32_t next_shard(const TaskTable& table, std::uint64_t group) {
  std::uint32_t first = kShards;
  std::uint64_t lowest = kNoLsnYet;
  for (std::uint32_t i = 0; i < kShards; ++i) {
    const Shard& shard = table.shard(i);
    if (shard.groups.empty()) {
      continue;
    }
    const std::uint32_t slot = shard.groups.next_to_visit(group);
    if (slot == GroupIndex::kNone) {
      continue;
    }
    const std::uint64_t lsn = shard.nodes.at(slot).lsn.load(kRelaxed);
    if (first == kShards || lsn < lowest) {
      first = i;
      lowest = lsn;
    }
  }
  return first;
}

}  // namespace

// A move keeps the order of its members: it changes their deadlines, not their LSNs.
void EngineCore::visit_member(std::uint32_t index,
                              const GroupState& state,
                              std::vector<MailItem>* mail) {
  Shard& shard = table.shard(shard_of(index));
  const std::uint32_t slot = slot_of(index);
  Node& node = shard.nodes.at(slot);
  const Fate fate =
      table.group_changes.fate(shard.groups.of(slot), node.lsn.load(kRelaxed), state.visit_lsn);
  for (;;) {
    const Word word = node.load();
    if (word.state() == State::kRunning && fate.cancelled) {
      node.flags.fetch_or(kFlagCancelRequested);
    }
    if (word.state() != State::kScheduled) {
      return;
    }
    const bool moves = fate.move != nullptr && !fate.move->is_where(node);
    if (fate.cancelled) {
      if (!node.transition(word, word.with(State::kCancelled))) {
        continue;  // It started meanwhile.
      }
      leave_key(shard, node, index);
      shard.groups.leave(slot);
      limits.give(1, node.data_bytes());
      ++shard.counts.cancelled;
      if (const auto freed = table.unblock_successor(shard, index)) {
        mail->push_back(mail_of(table.node(*freed), *freed));
      }
      if (events.anybody()) {
        tell(Event::Kind::kCancelled,
             shard,
             TaskId::of(index, word.generation()),
             fate.lsn,
             DeadReason::kNone);
      }
      table.release(index);  // The record is written.
      return;
    }
    if (moves) {
      if (!node.transition(word, word.with(State::kMoving))) {
        continue;
      }
      table.forget_touch(shard, slot);
      NodeContent content = content_of(node);
      content.deadline_ns = fate.move->deadline_ns;
      content.wall_ns = fate.move->wall_ns;
      content.flags = static_cast<std::uint8_t>((content.flags & ~(kFlagBoot | kFlagOverdue)) |
                                                (fate.move->boot ? kFlagBoot : 0) |
                                                (fate.move->overdue ? kFlagOverdue : 0));
      write_content(node, content);
      node.store(word.bumped(State::kScheduled));
    }
    if (moves || state.filing) {
      mail->push_back(mail_of(node, index));
    }
    return;
  }
}

bool EngineCore::sweep_groups(std::uint64_t released, std::vector<MailItem>* mail) {
  if (!table.group_changes.wanted(released)) {
    return false;
  }
  const AllShards locked(table);
  std::size_t budget = kMembersAStep;
  std::uint64_t wanted = kNoLsnYet;
  auto& states = table.group_changes.states();
  for (auto it = states.begin(); it != states.end();) {
    const std::uint64_t group = it->first;
    GroupState& state = it->second;
    if (!state.visiting) {
      begin_visit(table, group, state, released);
    }
    while (state.visiting && budget > 0) {
      const std::uint32_t number = next_shard(table, group);
      if (number == kShards) {
        state.visiting = false;
        for (GroupChangeEntry& change : state.changes) {
          const bool done = change.forget_at == 0 && change.lsn <= state.visit_lsn;
          change.forget_at = done ? commit.last_lsn() : change.forget_at;
        }
        break;
      }
      GroupIndex& groups = table.shard(number).groups;
      const std::uint32_t slot = groups.next_to_visit(group);
      groups.visited(group);
      visit_member(number << kSlotBits | slot, state, mail);
      --budget;
      ++group_visits;
    }
    if (!state.visiting && !state.again) {
      std::erase_if(state.changes, [&](const GroupChangeEntry& change) {
        return change.forget_at != 0 && change.forget_at <= released;
      });
    }
    for (const GroupChangeEntry& change : state.changes) {
      wanted = std::min(wanted, change.forget_at != 0 ? change.forget_at : change.lsn);
    }
    if (state.visiting || state.again) {
      wanted = 0;
    }
    it = state.idle() ? states.erase(it) : std::next(it);
  }
  table.group_changes.want_only(wanted);
  if (events.anybody()) {
    commit.call_listener();
  }
  return wanted <= released;
}

}  // namespace countwheel::detail
