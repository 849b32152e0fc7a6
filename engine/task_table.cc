#include "task_table.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>
#include <sys/mman.h>
#include <utility>

#include <countwheel/assert.h>

namespace countwheel::detail {
namespace {

constexpr std::uint32_t kLastGeneration = 0xffffffff;

std::size_t hash_key(std::string_view key) noexcept {
  return std::hash<std::string_view>{}(key);
}

}  // namespace

NodeSlab::NodeSlab() : blocks_(std::make_unique<std::atomic<Node*>[]>(kBlocks)) {}

NodeSlab::~NodeSlab() {
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    Node* block = blocks_[i].load(std::memory_order_relaxed);
    if (block != nullptr) {
      munmap(block, kBlockSlots * sizeof(Node));
    }
  }
}

bool NodeSlab::grow(std::uint32_t slot) noexcept {
  const std::uint32_t block = slot >> kBlockBits;
  if (blocks_[block].load(std::memory_order_relaxed) == nullptr && !make_block(block)) {
    return false;
  }
  const std::uint64_t part = std::uint64_t{1} << (slot & (kBlockSlots - 1)) / kPartSlots;
  if ((taken_[block] & part) == 0) {
    taken_[block] |= part;
    // A page that is read before it is written is faulted in twice, and the second time interrupts
    // all cores of the process. A kernel without the call (Linux before 5.14) does just that.
    (void)madvise(
        &at(slot / kPartSlots * kPartSlots), kPartSlots * sizeof(Node), MADV_POPULATE_WRITE);
  }
  return true;
}

