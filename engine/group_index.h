// GroupIndex: the tasks of one shard that carry a group, listed by group in the order of their
// latest (re)schedule.
//
// Links lie in blocks beside the nodes, 16 bytes a slot, made when a task with a group first comes
// near; tasks without one cost nothing. Everything is O(1).
#ifndef COUNTWHEEL_ENGINE_GROUP_INDEX_H_
#define COUNTWHEEL_ENGINE_GROUP_INDEX_H_

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace countwheel::detail {

// Thread contract: guarded by the lock of its shard.
class GroupIndex {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  // The group of the task in this slot; 0 is none.
  std::uint64_t of(std::uint32_t slot) const noexcept {
    const Link* link = find(slot);
    return link == nullptr ? 0 : link->group;
  }

  // The task carries `group` from now on; it leaves another one.
  void set(std::uint32_t slot, std::uint64_t group) {
    if (of(slot) == group) {
      return;
    }
    leave(slot);
    make(slot).group = group;
  }

  // The task lives, and its latest (re)schedule is later than those of all others.
  void enter(std::uint32_t slot) {
    const std::uint64_t group = of(slot);
    if (group == 0) {
      return;
    }
    leave(slot);
    List& list = lists_[group];
    Link& link = make(slot);
    link.previous = list.tail;
    link.next = kNone;
    (list.tail == kNone ? list.head : make(list.tail).next) = slot;
    list.tail = slot;
    ++list.count;
  }

  // The task does not live any more, but keeps its number.
  void leave(std::uint32_t slot) {
    Link* const link = const_cast<Link*>(find(slot));
    if (link == nullptr || link->group == 0 || link->next == kUnlinked) {
      return;
    }
    const auto found = lists_.find(link->group);
    List& list = found->second;
    list.cursor = list.cursor == slot ? link->next : list.cursor;
    (link->previous == kNone ? list.head : make(link->previous).next) = link->next;
    (link->next == kNone ? list.tail : make(link->next).previous) = link->previous;
    link->next = kUnlinked;
    if (--list.count == 0) {
      lists_.erase(found);
    }
  }

  // Live tasks of the group.
  std::uint64_t count(std::uint64_t group) const {
    const auto found = lists_.find(group);
    return found == lists_.end() ? 0 : found->second.count;
  }

  // A visit of all members, in order, which may take many steps: members may come and go meanwhile.
  void begin_visit(std::uint64_t group) {
    if (const auto found = lists_.find(group); found != lists_.end()) {
      found->second.cursor = found->second.head;
    }
  }
  // The next one; kNone when all have been visited.
  std::uint32_t next_to_visit(std::uint64_t group) const {
    const auto found = lists_.find(group);
    return found == lists_.end() ? kNone : found->second.cursor;
  }
  // REQUIRES: there is a next one.
  void visited(std::uint64_t group) {
    List& list = lists_.find(group)->second;
    list.cursor = make(list.cursor).next;
  }

  bool lists(std::uint32_t slot) const noexcept {
    const Link* link = find(slot);
    return link != nullptr && link->group != 0 && link->next != kUnlinked;
  }
  bool empty() const noexcept { return lists_.empty(); }
  std::vector<std::uint64_t> groups() const {
    std::vector<std::uint64_t> groups;
    for (const auto& [group, list] : lists_) {
      groups.push_back(group);
    }
    return groups;
  }

 private:
  static constexpr std::uint32_t kUnlinked = kNone - 1;
  static constexpr std::uint32_t kBlockSlots = 4096;

  struct Link {
    std::uint64_t group = 0;
    std::uint32_t previous = kNone;
    std::uint32_t next = kUnlinked;
  };
  struct List {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
    std::uint32_t cursor = kNone;  // of the visit in progress
    std::uint64_t count = 0;
  };
  using Block = std::array<Link, kBlockSlots>;

  const Link* find(std::uint32_t slot) const noexcept {
    const std::size_t block = slot / kBlockSlots;
    return block < blocks_.size() && blocks_[block] ? &(*blocks_[block])[slot % kBlockSlots]
                                                    : nullptr;
  }
  Link& make(std::uint32_t slot) {
    const std::size_t block = slot / kBlockSlots;
    if (block >= blocks_.size()) {
      blocks_.resize(block + 1);
    }
    if (!blocks_[block]) {
      blocks_[block] = std::make_unique<Block>();
    }
    return (*blocks_[block])[slot % kBlockSlots];
  }

  std::vector<std::unique_ptr<Block>> blocks_;
  std::unordered_map<std::uint64_t, List> lists_;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_GROUP_INDEX_H_
