// Clocks whose sleepers misbehave as operating systems do: too early, or not at all.
#ifndef COUNTWHEEL_TESTS_TESTING_SHIM_CLOCK_H_
#define COUNTWHEEL_TESTS_TESTING_SHIM_CLOCK_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <countwheel/clock.h>

namespace countwheel::testing {

// Time passes only while the tick thread sleeps, and each sleep ends 0.3 ms before the moment asked
// for. A sleep shorter than that takes 50 us.
class EarlyClock final : public Clock {
 public:
  static constexpr std::int64_t kEarlyNs = 300'000;
  static constexpr std::int64_t kShortestNs = 50'000;

  Instant now() const noexcept override { return manual_.now(); }
  Session session() const override { return manual_.session(); }
  std::unique_ptr<Sleeper> make_sleeper() override { return std::make_unique<Early>(this); }

  // Planned lengths of the sleeps so far.
  std::vector<std::int64_t> planned_ns() const {
    const std::lock_guard lock(mutex_);
    return planned_ns_;
  }

 private:
  class Early final : public Sleeper {
   public:
    explicit Early(EarlyClock* clock) : clock_(clock) {}
    void wait(Instant until) noexcept override {
      const Instant now = clock_->now();
      std::int64_t planned_ns = kNever;
      for (const ClockKind kind : {ClockKind::kWall, ClockKind::kBoot}) {
        if (until.on(kind) != kNever) {
          planned_ns = std::min(planned_ns, until.on(kind) - now.on(kind));
        }
      }
      if (planned_ns == kNever) {
        std::unique_lock lock(clock_->mutex_);
        clock_->woken_cv_.wait(lock, [this] { return clock_->woken_; });
        clock_->woken_ = false;
        return;
      }
      if (planned_ns <= 0) {
        return;
      }
      {
        const std::lock_guard lock(clock_->mutex_);
        clock_->planned_ns_.push_back(planned_ns);
        clock_->woken_ = false;
      }
      clock_->manual_.advance(std::chrono::nanoseconds(
          std::max(planned_ns - kEarlyNs, std::min(planned_ns, kShortestNs))));
    }
    void wake() noexcept override {
      {
        const std::lock_guard lock(clock_->mutex_);
        clock_->woken_ = true;
      }
      clock_->woken_cv_.notify_all();
    }

   private:
    EarlyClock* const clock_;
  };

  ManualClock manual_;
  mutable std::mutex mutex_;
  std::condition_variable woken_cv_;
  bool woken_ = false;                    // guarded by mutex_
  std::vector<std::int64_t> planned_ns_;  // guarded by mutex_
};

// A manual clock whose sleepers can be held: a tick thread that the machine does not schedule.
class StalledClock final : public Clock {
 public:
  Instant now() const noexcept override { return manual.now(); }
  Session session() const override { return manual.session(); }
  std::unique_ptr<Sleeper> make_sleeper() override {
    return std::make_unique<Stalled>(this, manual.make_sleeper());
  }

  // The next sleep does not end before release(), whatever happens.
  void hold() { held_.store(true); }
  bool holding() const { return holding_.load(); }
  void release() {
    {
      const std::lock_guard lock(mutex_);
      held_.store(false);
    }
    released_.notify_all();
  }
  std::uint64_t sleeps() const { return sleeps_.load(); }

  ManualClock manual;

 private:
  class Stalled final : public Sleeper {
   public:
    Stalled(StalledClock* clock, std::unique_ptr<Sleeper> below)
        : clock_(clock), below_(std::move(below)) {}
    void wait(Instant until) noexcept override {
      ++clock_->sleeps_;
      below_->wait(until);
      std::unique_lock lock(clock_->mutex_);
      clock_->holding_.store(clock_->held_.load());
      clock_->released_.wait(lock, [this] { return !clock_->held_.load(); });
      clock_->holding_.store(false);
    }
    void wake() noexcept override { below_->wake(); }

   private:
    StalledClock* const clock_;
    std::unique_ptr<Sleeper> below_;
  };

  std::mutex mutex_;
  std::condition_variable released_;
  std::atomic<bool> held_{false};
  std::atomic<bool> holding_{false};
  std::atomic<std::uint64_t> sleeps_{0};
};

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_SHIM_CLOCK_H_