bool NodeSlab::make_block(std::uint32_t block) noexcept {
  if (taken_.size() <= block) {
    try {
      taken_.resize(block + 1);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  // Fresh pages are zero, which is a free node of generation 0, and cost nothing until touched.
  void* memory = mmap(nullptr,
                      kBlockSlots * sizeof(Node),
                      PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS,
                      -1,
                      0);
  if (memory == MAP_FAILED) {
    return false;
  }
  blocks_[block].store(static_cast<Node*>(memory), std::memory_order_release);
  return true;
}

bool NodeSlab::reserve(std::uint32_t count) noexcept {
  for (std::uint32_t slot = 0; slot < count; slot += kPartSlots) {
    if (!grow(slot)) {
      return false;
    }
  }
  return true;
}

std::size_t KeyHash::operator()(std::string_view key) const noexcept {
  return hash_key(key);
}
std::size_t KeyHash::operator()(std::uint32_t slot) const noexcept {
  return hash_key(nodes->at(slot).key());
}
bool KeyEqual::operator()(std::string_view key, std::uint32_t slot) const noexcept {
  return nodes->at(slot).key() == key;
}

Shard::~Shard() {
  for (std::uint32_t slot = 0; slot < used_slots; ++slot) {
    TaskTable::drop_data(nodes.at(slot));
  }
}

TaskTable::TaskTable() = default;

bool TaskTable::reserve(std::size_t count) {
  const std::size_t each = std::min<std::size_t>((count + kShards - 1) / kShards, kMaxSlots);
  for (Shard& shard : shards_) {
    if (!shard.nodes.reserve(static_cast<std::uint32_t>(each))) {
      return false;
    }
    shard.keys.reserve(each);
  }
  return true;
}

std::uint32_t TaskTable::shard_of_key(std::string_view key) noexcept {
  // The top bits: the hash set of the shard uses the others.
  return static_cast<std::uint32_t>(hash_key(key) >> (64 - kShardBits));
}

std::uint32_t TaskTable::shard_of_thread() noexcept {
  static std::atomic<std::uint32_t> next{0};
  thread_local const std::uint32_t mine = next.fetch_add(1, std::memory_order_relaxed) % kShards;
  return mine;
}

Node* TaskTable::find(Shard& shard, TaskId id) const noexcept {
  const std::uint32_t slot = slot_of(id.index());
  if (slot >= shard.used_slots) {
    return nullptr;
  }
  Node& node = shard.nodes.at(slot);
  const Word word = node.load();
  return word.generation() == id.generation() && word.state() != State::kFree ? &node : nullptr;
}

std::optional<std::uint32_t> TaskTable::find_key(Shard& shard,
                                                 std::uint32_t number,
                                                 std::string_view key) const noexcept {
  const auto found = shard.keys.find(key);
  if (found == shard.keys.end()) {
    return std::nullopt;
  }
  return number << kSlotBits | *found;
}

std::optional<TaskId> TaskTable::allocate(std::uint32_t number) noexcept {
  Shard& shard = shards_[number];
  if (generation_floor_ == kLastGeneration) {
    return std::nullopt;
  }
  std::uint32_t slot = shard.free_head;
  if (slot != Shard::kNoSlot) {
    Node& node = shard.nodes.at(slot);
    shard.free_head = static_cast<std::uint32_t>(node.deadline_ns.load(std::memory_order_relaxed));
    if (shard.free_head == Shard::kNoSlot) {
      shard.free_tail = Shard::kNoSlot;
    } else {
      // First in, first out: the next one was last touched long ago.
      __builtin_prefetch(&shard.nodes.at(shard.free_head), 1);
    }
  } else {
    if (shard.used_slots == kMaxSlots || !shard.nodes.grow(shard.used_slots)) {
      return std::nullopt;
    }
    slot = shard.used_slots++;
  }
  Node& node = shard.nodes.at(slot);
  const std::uint32_t generation = std::max(node.load().generation(), generation_floor_) + 1;
  node.store(Word::of(generation, 0, State::kFree));
  return TaskId::of(number << kSlotBits | slot, generation);
}

// Behind the others, so that a slot comes up again as late as possible.
void TaskTable::append_free(Shard& shard, std::uint32_t slot) noexcept {
  Node& node = shard.nodes.at(slot);
  if (node.load().generation() == kLastGeneration) {
    ++shard.retired;
    return;
  }
  node.deadline_ns.store(Shard::kNoSlot, std::memory_order_relaxed);
  if (shard.free_tail == Shard::kNoSlot) {
    shard.free_head = slot;
  } else {
    shard.nodes.at(shard.free_tail).deadline_ns.store(slot, std::memory_order_relaxed);
  }
  shard.free_tail = slot;
}

void TaskTable::release(std::uint32_t index) noexcept {
  Shard& shard = shards_[shard_of(index)];
  const std::uint32_t slot = slot_of(index);
  Node& node = shard.nodes.at(slot);
  const Word word = node.load();
  COUNTWHEEL_ASSERT(word.state() != State::kScheduled);
  if (!shard.errors.empty()) {
    shard.errors.erase(TaskId::of(index, word.generation()).value);
  }
  forget_touch(shard, slot);
  if (node.has(kFlagAttributes)) {
    set_attributes(shard, slot, {});
    node.flags.store(0, std::memory_order_relaxed);
  }
  drop_data(node);
  node.store(word.bumped(State::kFree));
  append_free(shard, slot);
}

Attributes TaskTable::attributes_of(const Shard& shard, std::uint32_t slot) const {
  if (!shard.nodes.at(slot).has(kFlagAttributes)) {
    return {};
  }
  Attributes attributes;
  if (const auto found = shard.attributes.find(slot); found != shard.attributes.end()) {
    attributes = found->second;
  }
  attributes.group = shard.groups.of(slot);
  return attributes;
}

void TaskTable::set_attributes(Shard& shard, std::uint32_t slot, Attributes attributes) {
  Node& node = shard.nodes.at(slot);
  const bool any = !attributes.empty();
  shard.groups.set(slot, std::exchange(attributes.group, 0));
  if (!attributes.empty()) {
    shard.attributes[slot] = std::move(attributes);
  } else if (!shard.attributes.empty()) {
    shard.attributes.erase(slot);
  }
  if (any) {
    node.flags.fetch_or(kFlagAttributes);
  } else {
    node.flags.fetch_and(static_cast<std::uint8_t>(~kFlagAttributes));
  }
}

DueTime TaskTable::due_of(const Shard& shard, std::uint32_t slot) const noexcept {
  const Node& node = shard.nodes.at(slot);
  if (node.has(kFlagAttributes)) {
    if (const GroupChangeEntry* const move = fate_of(shard, slot).move; move != nullptr) {
      const ClockKind clock = move->boot ? ClockKind::kBoot : ClockKind::kWall;
      return {clock, move->deadline_ns, move->wall_ns};
    }
  }
  if (node.has(kFlagTouched)) {
    const Touch& touch = shard.touches.find(slot)->second;
    return {node.clock(), touch.deadline_ns, touch.wall_ns};
  }
  return {node.clock(),
          node.deadline_ns.load(std::memory_order_relaxed),
          node.wall_ns.load(std::memory_order_relaxed)};
}

void TaskTable::forget_touch(Shard& shard, std::uint32_t slot) noexcept {
  Node& node = shard.nodes.at(slot);
  if (node.has(kFlagTouched)) {
    shard.touches.erase(slot);
    node.flags.fetch_and(static_cast<std::uint8_t>(~kFlagTouched));
  }
}

std::optional<DueTime> TaskTable::put_off(Shard& shard,
                                          std::uint32_t slot,
                                          std::int64_t now_ns) noexcept {
  Node& node = shard.nodes.at(slot);
  const Word word = node.load();
  if (word.state() != State::kScheduled || !node.has(kFlagTouched)) {
    return std::nullopt;
  }
  const Touch& touch = shard.touches.find(slot)->second;
  const DueTime due = {node.clock(), touch.deadline_ns, touch.wall_ns};
  if (due.deadline_ns <= now_ns || !node.transition(word, word.with(State::kMoving))) {
    return std::nullopt;
  }
  NodeContent content = content_of(node);
  content.deadline_ns = due.deadline_ns;
  content.wall_ns = due.wall_ns;
  write_content(node, content);
  node.store(word.bumped(State::kScheduled));
  return due;
}

Fate TaskTable::fate_of(const Shard& shard, std::uint32_t slot) const noexcept {
  if (group_changes.none()) {
    return {};
  }
  const std::uint64_t group = shard.groups.of(slot);
  return group == 0
             ? Fate()
             : group_changes.fate(group, shard.nodes.at(slot).lsn.load(std::memory_order_relaxed));
}

bool TaskTable::put_data(Node& node, std::string_view key, std::string_view payload) noexcept {
  const std::size_t bytes = key.size() + payload.size();
  char* to = node.inline_data;
  char* heap = nullptr;
  if (bytes > Node::kInlineBytes) {
    heap = static_cast<char*>(std::malloc(bytes));
    if (heap == nullptr) {
      return false;
    }
    to = heap;
  }
  if (!key.empty()) {
    std::memcpy(to, key.data(), key.size());
  }
  if (!payload.empty()) {
    std::memcpy(to + key.size(), payload.data(), payload.size());
  }
  if (heap != nullptr) {
    node.heap_data = heap;
  }
  node.key_bytes = static_cast<std::uint32_t>(key.size()) & 0x7ff;
  node.payload_bytes = static_cast<std::uint32_t>(payload.size()) & 0x1fffff;
  return true;
}

std::optional<std::uint32_t> TaskTable::unblock_successor(Shard& shard,
                                                          std::uint32_t index) noexcept {
  if (shard.successors.empty()) {
    return std::nullopt;
  }
  const auto found = shard.successors.find(index);
  if (found == shard.successors.end()) {
    return std::nullopt;
  }
  const std::uint32_t successor = found->second;
  shard.successors.erase(found);
  node(successor).flags.fetch_and(static_cast<std::uint8_t>(~kFlagBlocked));
  return successor;
}

void TaskTable::drop_data(Node& node) noexcept {
  if (node.on_heap()) {
    std::free(node.heap_data);
  }
  node.key_bytes = 0;
  node.payload_bytes = 0;
}

// The bytes stay where they are until the slot is free, or the key fits the node.
void TaskTable::drop_payload(Node& node) noexcept {
  if (node.on_heap() && node.key_bytes <= Node::kInlineBytes) {
    char* const bytes = node.heap_data;
    std::memcpy(node.inline_data, bytes, node.key_bytes);
    std::free(bytes);
    node.payload_bytes = 0;
  } else if (!node.on_heap()) {
    node.payload_bytes = 0;
  } else if (char* const smaller =
                 static_cast<char*>(std::realloc(node.heap_data, node.key_bytes))) {
    node.heap_data = smaller;
    node.payload_bytes = 0;
  }
}

Node* TaskTable::place(std::uint32_t index) noexcept {
  Shard& shard = shards_[shard_of(index)];
  const std::uint32_t slot = slot_of(index);
  // Blocks between are made too: used_slots counts from the first.
  for (std::uint32_t s = shard.used_slots; s <= slot; s = (s | 0xffff) + 1) {
    if (!shard.nodes.grow(s)) {
      return nullptr;
    }
  }
  if (!shard.nodes.grow(slot)) {
    return nullptr;
  }
  shard.used_slots = std::max(shard.used_slots, slot + 1);
  return &shard.nodes.at(slot);
}

std::optional<TaskTable::Scheduled> TaskTable::read_scheduled(std::uint32_t index) const noexcept {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const Node& node = this->node(index);
  const Word word = node.load();
  if (word.state() != State::kScheduled) {
    return std::nullopt;
  }
  const Scheduled read{word,
                       node.deadline_ns.load(kRelaxed),
                       node.wall_ns.load(kRelaxed),
                       node.lsn.load(kRelaxed),
                       node.type.load(kRelaxed),
                       node.flags.load(kRelaxed)};
  // Partner: the release fence in write_content.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (node.load(kRelaxed) != word || (read.flags & kFlagBlocked) != 0) {
    return std::nullopt;
  }
  return read;
}

}  // namespace countwheel::detail
