#include "wheel_noexcept_part.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <countwheel/wheel.h>

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "This file must be compiled with -fno-exceptions -fno-rtti."
#endif

namespace countwheel::testing {

// Nothing a host calls in its loop may throw.
static_assert(noexcept(std::declval<TimingWheel&>().schedule(0, 0)));
static_assert(noexcept(std::declval<TimingWheel&>().cancel({})));
static_assert(noexcept(std::declval<TimingWheel&>().reschedule({}, 0)));
static_assert(noexcept(std::declval<TimingWheel&>().touch({}, 0)));
static_assert(noexcept(std::declval<TimingWheel&>().cancel_batch({})));
static_assert(noexcept(std::declval<TimingWheel&>().reschedule_batch({})));
static_assert(noexcept(std::declval<TimingWheel&>().next_deadline()));
static_assert(noexcept(std::declval<TimingWheel&>().next_wake()));
static_assert(noexcept(std::declval<TimingWheel&>().compact(0)));
static_assert(noexcept(std::declval<TimingWheel&>().reserve(0)));
static_assert(noexcept(std::declval<TimingWheel&>().advance(
    0,
    std::declval<void (*)(std::span<const TimingWheel::Expired>)>())));
static_assert(sizeof(TimingWheel::Handle) == 8);
static_assert(sizeof(detail::WheelNode) <= 32);

NoexceptRun run_without_exceptions(std::size_t timer_count) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  NoexceptRun run;
  TimingWheel wheel({}, 0);
  wheel.reserve(timer_count);
  std::vector<TimingWheel::Handle> handles;
  for (std::size_t i = 0; i < timer_count; ++i) {
    const auto spread = static_cast<std::int64_t>(i * 7'919 % 10'000);
    handles.push_back(wheel.schedule(spread * kSecond, i, kSecond / 100));
    run.scheduled += handles.back() ? 1U : 0U;
  }
  for (std::size_t i = 0; i < timer_count; i += 2) {
    run.cancelled += wheel.cancel(handles[i]) ? 1U : 0U;
  }
  for (std::size_t i = 1; i < timer_count; i += 4) {
    wheel.reschedule(handles[i], 5'000 * kSecond);
  }
  std::int64_t before_ns = 0;
  for (std::int64_t now_ns = 0; wheel.size() > 0; now_ns = wheel.next_wake()) {
    wheel.advance(now_ns, [&](std::span<const TimingWheel::Expired> batch) {
      for (const TimingWheel::Expired& expired : batch) {
        run.ordered =
            run.ordered && before_ns <= expired.deadline_ns && expired.deadline_ns <= now_ns;
        before_ns = expired.deadline_ns;
        ++run.expired;
      }
    });
  }
  return run;
}

}  // namespace countwheel::testing
