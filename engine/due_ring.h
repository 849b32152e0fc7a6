// DueRing: due tasks on their way from the tick thread to the workers.
//
// One producer, many consumers, bounded, no lock. A worker copies a claim out and then moves the
// head with one CAS: had the producer overwritten a copied cell, the head would have moved and the
// CAS failed. A claim is never larger than what was published (PIPELINE T3), and small while there
// are few, so that one slow handler holds back only its own claim.
#ifndef COUNTWHEEL_ENGINE_DUE_RING_H_
#define COUNTWHEEL_ENGINE_DUE_RING_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <countwheel/task.h>

#include "node.h"

namespace countwheel::detail {

// A value: nobody holds a pointer to a node. Starts its task only if the task's word is still
// `word`, which names generation and version.
struct DueEntry {
  std::uint32_t index = 0;
  ClockKind clock = ClockKind::kWall;
  Word word;                     // with State::kScheduled
  std::int64_t deadline_ns = 0;  // on its clock
  std::uint64_t sequence = 0;    // of hand-over
};

class DueRing {
 public:
  static constexpr std::size_t kCapacity = 8192;
  static constexpr std::size_t kClaimMax = 64;

  // 256 KiB, which a type that no handler knows does without. Before the first stage().
  void open() { cells_ = std::make_unique<std::array<Cell, kCapacity>>(); }

  // -- The tick thread --

  // False when the ring is full. Not seen by workers before publish().
  bool stage(const DueEntry& entry) noexcept {
    // acquire: partner of the CAS in claim(); the cells before the head have been copied.
    if (staged_ - head_.load(std::memory_order_acquire) == kCapacity) {
      return false;
    }
    Cell& cell = (*cells_)[staged_ % kCapacity];
    constexpr auto kRelaxed = std::memory_order_relaxed;
    cell[0].store(std::uint64_t{entry.index} << 1 | (entry.clock == ClockKind::kBoot ? 1 : 0),
                  kRelaxed);
    cell[1].store(entry.word.bits, kRelaxed);
    cell[2].store(static_cast<std::uint64_t>(entry.deadline_ns), kRelaxed);
    cell[3].store(entry.sequence, kRelaxed);
    ++staged_;
    return true;
  }
  // seq_cst: partner of the look of a worker that is about to leave (Dispatcher::drain).
  void publish() noexcept { tail_.store(staged_); }

  // -- Any thread --

  std::size_t size() const noexcept {
    const std::uint64_t head = head_.load();
    const std::uint64_t tail = tail_.load();
    return tail > head ? tail - head : 0;
  }

  // Copies up to `max` entries out; one of `shares` of what there is, and at least one entry.
  std::size_t claim(std::size_t max, std::size_t shares, DueEntry* out) noexcept {
    std::uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t tail = tail_.load();
      if (tail <= head) {
        return 0;
      }
      const std::size_t share = std::max<std::size_t>(1, (tail - head) / shares);
      const std::size_t count = std::min({max, share, static_cast<std::size_t>(tail - head)});
      for (std::size_t i = 0; i < count; ++i) {
        out[i] = read((*cells_)[(head + i) % kCapacity]);
      }
      // release: the copies are done before the producer sees the head. On failure `head` is new.
      if (head_.compare_exchange_weak(
              head, head + count, std::memory_order_acq_rel, std::memory_order_acquire)) {
        return count;
      }
    }
  }

  // Lateness of the oldest entry, for stats; 0 when empty. A racy look.
  std::int64_t oldest_deadline(ClockKind* clock) const noexcept {
    const std::uint64_t head = head_.load();
    if (tail_.load() <= head) {
      return 0;
    }
    const DueEntry entry = read((*cells_)[head % kCapacity]);
    *clock = entry.clock;
    return entry.deadline_ns;
  }

 private:
  using Cell = std::array<std::atomic<std::uint64_t>, 4>;

  static DueEntry read(const Cell& cell) noexcept {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    const std::uint64_t place = cell[0].load(kRelaxed);
    return {static_cast<std::uint32_t>(place >> 1),
            (place & 1) != 0 ? ClockKind::kBoot : ClockKind::kWall,
            {cell[1].load(kRelaxed)},
            static_cast<std::int64_t>(cell[2].load(kRelaxed)),
            cell[3].load(kRelaxed)};
  }

  std::unique_ptr<std::array<Cell, kCapacity>> cells_;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::uint64_t staged_ = 0;  // the tick thread's
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_DUE_RING_H_
