// What is due next, in order: the sorted run of the current slot and the late arrivals beside it.
//
// A slot is sorted once, when it becomes current. What is scheduled into it (or before it) later
// does not disturb the run: it waits in a small heap, and hand-over merges the two.
#ifndef COUNTWHEEL_WHEEL_RUN_H_
#define COUNTWHEEL_WHEEL_RUN_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <countwheel/wheel_chunk.h>

namespace countwheel::detail {

// Sorts the entries of one slot by (offset, sequence). Deadlines of a slot are mostly scattered, so
// one pass puts them into as many buckets as there are entries, and what is left is a step or two
// for each. If they crowd together after all, a radix sort does not care. std::sort takes 30 ns an
// entry at a thousand a slot, the radix sort 3, the buckets half of that.
class EntrySorter {
 public:
  void reserve(std::size_t count) noexcept {
    entries_.reserve(count);
    spare_.reserve(count);
    ties_.reserve(count);
    position_.resize(std::size_t{1} << kBucketBitsMax);
  }

  std::vector<WheelEntry>& entries() noexcept { return entries_; }

  void sort_by_offset() noexcept {
    if (entries_.size() <= kInsertionMax) {
      insertion_sort();
      return;
    }
    std::uint32_t highest = 0;
    for (const WheelEntry& entry : entries_) {
      highest |= entry.offset;
    }
    spare_.resize(entries_.size());
    const auto width = static_cast<unsigned>(std::bit_width(highest));
    const auto bits = static_cast<unsigned>(std::bit_width(entries_.size()));
    if (bits <= kBucketBitsMax && distribute(width > bits ? width - bits : 0, bits, kCrowd)) {
      insertion_sort();
      return;
    }
    for (unsigned shift = 0; shift < width; shift += kDigitBits) {
      distribute(shift, kDigitBits, entries_.size());
    }
  }

  // True if two entries have the same offset. REQUIRES: sorted by offset.
  bool has_ties() const noexcept {
    return std::adjacent_find(entries_.begin(),
                              entries_.end(),
                              [](const WheelEntry& left, const WheelEntry& right) {
                                return left.offset == right.offset;
                              }) != entries_.end();
  }

  // Puts runs of equal offsets into the order of their sequences and keeps one of two entries of
  // the same node. `sequence_of(index)` is read once an entry: it may change under our hands.
  template <class SequenceOf>
  void sort_ties(SequenceOf&& sequence_of) noexcept {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < entries_.size();) {
      std::size_t end = i + 1;
      while (end < entries_.size() && entries_[end].offset == entries_[i].offset) {
        ++end;
      }
      if (end - i == 1) {
        entries_[kept++] = entries_[i];
      } else {
        kept = sort_tie(i, end, kept, sequence_of);
      }
      i = end;
    }
    entries_.resize(kept);
  }

 private:
  struct Tie {
    std::uint64_t sequence;
    std::uint32_t index;
  };

  static constexpr std::size_t kInsertionMax = 24;
  static constexpr unsigned kBucketBitsMax = 13;
  static constexpr unsigned kDigitBits = 8;
  // More than this many in one bucket, and insertion would start to cost.
  static constexpr std::size_t kCrowd = 16;

  void insertion_sort() noexcept {
    for (std::size_t i = 1; i < entries_.size(); ++i) {
      const WheelEntry entry = entries_[i];
      std::size_t hole = i;
      for (; hole > 0 && entries_[hole - 1].offset > entry.offset; --hole) {
        entries_[hole] = entries_[hole - 1];
      }
      entries_[hole] = entry;
    }
  }

  // Stable: by the `bits` of the offset from `shift` on. False, and nothing moved, if more than
  // `crowd` entries have the same.
  bool distribute(unsigned shift, unsigned bits, std::size_t crowd) noexcept {
    const std::size_t buckets = std::size_t{1} << bits;
    const std::size_t mask = buckets - 1;
    if (position_.size() < buckets) {
      position_.resize(std::size_t{1} << kBucketBitsMax);
    }
    std::fill_n(position_.begin(), buckets, 0U);
    for (const WheelEntry& entry : entries_) {
      ++position_[(entry.offset >> shift) & mask];
    }
    std::uint32_t sum = 0;
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < buckets; ++i) {
      most = std::max(most, position_[i]);
      sum += std::exchange(position_[i], sum);
    }
    if (most > crowd) {
      return false;
    }
    for (const WheelEntry& entry : entries_) {
      spare_[position_[(entry.offset >> shift) & mask]++] = entry;
    }
    entries_.swap(spare_);
    return true;
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

  std::vector<WheelEntry> entries_;
  std::vector<WheelEntry> spare_;
  std::vector<Tie> ties_;
  std::vector<std::uint32_t> position_;
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
