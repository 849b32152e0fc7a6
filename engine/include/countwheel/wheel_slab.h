// The nodes of a TimingWheel: a slab with generations.
//
// A free slot is one bit in a bitmap. Slots are handed out 64 ascending ones at a time, going round
// the whole slab: neighbours in time become neighbours in memory (expiry of a crowded instant then
// streams), and a slot that was just freed comes up again only after all others. With a last-in
// first-out free list one slot would use up its generations in minutes.
#ifndef COUNTWHEEL_WHEEL_SLAB_H_
#define COUNTWHEEL_WHEEL_SLAB_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <countwheel/assert.h>
#include <countwheel/wheel_chunk.h>
#include <countwheel/wheel_core.h>

namespace countwheel::detail {

// What says when a node is due, and since when.
struct WheelOrder {
  std::uint64_t word;  // {sequence 63, moved 1}

  std::uint64_t sequence() const noexcept { return word >> 1; }
  // Moved: the deadline is later than the entry.
  bool is_moved() const noexcept { return (word & 1) != 0; }
};

constexpr WheelOrder wheel_order(std::uint64_t sequence, bool moved) noexcept {
  return {sequence << 1 | (moved ? 1U : 0U)};
}

// One line or half of one: what an operation reads and writes is one miss.
struct alignas(32) WheelNode {
  static constexpr bool kHasValue = true;

  std::int64_t deadline_ns;
  WheelOrder order;
  std::uint64_t value;
  std::uint32_t generation;
  std::uint32_t slack_us;
};
static_assert(sizeof(WheelNode) == 32);

// For timers that are known by their index alone: no value, no slack.
struct [[gnu::packed, gnu::aligned(4)]] WheelIndexNode {
  static constexpr bool kHasValue = false;

  std::int64_t deadline_ns;
  WheelOrder order;
  std::uint32_t generation;
};
static_assert(sizeof(WheelIndexNode) == 20);

// Names one timer for ever. The default names none.
struct WheelHandle {
  std::uint32_t index = 0;
  std::uint32_t generation = 0;

  explicit operator bool() const noexcept { return generation != 0; }
  friend bool operator==(const WheelHandle&, const WheelHandle&) = default;
};

// What the sink of an advance is given.
struct WheelExpired {
  std::uint64_t value;
  std::int64_t deadline_ns;
  WheelHandle handle;
};
struct WheelExpiredIndex {
  std::int64_t deadline_ns;
  WheelHandle handle;
};

template <class Node>
class BasicWheelSlab {
 public:
  static constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();
  // A slot whose next generation would be 0 again is never used again.
  static constexpr std::uint32_t kLastGeneration = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::int64_t kSlackUnitNs = 1000;

  // The Home of a WheelCore.
  static constexpr bool kLazyMoves = true;
  std::int64_t deadline_of(std::uint32_t index) const noexcept { return at(index).deadline_ns; }
  std::uint64_t sequence_of(std::uint32_t index) const noexcept {
    const WheelOrder order = at(index).order;
    return order.sequence();
  }
  std::int64_t slack_of(std::uint32_t index) const noexcept {
    if constexpr (Node::kHasValue) {
      return std::int64_t{at(index).slack_us} * kSlackUnitNs;
    } else {
      return 0;
    }
  }
  std::size_t live_count() const noexcept { return live_; }
  using Due = std::conditional_t<Node::kHasValue, WheelExpired, WheelExpiredIndex>;
  Due take(std::uint32_t index, std::int64_t deadline_ns) noexcept {
    const Node& node = at(index);
    Due due;
    if constexpr (Node::kHasValue) {
      due.value = node.value;
    }
    due.deadline_ns = deadline_ns;
    due.handle = {index, node.generation};
    free(index);
    return due;
  }
  void prefetch(std::uint32_t index) const noexcept { __builtin_prefetch(&at(index), 1); }
  bool is_moved(std::uint32_t index) const noexcept {
    const WheelOrder order = at(index).order;
    return order.is_moved();
  }
  // True if the node was waiting to be filed anew; it does not wait any more.
  bool claim_move(std::uint32_t index) noexcept {
    Node& node = at(index);
    const WheelOrder order = node.order;
    node.order = wheel_order(order.sequence(), false);
    return order.is_moved();
  }

  Node& at(std::uint32_t index) noexcept {
    return nodes_[index / kBlockNodes][index % kBlockNodes];
  }
  const Node& at(std::uint32_t index) const noexcept {
    return nodes_[index / kBlockNodes][index % kBlockNodes];
  }

