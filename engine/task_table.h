// TaskTable: id -> node and key -> node, in 16 shards.
//
// An id is {generation, index} and the index is the place itself: {shard 4, slot 28}. There is no
// id hash, in memory or in replay. Slots are taken first in, first out, so that a generation
// repeats only after the whole free list has been used; a slot at the last generation is retired.
//
// Shard count and bits are part of log format 1: a stored index means the same place for ever.
#ifndef COUNTWHEEL_ENGINE_TASK_TABLE_H_
#define COUNTWHEEL_ENGINE_TASK_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <boost/unordered/unordered_flat_set.hpp>

#include <countwheel/journal.h>
#include <countwheel/task.h>

#include "attributes.h"
#include "group_changes.h"
#include "group_index.h"
#include "node.h"
#include "time_order.h"

namespace countwheel::detail {

inline constexpr std::uint32_t kShardBits = 4;
inline constexpr std::uint32_t kShards = 1U << kShardBits;
inline constexpr std::uint32_t kSlotBits = 32 - kShardBits;
inline constexpr std::uint32_t kMaxSlots = 1U << kSlotBits;

inline constexpr std::uint32_t shard_of(std::uint32_t index) noexcept {
  return index >> kSlotBits;
}
inline constexpr std::uint32_t slot_of(std::uint32_t index) noexcept {
  return index & (kMaxSlots - 1);
}

// The index of Op::letter.
inline std::uint32_t letter_of(const Op& op) noexcept {
  return shard_of(op.id.index()) << kSlotBits | (op.letter - 1);
}

// Nodes at stable addresses, found without a lock.
class NodeSlab {
 public:
  NodeSlab();
  ~NodeSlab();
  NodeSlab(const NodeSlab&) = delete;
  NodeSlab& operator=(const NodeSlab&) = delete;

  // REQUIRES: grow() has made room for the slot. Lock-free.
  Node& at(std::uint32_t slot) const noexcept {
    return blocks_[slot >> kBlockBits].load(std::memory_order_acquire)[slot & (kBlockSlots - 1)];
  }
  // Fetches the node if there is room for it.
  void prefetch(std::uint32_t slot) const noexcept {
    const Node* const block = blocks_[slot >> kBlockBits].load(std::memory_order_relaxed);
    if (block != nullptr) {
      __builtin_prefetch(&block[slot & (kBlockSlots - 1)], 1);
    }
  }
  // Makes room for `slot` and those near it; false when memory is lacking.
  bool grow(std::uint32_t slot) noexcept;
  // Makes room for the first `count` slots and takes their pages now; false when memory is lacking.
  bool reserve(std::uint32_t count) noexcept;

 private:
  static constexpr std::uint32_t kBlockBits = 16;
  static constexpr std::uint32_t kBlockSlots = 1U << kBlockBits;
  static constexpr std::uint32_t kBlocks = kMaxSlots / kBlockSlots;
  // Of a block, whose pages are taken at a time: 64 KiB, 64 parts a block.
  static constexpr std::uint32_t kPartSlots = kBlockSlots / 64;

  bool make_block(std::uint32_t block) noexcept;

  // Acquire loads pair with the release store in make_block().
  std::unique_ptr<std::atomic<Node*>[]> blocks_;
  std::vector<std::uint64_t> taken_;  // of each block, which parts
};

// What counts are kept under the shard lock (SEMANTICS 8, I30).
struct ShardCounts {
  std::uint64_t scheduled = 0;
  std::uint64_t done = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t dead = 0;
  std::uint64_t replaced = 0;
  std::uint64_t running = 0;
  std::uint64_t failed_attempts = 0;
  std::uint64_t crashes = 0;

  std::uint64_t pending() const noexcept { return scheduled - done - cancelled - dead - replaced; }
};

class TaskTable;

struct KeyHash {
  using is_transparent = void;
  const NodeSlab* nodes;
  std::size_t operator()(std::string_view key) const noexcept;
  std::size_t operator()(std::uint32_t slot) const noexcept;
};
struct KeyEqual {
  using is_transparent = void;
  const NodeSlab* nodes;
  bool operator()(std::uint32_t a, std::uint32_t b) const noexcept { return a == b; }
  bool operator()(std::string_view key, std::uint32_t slot) const noexcept;
  bool operator()(std::uint32_t slot, std::string_view key) const noexcept {
    return (*this)(key, slot);
  }
};

struct alignas(64) Shard {
  Shard() : keys(0, KeyHash{&nodes}, KeyEqual{&nodes}) {}
  ~Shard();

  mutable std::mutex mutex;
  NodeSlab nodes;  // at() without the lock, everything else with it

  // Guarded by mutex.
  std::uint32_t used_slots = 0;  // slots ever taken
  std::uint32_t free_head = kNoSlot;
  std::uint32_t free_tail = kNoSlot;
  std::uint32_t retired = 0;
  boost::unordered_flat_set<std::uint32_t, KeyHash, KeyEqual> keys;
  std::unordered_map<std::uint64_t, std::string> errors;  // id -> last error
  // By slot, with kFlagAttributes, which tasks that only have a group carry too. Theirs is in
  // groups.
  std::unordered_map<std::uint32_t, Attributes> attributes;
  GroupIndex groups;
  std::unordered_map<std::uint32_t, Touch> touches;  // by slot, with kFlagTouched
  // index -> index of the task that is blocked until it has ended. It is running or, after a
  // restart, will be delivered again; or it was cancelled before that and is not yet released.
  std::unordered_map<std::uint32_t, std::uint32_t> successors;
  ShardCounts counts;

