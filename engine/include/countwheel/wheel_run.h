// What is due next, in order: the sorted run of the current slot and the late arrivals beside it.
//
// A slot is sorted once, when it becomes current. What is scheduled into it (or before it) later
// does not disturb the run: it waits in a small heap, and hand-over merges the two.
#ifndef COUNTWHEEL_WHEEL_RUN_H_
#define COUNTWHEEL_WHEEL_RUN_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <countwheel/wheel_chunk.h>

namespace countwheel::detail {

// An array of entries that nobody has to initialise.
class EntryArray {
 public:
  WheelEntry* data() const noexcept { return memory_.as<WheelEntry>(); }
  WheelEntry& operator[](std::size_t i) const noexcept { return data()[i]; }

  // What the array held is gone.
  void make_room(std::size_t count) noexcept {
    if (count > capacity_) {
      capacity_ = std::max(count, 2 * capacity_);
      memory_ = ZeroedBlock(capacity_ * sizeof(WheelEntry), ZeroedBlock::Use::kByAndBy);
    }
  }

 private:
  ZeroedBlock memory_;
  std::size_t capacity_ = 0;
};

// The entries of the open slot, in the order of (offset, sequence), read from the front: one flat
// array, filled from the chunks of the slot. Offsets are sorted digit by digit: three passes of 256
// buckets for a tick of 10 ms, without a branch that could be guessed wrong.
class OpenRun {
 public:
  void reserve(std::size_t count) noexcept {
    entries_.make_room(count);
    spare_.make_room(count);
    ties_.reserve(count);
  }

  bool empty() const noexcept { return head_ == end_; }
  std::size_t size() const noexcept { return end_ - head_; }
  std::span<const WheelEntry> entries() const noexcept { return {entries_.data() + head_, size()}; }
  // REQUIRES: !empty()
  const WheelEntry& front() const noexcept { return entries_[head_]; }
  void consume(std::size_t count) noexcept { head_ += count; }

  // Takes the entries of `list` and gives back its chunks. Those for which keep(entry) is false are
  // dropped; look_ahead(entry) is called for each about a chunk before. REQUIRES: empty()
  template <class LookAhead, class Keep>
  void fill(ChunkPool& pool, const ChunkList& list, LookAhead&& look_ahead, Keep&& keep) noexcept {
    head_ = 0;
    end_ = 0;
    entries_.make_room(list.count);
    std::size_t filled = 0;
    std::size_t checked = 0;
    for (std::uint32_t number = list.head; number != 0;) {
      const std::uint32_t begin = pool.header(number).begin;
      const std::size_t count = pool.end_in(list, number) - begin;
      const std::uint32_t next = pool.next_in(list, number);
      pool.prefetch(next);
      WheelEntry* const copy = entries_.data() + filled;
      std::copy_n(pool.entries(number) + begin, count, copy);
      pool.release(number);
      for (std::size_t i = 0; i < count; ++i) {
        look_ahead(copy[i]);
      }
      check(checked, filled, keep);
      checked = filled;
      filled += count;
      number = next;
    }
    check(checked, filled, keep);
  }

  // `width`: offsets are below 2^width. REQUIRES: nothing was consumed yet.
  void sort_by_offset(unsigned width) noexcept {
    if (end_ <= kInsertionMax) {
      insertion_sort();
      return;
    }
    spare_.make_room(end_);
    std::array<std::array<std::uint32_t, kBuckets>, kDigits> counts = {};
    for (std::size_t i = 0; i < end_; ++i) {
      for (unsigned digit = 0; digit < kDigits; ++digit) {
        ++counts[digit][bucket_of(entries_[i], digit)];
      }
    }
    for (unsigned digit = 0; digit * kDigitBits < width; ++digit) {
      distribute(counts[digit], digit);
    }
  }

  // True if two entries have the same offset. REQUIRES: sorted by offset.
  bool has_ties() const noexcept {
    bool found = false;  // Collected without a branch.
    for (std::size_t i = head_ + 1; i < end_; ++i) {
      found |= entries_[i - 1].offset == entries_[i].offset;
    }
    return found;
  }