  // The node of a handle, or nothing if the timer has expired or was cancelled.
  Node* find(std::uint32_t index, std::uint32_t generation) noexcept {
    if (index >= capacity_) {
      return nullptr;
    }
    Node& node = at(index);
    return node.generation == generation && node.deadline_ns != kNotAlive ? &node : nullptr;
  }
  const Node* find(std::uint32_t index, std::uint32_t generation) const noexcept {
    return const_cast<BasicWheelSlab*>(this)->find(index, generation);
  }

  // A free slot, its generation ready to be used; kNoIndex if 2^32 - 1 are taken.
  std::uint32_t allocate() noexcept {
    if (word_bits_ == 0 && !refill()) [[unlikely]] {
      return kNoIndex;
    }
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(word_bits_));
    word_bits_ &= word_bits_ - 1;
    ++live_;
    return static_cast<std::uint32_t>(word_ * 64) + bit;
  }

  // REQUIRES: the slot is in use.
  void free(std::uint32_t index) noexcept {
    Node& node = at(index);
    node.deadline_ns = kNotAlive;
    --live_;
    if (node.generation == kLastGeneration) [[unlikely]] {
      ++retired_;
      return;
    }
    ++node.generation;
    std::uint64_t& bits = free_[index / 64];
    if (bits == 0) {
      some_[index / 4096] |= std::uint64_t{1} << index / 64 % 64;
    }
    bits |= std::uint64_t{1} << index % 64;
  }

  // After this `count` nodes may be alive at once without another allocation.
  void reserve(std::size_t count) noexcept {
    while (capacity_ - retired_ < count && grow(count - (capacity_ - retired_))) {
    }
  }

  std::size_t capacity() const noexcept { return capacity_; }
  std::size_t retired_count() const noexcept { return retired_; }
  std::size_t touched_bytes() const noexcept {
    return capacity_ * sizeof(Node) + (free_.size() + some_.size()) * 8;
  }

 private:
  static constexpr std::uint32_t kBlockNodes = 65'536;
  static constexpr std::size_t kGrowMax = 4096;
  static constexpr std::size_t kCapacityMax = (std::size_t{1} << 32) - kBlockNodes;

  // Takes the next word with a free slot, going round.
  [[gnu::noinline]] bool refill() noexcept {
    if (live_ + retired_ == capacity_ && !grow(kGrowMax)) {
      return false;
    }
    std::size_t group = (word_ + 1) / 64;
    std::uint64_t words = 0;
    if (group < some_.size()) {
      words = some_[group] & (~std::uint64_t{0} << (word_ + 1) % 64);
    }
    while (words == 0) {
      group = group + 1 >= some_.size() ? 0 : group + 1;
      words = some_[group];
    }
    word_ = group * 64 + static_cast<std::size_t>(std::countr_zero(words));
    some_[group] &= ~(std::uint64_t{1} << word_ % 64);
    word_bits_ = free_[word_];
    free_[word_] = 0;
    return true;
  }

  // Adds at least `count` slots, rounded up to 64, within one block.
  bool grow(std::size_t count) noexcept {
    if (capacity_ == kCapacityMax) {
      return false;
    }
    if (capacity_ % kBlockNodes == 0) {
      blocks_.emplace_back(
          std::size_t{kBlockNodes} * sizeof(Node),
          count >= kBlockNodes ? ZeroedBlock::Use::kFilledNow : ZeroedBlock::Use::kByAndBy);
      nodes_.push_back(blocks_.back().as<Node>());
      free_.resize(capacity_ / 64 + kBlockNodes / 64);
      some_.resize(capacity_ / 4096 + kBlockNodes / 4096);
    }
    const std::size_t room = kBlockNodes - capacity_ % kBlockNodes;
    const std::size_t end = capacity_ + std::min(room, (count + 63) / 64 * 64);
    for (; capacity_ < end; ++capacity_) {
      Node& node = at(static_cast<std::uint32_t>(capacity_));
      node.deadline_ns = kNotAlive;
      node.generation = 1;
      free_[capacity_ / 64] |= std::uint64_t{1} << capacity_ % 64;
      some_[capacity_ / 4096] |= std::uint64_t{1} << capacity_ / 64 % 64;
    }
    return true;
  }

  std::vector<ZeroedBlock> blocks_;
  std::vector<Node*> nodes_;            // where each block begins
  std::vector<std::uint64_t> free_;     // one bit a slot
  std::vector<std::uint64_t> some_;     // one bit a word of free_ that is not zero
  std::size_t word_ = ~std::size_t{0};  // the word whose slots are being handed out,
  std::uint64_t word_bits_ = 0;         // and those of them that are left
  std::size_t live_ = 0;
  std::size_t retired_ = 0;
  std::size_t capacity_ = 0;
};

using WheelSlab = BasicWheelSlab<WheelNode>;

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_WHEEL_SLAB_H_
