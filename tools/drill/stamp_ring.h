// StampRing: where witnesses write and the parent reads, in shared memory.
//
// Any number of threads and processes write; each claims a place with one atomic add and publishes
// it with one store. It has a place for every stamp that a drill of its size can make, so it never
// wraps, never blocks and never loses. A pipe would cost a system call a stamp, block at 64 KiB and
// lose what a killed writer had not yet flushed.
#ifndef COUNTWHEEL_TOOLS_DRILL_STAMP_RING_H_
#define COUNTWHEEL_TOOLS_DRILL_STAMP_RING_H_

#include <atomic>
#include <cstdint>

#include "stamp.h"

namespace countwheel::drill {

// Thread contract: safe for concurrent use, from several processes too. Borrows its memory.
class StampRing {
 public:
  // `claimed` starts at 0 and `stamps` zeroed; both must outlive the ring.
  StampRing(std::atomic<std::uint64_t>* claimed, Stamp* stamps, std::uint64_t capacity) noexcept
      : claimed_(claimed), stamps_(stamps), capacity_(capacity) {}

  // Reads both clocks and writes the stamp down.
  void push(StampKind kind,
            std::uint32_t order,
            std::uint16_t life,
            std::uint8_t code = 0,
            std::uint64_t detail = 0) noexcept;

  // Writes down a moment that was read before.
  void push(const Stamp& stamp) noexcept;

  // Places claimed so far, at most capacity(); overflowed() when there were more.
  std::uint64_t size() const noexcept;
  bool overflowed() const noexcept;
  std::uint64_t capacity() const noexcept { return capacity_; }

  // False while the place is claimed and not written. REQUIRES: i < size().
  bool read(std::uint64_t i, Stamp* stamp) const noexcept;

 private:
  std::atomic<std::uint64_t>* claimed_;
  Stamp* stamps_;
  std::uint64_t capacity_;
};

// The two clocks, now, in a stamp without anything else.
Stamp stamp_now() noexcept;

// Stamps that a drill makes at most: seven an order in the first life of the service, five more in
// every later one, where the order may be sent, cancelled and started again.
std::uint64_t stamp_capacity(std::uint64_t order_count, std::uint64_t kill_count) noexcept;

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_STAMP_RING_H_
