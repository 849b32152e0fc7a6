// NaiveWheel: the textbook wheel of three levels, 100 ticks, 3600 seconds, 1024 hours. At a border
// it moves the whole slot down. It stands beside ours in tests, to show what is being avoided.
#ifndef COUNTWHEEL_TESTS_TESTING_NAIVE_WHEEL_H_
#define COUNTWHEEL_TESTS_TESTING_NAIVE_WHEEL_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace countwheel::testing {

class NaiveWheel {
 public:
  // REQUIRES: the deadline is after the current tick and within 1023 hours.
  void schedule(std::uint64_t deadline_tick) {
    if (deadline_tick / kHourTicks != now_ / kHourTicks) {
      hours_[deadline_tick / kHourTicks % kHours].push_back(deadline_tick);
    } else if (deadline_tick / kSecondTicks != now_ / kSecondTicks) {
      seconds_[deadline_tick / kSecondTicks % kSeconds].push_back(deadline_tick);
    } else {
      ticks_[deadline_tick % kSecondTicks].push_back(deadline_tick);
    }
  }

  // One tick; returns how many expired.
  std::size_t advance() {
    ++now_;
    std::uint64_t moved = 0;
    if (now_ % kHourTicks == 0) {
      moved += cascade(hours_[now_ / kHourTicks % kHours]);
    }
    if (now_ % kSecondTicks == 0) {
      moved += cascade(seconds_[now_ / kSecondTicks % kSeconds]);
    }
    moved_max_ = std::max(moved_max_, moved);
    std::vector<std::uint64_t>& slot = ticks_[now_ % kSecondTicks];
    const std::size_t count = slot.size();
    slot.clear();
    return count;
  }

  std::uint64_t moved_in_advance_max() const { return moved_max_; }

 private:
  static constexpr std::uint64_t kSecondTicks = 100;
  static constexpr std::uint64_t kSeconds = 3600;
  static constexpr std::uint64_t kHours = 1024;
  static constexpr std::uint64_t kHourTicks = kSecondTicks * kSeconds;
  using Slot = std::vector<std::uint64_t>;

  std::uint64_t cascade(Slot& slot) {
    Slot moving;
    moving.swap(slot);
    for (const std::uint64_t deadline_tick : moving) {
      schedule(deadline_tick);
    }
    return moving.size();
  }

  std::uint64_t now_ = 0;
  std::uint64_t moved_max_ = 0;
  std::array<Slot, kSecondTicks> ticks_;
  std::array<Slot, kSeconds> seconds_;
  std::array<Slot, kHours> hours_;
};

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_NAIVE_WHEEL_H_