  // Puts runs of equal offsets into the order of their sequences and keeps one of two entries of
  // the same node. `sequence_of(index)` is read once an entry: it may change under our hands.
  // Returns how many entries went.
  template <class SequenceOf>
  std::size_t sort_ties(SequenceOf&& sequence_of) noexcept {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < end_;) {
      std::size_t end = i + 1;
      while (end < end_ && entries_[end].offset == entries_[i].offset) {
        ++end;
      }
      if (end - i == 1) {
        entries_[kept++] = entries_[i];
      } else {
        kept = sort_tie(i, end, kept, sequence_of);
      }
      i = end;
    }
    return std::exchange(end_, kept) - kept;
  }

 private:
  struct Tie {
    std::uint64_t sequence;
    std::uint32_t index;
  };

  static constexpr std::size_t kInsertionMax = 40;
  static constexpr unsigned kDigitBits = 8;
  static constexpr unsigned kDigits = 4;
  static constexpr std::size_t kBuckets = std::size_t{1} << kDigitBits;

  static std::size_t bucket_of(WheelEntry entry, unsigned digit) noexcept {
    return (entry.offset >> digit * kDigitBits) % kBuckets;
  }

  template <class Keep>
  void check(std::size_t begin, std::size_t end, Keep&& keep) noexcept {
    WheelEntry* const entries = entries_.data();
    std::size_t kept = end_;
    for (std::size_t i = begin; i < end; ++i) {
      const WheelEntry entry = entries[i];
      entries[kept] = entry;
      kept += keep(entry) ? 1U : 0U;
    }
    end_ = kept;
  }

  void insertion_sort() noexcept {
    for (std::size_t i = 1; i < end_; ++i) {
      const WheelEntry entry = entries_[i];
      std::size_t hole = i;
      for (; hole > 0 && entries_[hole - 1].offset > entry.offset; --hole) {
        entries_[hole] = entries_[hole - 1];
      }
      entries_[hole] = entry;
    }
  }

  // Stable: by one digit of the offset. `counts` says how many entries have which, and then where
  // the next of them goes.
  void distribute(std::array<std::uint32_t, kBuckets>& counts, unsigned digit) noexcept {
    std::uint32_t sum = 0;
    for (std::uint32_t& count : counts) {
      sum += std::exchange(count, sum);
    }
    const WheelEntry* const from = entries_.data();
    WheelEntry* const to = spare_.data();
    for (std::size_t i = 0; i < end_; ++i) {
      to[counts[bucket_of(from[i], digit)]++] = from[i];
    }
    std::swap(entries_, spare_);
  }

  template <class SequenceOf>
  std::size_t sort_tie(std::size_t begin,
                       std::size_t end,
                       std::size_t kept,
                       SequenceOf&& sequence_of) noexcept {
    const std::uint32_t offset = entries_[begin].offset;
    ties_.clear();
    for (std::size_t i = begin; i < end; ++i) {
      ties_.push_back({sequence_of(entries_[i].index), entries_[i].index});
    }
    const auto before = [](const Tie& left, const Tie& right) {
      return left.sequence != right.sequence ? left.sequence < right.sequence
                                             : left.index < right.index;
    };
    if (!std::is_sorted(ties_.begin(), ties_.end(), before)) {
      std::sort(ties_.begin(), ties_.end(), before);
    }
    for (std::size_t i = 0; i < ties_.size(); ++i) {
      if (i == 0 || ties_[i].index != ties_[i - 1].index) {
        entries_[kept++] = {ties_[i].index, offset};
      }
    }
    return kept;
  }

  EntryArray entries_;  // valid from head_ to end_
  EntryArray spare_;
  std::vector<Tie> ties_;
  std::size_t head_ = 0;
  std::size_t end_ = 0;
};

// A timer that came after its slot was opened, or whose deadline had passed already.
struct LateArrival {
  std::int64_t deadline_ns = 0;
  std::uint64_t sequence = 0;
  std::uint32_t index = 0;

  friend bool operator<(const LateArrival& left, const LateArrival& right) noexcept {
    return left.deadline_ns != right.deadline_ns ? left.deadline_ns < right.deadline_ns
                                                 : left.sequence < right.sequence;
  }
};

