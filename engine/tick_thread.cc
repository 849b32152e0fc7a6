#include "tick_thread.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <utility>

#include "wake_latency.h"

namespace countwheel::detail {
namespace {

std::int64_t earlier(std::int64_t time_ns, std::int64_t by_ns) noexcept {
  const bool far = time_ns == kNever || time_ns < std::numeric_limits<std::int64_t>::min() + by_ns;
  return far ? time_ns : time_ns - by_ns;
}

std::int64_t left_ns(std::int64_t until_ns, std::int64_t now_ns) noexcept {
  std::int64_t left = 0;
  return __builtin_sub_overflow(until_ns, now_ns, &left) ? kNever : left;
}

// Until the sooner of both faces.
std::int64_t left_ns(const Instant& until, const Instant& now) noexcept {
  return std::min(left_ns(until.wall_ns, now.wall_ns), left_ns(until.boot_ns, now.boot_ns));
}

// Looks at the clock until it is time, or somebody wakes it.
class SpinningSleeper final : public Sleeper {
 public:
  explicit SpinningSleeper(Clock& clock) noexcept : clock_(clock) {}

  void wait(Instant until) noexcept override {
    while (left_ns(until, clock_.now()) > 0) {
      if (woken_.load(std::memory_order_relaxed) && woken_.exchange(false)) {
        return;
      }
    }
  }
  void wake() noexcept override { woken_.store(true); }
  // What woke it has been seen to.
  void forget_wake() noexcept { woken_.store(false); }

 private:
  Clock& clock_;
  std::atomic<bool> woken_{false};
};

// Sleeps until shortly before, then looks at the clock.
class HybridSleeper final : public Sleeper {
 public:
  HybridSleeper(Clock& clock, std::unique_ptr<Sleeper> inner, std::int64_t max_spin_ns) noexcept
      : inner_(std::move(inner)), clock_(clock), spin_(clock), latency_(max_spin_ns) {}

  void wait(Instant until) noexcept override {
    const std::int64_t spin_ns = latency_.ns();
    if (left_ns(until, clock_.now()) > spin_ns) {
      inner_->wait({earlier(until.wall_ns, spin_ns), earlier(until.boot_ns, spin_ns)});
      const std::int64_t left = left_ns(until, clock_.now());
      if (left > spin_ns) {
        spin_.forget_wake();
        return;
      }
      latency_.add(spin_ns - left);
    }
    spin_.wait(until);
  }
  void wake() noexcept override {
    spin_.wake();
    inner_->wake();
  }

 private:
  std::unique_ptr<Sleeper> inner_;
  Clock& clock_;
  SpinningSleeper spin_;
  WakeLatency latency_;
};

std::string refused(const std::string& what, int error) {
  return what + ": " + std::strerror(error) + "; ";
}

}  // namespace

std::unique_ptr<Sleeper> make_tick_sleeper(Clock& clock, const TickThreadOptions& options) {
  if (options.wait == Wait::kSpin) {
    return std::make_unique<SpinningSleeper>(clock);
  }
  std::unique_ptr<Sleeper> sleeper = clock.make_sleeper();
  if (options.wait == Wait::kSleep || sleeper == nullptr) {
    return sleeper;
  }
  return std::make_unique<HybridSleeper>(clock, std::move(sleeper), options.max_spin.count());
}

std::string set_up_tick_thread(pthread_t thread, const TickThreadOptions& options) {
  std::string text;
  if (options.cpu >= 0) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<unsigned>(options.cpu), &cpus);
    if (const int error = pthread_setaffinity_np(thread, sizeof(cpus), &cpus); error != 0) {
      text += refused("cpu " + std::to_string(options.cpu), error);
    }
  }
  if (options.realtime_priority > 0) {
    sched_param parameters = {};
    parameters.sched_priority = options.realtime_priority;
    const int error = pthread_setschedparam(thread, SCHED_FIFO, &parameters);
    if (error != 0) {
      text += refused("SCHED_FIFO " + std::to_string(options.realtime_priority), error);
    }
  }
  // On fault: reserved memory that is never used is not taken.
  if (options.lock_memory && mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
    text += refused("mlockall", errno);
  }
  return text.substr(0, text.size() - std::min<std::size_t>(text.size(), 2));
}

}  // namespace countwheel::detail
