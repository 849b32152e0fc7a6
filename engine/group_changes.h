// GroupChanges: what was decided for whole groups and has not reached all of their members yet.
//
// A call for a group is one record and visits no member. It notes the change here, under the locks
// of all shards, and from then on every member's fate is read from it whenever the member is looked
// at. Once the record is durable the tick thread takes the change to the members, a bounded number
// a step, in the order of their (re)schedules (group_sweep.cc).
//
// A change concerns the members whose latest (re)schedule is earlier than its record.
#ifndef COUNTWHEEL_ENGINE_GROUP_CHANGES_H_
#define COUNTWHEEL_ENGINE_GROUP_CHANGES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "node.h"

namespace countwheel::detail {

struct GroupChangeEntry {
  std::uint64_t lsn = 0;
  bool cancel = false;  // or a move
  std::int64_t deadline_ns = 0;
  std::int64_t wall_ns = 0;
  bool boot = false;
  bool overdue = false;
  // Once all members have been visited: the LSN at which the change may be forgotten. Until then
  // a refused record may yet bring back what a member was before it.
  std::uint64_t forget_at = 0;

  bool is_where(const Node& node) const noexcept {
    return node.deadline_ns.load(std::memory_order_relaxed) == deadline_ns &&
           node.has(kFlagBoot) == boot;
  }
};

struct GroupState {
  std::vector<GroupChangeEntry> changes;  // ascending by LSN
  bool paused = false;
  // Visit all members once more: something that was decided for one of them has been taken back, or
  // what was held back may fall due.
  bool again = false;

  // A visit of all members, in progress.
  bool visiting = false;
  std::uint64_t visit_lsn = 0;  // takes the changes up to here to them
  bool filing = false;          // files those that stay as they are too

  bool idle() const noexcept { return changes.empty() && !paused && !again && !visiting; }
};

// What the changes of its group mean for one member.
struct Fate {
  bool cancelled = false;
  const GroupChangeEntry* move = nullptr;
  bool paused = false;
  std::uint64_t lsn = 0;  // of the latest change that concerns it
};

// Thread contract: written with all shard locks held, read with any of them; wanted() lock-free.
class GroupChanges {
 public:
  bool none() const noexcept { return states_.empty(); }

  // `lsn`: of the member's latest (re)schedule. Only changes up to `up_to` count.
  Fate fate(std::uint64_t group, std::uint64_t lsn, std::uint64_t up_to = kNoLsnYet) const {
    Fate fate;
    const auto found = states_.find(group);
    if (found == states_.end()) {
      return fate;
    }
    fate.paused = found->second.paused;
    for (const GroupChangeEntry& change : found->second.changes) {
      if (change.lsn > lsn && change.lsn <= up_to) {
        fate.cancelled |= change.cancel;
        fate.lsn = change.lsn;
        fate.move = change.cancel ? fate.move : &change;
      }
    }
    return fate;
  }

  GroupState& state(std::uint64_t group) { return states_[group]; }
  GroupState* find(std::uint64_t group) {
    const auto found = states_.find(group);
    return found == states_.end() ? nullptr : &found->second;
  }
  std::unordered_map<std::uint64_t, GroupState>& states() noexcept { return states_; }

  // There may be something to do once everything up to `lsn` is durable.
  void want(std::uint64_t lsn) noexcept {
    std::uint64_t wanted = wanted_.load();
    while (lsn < wanted && !wanted_.compare_exchange_weak(wanted, lsn)) {
    }
  }
  void want_only(std::uint64_t lsn) noexcept { wanted_.store(lsn); }
  bool wanted(std::uint64_t released) const noexcept { return wanted_.load() <= released; }

 private:
  std::unordered_map<std::uint64_t, GroupState> states_;
  std::atomic<std::uint64_t> wanted_{kNoLsnYet};
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_GROUP_CHANGES_H_