// Three vectors: arrivals nobody has looked at yet, a min-heap, and a sorted burst. An advance sees
// only what had arrived before it began, so a callback that schedules for now cannot keep it busy
// for ever. A burst (everything overdue after a restart) is sorted once instead of being heaped.
class LateArrivals {
 public:
  void reserve(std::size_t count) noexcept {
    fresh_.reserve(count);
    heap_.reserve(count);
    sorted_.reserve(count);
  }

  std::size_t size() const noexcept {
    return fresh_.size() + heap_.size() + (sorted_.size() - sorted_head_);
  }
  bool has_fresh() const noexcept { return !fresh_.empty(); }

  // Seen from the next advance on.
  void arrive(const LateArrival& arrival) noexcept { fresh_.push_back(arrival); }

  // Seen at once.
  void push(const LateArrival& arrival) noexcept {
    heap_.push_back(arrival);
    std::push_heap(heap_.begin(), heap_.end(), after);
  }

  // Lets hand-over see the fresh arrivals. `alive(arrival)` says what is still worth keeping when
  // the heap has to be thinned; returns how many were dropped.
  template <class Alive>
  std::size_t settle(Alive&& alive) noexcept {
    if (fresh_.size() >= kBurst && sorted_head_ == sorted_.size()) {
      sorted_.swap(fresh_);
      sorted_head_ = 0;
      if (!std::is_sorted(sorted_.begin(), sorted_.end())) {
        std::sort(sorted_.begin(), sorted_.end());
      }
    } else {
      for (const LateArrival& arrival : fresh_) {
        push(arrival);
      }
    }
    fresh_.clear();
    return heap_.size() < thin_at_ ? 0 : thin(alive);
  }

  // The earliest settled one, or nothing.
  const LateArrival* top() const noexcept {
    if (sorted_head_ < sorted_.size() && (heap_.empty() || sorted_[sorted_head_] < heap_.front())) {
      return &sorted_[sorted_head_];
    }
    return heap_.empty() ? nullptr : heap_.data();
  }

  // REQUIRES: top() != nullptr
  void pop() noexcept {
    if (top() != heap_.data()) {
      if (++sorted_head_ == sorted_.size()) {
        sorted_.clear();
        sorted_head_ = 0;
      }
      return;
    }
    std::pop_heap(heap_.begin(), heap_.end(), after);
    heap_.pop_back();
  }

  template <class Visit>
  void for_each(Visit&& visit) const noexcept {
    std::for_each(fresh_.begin(), fresh_.end(), visit);
    std::for_each(heap_.begin(), heap_.end(), visit);
    std::for_each(
        sorted_.begin() + static_cast<std::ptrdiff_t>(sorted_head_), sorted_.end(), visit);
  }

  bool is_ordered() const noexcept {
    return std::is_heap(heap_.begin(), heap_.end(), after) &&
           std::is_sorted(sorted_.begin() + static_cast<std::ptrdiff_t>(sorted_head_),
                          sorted_.end());
  }

 private:
  static constexpr std::size_t kBurst = 512;
  static constexpr std::size_t kThinMin = 4096;

  static bool after(const LateArrival& left, const LateArrival& right) noexcept {
    return right < left;
  }

  // While the clock is set back the heap can wait for hours; without this, cancelled timers would
  // gather in it. Doubling the mark keeps the cost constant per arrival.
  template <class Alive>
  std::size_t thin(Alive&& alive) noexcept {
    const std::size_t before = heap_.size();
    std::erase_if(heap_, [&](const LateArrival& arrival) { return !alive(arrival); });
    std::make_heap(heap_.begin(), heap_.end(), after);
    thin_at_ = std::max(kThinMin, 2 * heap_.size());
    return before - heap_.size();
  }

  std::vector<LateArrival> fresh_;
  std::vector<LateArrival> heap_;
  std::vector<LateArrival> sorted_;
  std::size_t sorted_head_ = 0;
  std::size_t thin_at_ = kThinMin;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_WHEEL_RUN_H_
