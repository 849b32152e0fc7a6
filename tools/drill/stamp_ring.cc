#include "stamp_ring.h"

#include <algorithm>
#include <ctime>

#include <countwheel/assert.h>

namespace countwheel::drill {

namespace {

std::int64_t read_clock(clockid_t clock) noexcept {
  timespec time = {};
  clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

Stamp stamp_now() noexcept {
  return {.boot_ns = read_clock(CLOCK_BOOTTIME), .wall_ns = read_clock(CLOCK_REALTIME)};
}

void StampRing::push(StampKind kind,
                     std::uint32_t order,
                     std::uint16_t life,
                     std::uint8_t code,
                     std::uint64_t detail) noexcept {
  Stamp stamp = stamp_now();
  stamp.kind = kind;
  stamp.order = order;
  stamp.life = life;
  stamp.code = code;
  stamp.detail = detail;
  push(stamp);
}

void StampRing::push(const Stamp& stamp) noexcept {
  COUNTWHEEL_ASSERT(stamp.kind != StampKind::kNone);
  // Only the number matters here; the stamp itself is published by the store to its kind.
  const std::uint64_t place = claimed_->fetch_add(1, std::memory_order_relaxed);
  if (place >= capacity_) {
    return;
  }
  Stamp& target = stamps_[place];
  target.boot_ns = stamp.boot_ns;
  target.wall_ns = stamp.wall_ns;
  target.detail = stamp.detail;
  target.order = stamp.order;
  target.code = stamp.code;
  target.life = stamp.life;
  // Release: partner of the acquire in read().
  std::atomic_ref<StampKind>(target.kind).store(stamp.kind, std::memory_order_release);
}

std::uint64_t StampRing::size() const noexcept {
  return std::min(claimed_->load(std::memory_order_relaxed), capacity_);
}

bool StampRing::overflowed() const noexcept {
  return claimed_->load(std::memory_order_relaxed) > capacity_;
}

bool StampRing::read(std::uint64_t i, Stamp* stamp) const noexcept {
  COUNTWHEEL_ASSERT(i < size());
  // Acquire: partner of the release in push().
  const StampKind kind =
      std::atomic_ref<StampKind>(stamps_[i].kind).load(std::memory_order_acquire);
  if (kind == StampKind::kNone) {
    return false;
  }
  *stamp = stamps_[i];
  return true;
}

std::uint64_t stamp_capacity(std::uint64_t order_count, std::uint64_t kill_count) noexcept {
  return order_count * (7 + 5 * kill_count) + 2 * kill_count + 64;
}

}  // namespace countwheel::drill
