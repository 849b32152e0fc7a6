// A word to sleep on. std::atomic::wait() knows no time-out, and a condition variable sends
// everybody it wakes through its mutex, one behind the other.
#ifndef COUNTWHEEL_ENGINE_FUTEX_H_
#define COUNTWHEEL_ENGINE_FUTEX_H_

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace countwheel::detail {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// Returns when the word is no longer `seen`, when woken, after `timeout`, or for no reason.
inline void futex_wait(const std::atomic<std::uint32_t>& word,
                       std::uint32_t seen,
                       std::chrono::nanoseconds timeout) noexcept {
  timespec relative = {};
  relative.tv_sec = static_cast<time_t>(timeout.count() / 1'000'000'000);
  relative.tv_nsec = static_cast<long>(timeout.count() % 1'000'000'000);
  (void)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &relative, nullptr, 0);
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept {
  (void)syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_FUTEX_H_
