// Node: one task in memory. 64 bytes, a cache line, and at the same time the wheel's node.
//
// Who may touch what:
//   word                 anyone; a transition is a CAS, or a store by whoever holds kMoving
//   the other atomics    written under the shard lock while the word says kMoving or kFree, read
//                        by the tick thread and by workers, who read the word before and after
//   the plain fields     under the shard lock, or by the worker whose CAS made the task kRunning
#ifndef COUNTWHEEL_ENGINE_NODE_H_
#define COUNTWHEEL_ENGINE_NODE_H_

#include <atomic>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <countwheel/task.h>

namespace countwheel::detail {

// {generation 32, version 28, state 4}. The version counts reschedules, retries and upserts, so
// that a due entry of an older deadline never starts the task.
struct Word {
  std::uint64_t bits = 0;

  static constexpr std::uint32_t kVersionMask = (1U << 28) - 1;

  static constexpr Word of(std::uint32_t generation, std::uint32_t version, State state) noexcept {
    return {std::uint64_t{generation} << 32 | (version & kVersionMask) << 4 |
            static_cast<std::uint64_t>(state)};
  }
  constexpr std::uint32_t generation() const noexcept {
    return static_cast<std::uint32_t>(bits >> 32);
  }
  constexpr std::uint32_t version() const noexcept {
    return static_cast<std::uint32_t>(bits >> 4) & kVersionMask;
  }
  constexpr State state() const noexcept { return static_cast<State>(bits & 0xf); }
  constexpr Word with(State state) const noexcept { return of(generation(), version(), state); }
  // The next version, in `state`.
  constexpr Word bumped(State state) const noexcept {
    return of(generation(), version() + 1, state);
  }
  friend constexpr bool operator==(Word, Word) noexcept = default;
};

// Bits of Node::flags.
inline constexpr std::uint8_t kFlagBoot = 1;             // the deadline is on the boot clock
inline constexpr std::uint8_t kFlagCancelRequested = 2;  // cancel() came while it ran
inline constexpr std::uint8_t kFlagOverdue = 4;          // was due when scheduled or restored
inline constexpr std::uint8_t kFlagBlocked = 8;   // waits for the running task of its key to end
inline constexpr std::uint8_t kFlagKeyLost = 16;  // its key belongs to its successor
inline constexpr std::uint8_t kFlagTouched = 32;  // has an entry in Shard::touches
inline constexpr std::uint8_t kFlagNeeded = 64;   // its predecessor's failure ended in its favour
inline constexpr std::uint8_t kFlagAttributes = 128;  // has an entry in Shard::attributes
// What a task is to others of its key: not undone with its deadline.
inline constexpr std::uint8_t kFlagsOfSuccession = kFlagBlocked | kFlagKeyLost | kFlagNeeded;

// Until the record has its LSN no wheel entry of this task counts, not even one of an earlier
// tenant of the slot that happens to have the same deadline.
inline constexpr std::uint64_t kNoLsnYet = ~std::uint64_t{0};

struct alignas(64) Node {
  static constexpr std::size_t kInlineBytes = 16;

  std::atomic<std::uint64_t> word;
  std::atomic<std::int64_t> deadline_ns;  // on the clock of kFlagBoot
  std::atomic<std::int64_t> wall_ns;      // the deadline on the wall, as persisted
  std::atomic<std::uint64_t> lsn;         // of the latest (re)schedule; orders equal deadlines
  std::atomic<std::uint32_t> slack_us;
  std::atomic<std::uint16_t> type;
  std::atomic<std::uint8_t> flags;
  std::uint8_t crashes;
  std::uint32_t payload_bytes : 21;
  std::uint32_t key_bytes : 11;
  std::uint16_t failures;
  std::atomic<std::uint16_t> attempts;  // counted by the worker, without the lock
  // Key and payload, one behind the other; on the heap when they do not fit. A free node threads
  // the free list through its deadline.
  union {
    char inline_data[kInlineBytes];
    char* heap_data;
  };

  Word load(std::memory_order order = std::memory_order_acquire) const noexcept {
    return {word.load(order)};
  }
  // acq_rel: pairs with the acquire loads of the tick thread and the workers.
  bool transition(Word from, Word to) noexcept {
    return word.compare_exchange_strong(from.bits, to.bits, std::memory_order_acq_rel);
  }
  void store(Word to) noexcept { word.store(to.bits, std::memory_order_release); }

  bool has(std::uint8_t flag) const noexcept {
    return (flags.load(std::memory_order_relaxed) & flag) != 0;
  }
  ClockKind clock() const noexcept { return has(kFlagBoot) ? ClockKind::kBoot : ClockKind::kWall; }
  std::size_t data_bytes() const noexcept {
    return std::size_t{key_bytes} + std::size_t{payload_bytes};
  }
  bool on_heap() const noexcept { return data_bytes() > kInlineBytes; }
  const char* data() const noexcept { return on_heap() ? heap_data : inline_data; }
  std::string_view key() const noexcept { return {data(), key_bytes}; }
  std::string_view payload() const noexcept { return {data() + key_bytes, payload_bytes}; }
};
static_assert(sizeof(Node) == 64, "one node a cache line");

// A later deadline than the node's, and what the log knows (touch.cc).
struct Touch {
  std::int64_t deadline_ns = 0;  // on the task's clock
  std::int64_t wall_ns = 0;
  std::int64_t logged_ns = 0;  // not before deadline_ns
  std::int64_t logged_wall_ns = 0;
  std::uint64_t lsn = 0;  // of the record that says so
};

// The whole of what reschedule and upsert overwrite, to put it back when the log refuses them.
struct NodeContent {
  std::int64_t deadline_ns = 0;
  std::int64_t wall_ns = 0;
  std::uint64_t lsn = 0;
  std::uint32_t slack_us = 0;
  std::uint16_t type = 0;
  std::uint16_t failures = 0;
  std::uint16_t attempts = 0;
  std::uint8_t flags = 0;
  std::uint8_t crashes = 0;
};

inline NodeContent content_of(const Node& node) noexcept {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {node.deadline_ns.load(kRelaxed),
          node.wall_ns.load(kRelaxed),
          node.lsn.load(kRelaxed),
          node.slack_us.load(kRelaxed),
          node.type.load(kRelaxed),
          node.failures,
          node.attempts.load(kRelaxed),
          node.flags.load(kRelaxed),
          node.crashes};
}

// REQUIRES: the word says kMoving or kFree and the shard is locked.
inline void write_content(Node& node, const NodeContent& content) noexcept {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  // Orders the word that says kMoving before the fields: a reader that saw a new field sees a
  // changed word when it looks again. Partner: the acquire fence in TaskTable::read_scheduled.
  std::atomic_thread_fence(std::memory_order_release);
  node.deadline_ns.store(content.deadline_ns, kRelaxed);
  node.wall_ns.store(content.wall_ns, kRelaxed);
  node.lsn.store(content.lsn, kRelaxed);
  node.slack_us.store(content.slack_us, kRelaxed);
  node.type.store(content.type, kRelaxed);
  node.flags.store(content.flags, kRelaxed);
  node.failures = content.failures;
  node.attempts.store(content.attempts, kRelaxed);
  node.crashes = content.crashes;
}

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_NODE_H_
