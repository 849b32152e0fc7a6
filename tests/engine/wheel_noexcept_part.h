// The part of wheel_noexcept_test that is compiled with -fno-exceptions -fno-rtti.
#ifndef COUNTWHEEL_TESTS_ENGINE_WHEEL_NOEXCEPT_PART_H_
#define COUNTWHEEL_TESTS_ENGINE_WHEEL_NOEXCEPT_PART_H_

#include <cstddef>

namespace countwheel::testing {

struct NoexceptRun {
  std::size_t scheduled = 0;
  std::size_t cancelled = 0;
  std::size_t expired = 0;
  bool ordered = true;
};

// Schedules, cancels, moves and expires `timer_count` timers.
NoexceptRun run_without_exceptions(std::size_t timer_count);

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_ENGINE_WHEEL_NOEXCEPT_PART_H_