  static constexpr std::uint32_t kNoSlot = 0xffffffff;
};

// A task of a group lives, or has a new place in its order; or it lives no more.
inline void enter_group(Shard& shard, const Node& node, std::uint32_t index) {
  if (node.has(kFlagAttributes)) {
    shard.groups.enter(slot_of(index));
  }
}
inline void leave_group(Shard& shard, const Node& node, std::uint32_t index) {
  if (node.has(kFlagAttributes)) {
    shard.groups.leave(slot_of(index));
  }
}

class TaskTable {
 public:
  TaskTable();

  Shard& shard(std::uint32_t number) noexcept { return shards_[number]; }
  const Shard& shard(std::uint32_t number) const noexcept { return shards_[number]; }
  Shard& shard_for(TaskId id) noexcept { return shards_[shard_of(id.index())]; }
  const Shard& shard_for(TaskId id) const noexcept { return shards_[shard_of(id.index())]; }
  // Tasks with a key live where their key says, others where the calling thread likes.
  static std::uint32_t shard_of_key(std::string_view key) noexcept;
  static std::uint32_t shard_of_thread() noexcept;

  // The node behind a slot that has been taken once. Lock-free.
  Node& node(std::uint32_t index) const noexcept {
    return shards_[shard_of(index)].nodes.at(slot_of(index));
  }
  void prefetch(std::uint32_t index) const noexcept { __builtin_prefetch(&node(index)); }
  // Of any index, also one that nobody has had yet.
  void prefetch_if_known(std::uint32_t index) const noexcept {
    shards_[shard_of(index)].nodes.prefetch(slot_of(index));
  }

  // Before the first task: room for `count` tasks, spread evenly over the shards. False when memory
  // is lacking.
  bool reserve(std::size_t count);

  // -- Under the lock of the shard --

  // The live or dead node of this id, or null.
  Node* find(Shard& shard, TaskId id) const noexcept;
  // The index of the live task that holds the key.
  std::optional<std::uint32_t> find_key(Shard& shard,
                                        std::uint32_t number,
                                        std::string_view key) const noexcept;

  // A free slot with its next generation, in state kFree. Nothing when the shard is full, memory is
  // lacking, or a log has used up the generations.
  std::optional<TaskId> allocate(std::uint32_t number) noexcept;
  // Gives the slot back. REQUIRES: nobody can reach it by key any more.
  void release(std::uint32_t index) noexcept;
  // The task that waits for this one of the same key to end waits no longer: its index, to be filed
  // in a wheel again, which may have dropped it.
  std::optional<std::uint32_t> unblock_successor(Shard& shard, std::uint32_t index) noexcept;
  // A copy; empty for the many that have none.
  Attributes attributes_of(const Shard& shard, std::uint32_t slot) const;
  // Puts them in the place of what was there and keeps the node's flag. The node's flags may be
  // written: REQUIRES: the word says kMoving, kFree or kRunning.
  void set_attributes(Shard& shard, std::uint32_t slot, Attributes attributes);
  // Copies key and payload into the node, which has none. False when memory is lacking.
  static bool put_data(Node& node, std::string_view key, std::string_view payload) noexcept;
  static void drop_data(Node& node) noexcept;
  static void drop_payload(Node& node) noexcept;

  // -- Restore: one thread, before anything runs --

  // The node at `index`, made room for.
  Node* place(std::uint32_t index) noexcept;
  // Generations continue above it.
  void set_generation_floor(std::uint32_t floor) noexcept { generation_floor_ = floor; }
  // Slots that no task has, each once and in their order.
  static void add_free(Shard& shard, std::uint32_t slot) noexcept { append_free(shard, slot); }

  // A consistent copy of a scheduled node's place in time.
  struct Scheduled {
    Word word;
    std::int64_t deadline_ns = 0;
    std::int64_t wall_ns = 0;
    std::uint64_t lsn = 0;
    std::uint16_t type = 0;
    std::uint8_t flags = 0;
  };
  // Lock-free; nothing when the task is not scheduled, is blocked, or changes meanwhile.
  std::optional<Scheduled> read_scheduled(std::uint32_t index) const noexcept;

  // What its node says, unless a touch or a change of its group says otherwise.
  DueTime due_of(const Shard& shard, std::uint32_t slot) const noexcept;
  // The node is due when a touch has said, and is no more touched. REQUIRES: the word says kMoving,
  // or nobody else can see it.
  static void forget_touch(Shard& shard, std::uint32_t slot) noexcept;
  // Files a touched task at its later deadline; nothing when it is due by `now_ns`, or not
  // scheduled any more.
  std::optional<DueTime> put_off(Shard& shard, std::uint32_t slot, std::int64_t now_ns) noexcept;

  // What its group has in store for a member, under the lock of its shard.
  Fate fate_of(const Shard& shard, std::uint32_t slot) const noexcept;

  TimeOrder dead_letters;
  TimeOrder done_tasks;  // that are kept for their deduplication window
  GroupChanges group_changes;

 private:
  static void append_free(Shard& shard, std::uint32_t slot) noexcept;

  std::array<Shard, kShards> shards_;
  std::uint32_t generation_floor_ = 0;
};

// The locks of all shards, in order: what is seen or done meanwhile is of one moment.
class AllShards {
 public:
  explicit AllShards(const TaskTable& table) {
    for (std::uint32_t i = 0; i < kShards; ++i) {
      locks_[i] = std::unique_lock(table.shard(i).mutex);
    }
  }

 private:
  std::array<std::unique_lock<std::mutex>, kShards> locks_;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_TASK_TABLE_H_
