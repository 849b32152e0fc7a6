// The system's clock, which notes when it first told the tick thread that a moment has come. A task
// is handed over by the step whose time has reached its deadline, so these notes say to the
// nanosecond what the engine's own histogram says by buckets an eighth wide. (A thread that spins
// looks once more before its step: then they are some hundred nanoseconds too early.)
#ifndef COUNTWHEEL_BENCH_RECORDING_CLOCK_H_
#define COUNTWHEEL_BENCH_RECORDING_CLOCK_H_

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include <countwheel/clock.h>

namespace countwheel::bench {

// Thread contract: safe for concurrent use; watch() once, handed_over() only once the engine has
// stopped. One engine, whose tick thread is the one that sleeps.
class RecordingClock final : public countwheel::Clock {
 public:
  // Moments of the wall clock in rising order.
  void watch(std::vector<std::int64_t> moments_ns) {
    moments_ns_ = std::move(moments_ns);
    handed_over_ns_.assign(moments_ns_.size(), 0);
    armed_.store(true, std::memory_order_release);  // with the load in now()
  }
  // When each of them had come; 0 if it never did.
  const std::vector<std::int64_t>& handed_over() const { return handed_over_ns_; }

  Instant now() const noexcept override {
    const Instant now = SystemClock::instance().now();
    if (is_tick_thread() && armed_.load(std::memory_order_acquire)) {
      while (next_ < moments_ns_.size() && moments_ns_[next_] <= now.wall_ns) {
        handed_over_ns_[next_++] = now.wall_ns;
      }
    }
    return now;
  }
  std::int64_t now_on(ClockKind clock) const noexcept override {
    return SystemClock::instance().now_on(clock);
  }
  Session session() const override { return SystemClock::instance().session(); }
  std::unique_ptr<Sleeper> make_sleeper() override {
    std::unique_ptr<Sleeper> sleeper = SystemClock::instance().make_sleeper();
    return sleeper ? std::make_unique<TickSleeper>(std::move(sleeper)) : nullptr;
  }

 private:
  class TickSleeper final : public Sleeper {
   public:
    explicit TickSleeper(std::unique_ptr<Sleeper> sleeper) : sleeper_(std::move(sleeper)) {}
    void wait(Instant until) noexcept override {
      is_tick_thread() = true;
      sleeper_->wait(until);
    }
    void wake() noexcept override { sleeper_->wake(); }

   private:
    std::unique_ptr<Sleeper> sleeper_;
  };

  static bool& is_tick_thread() {
    thread_local bool is = false;
    return is;
  }

  std::vector<std::int64_t> moments_ns_;
  std::atomic<bool> armed_{false};
  // Of the tick thread.
  mutable std::vector<std::int64_t> handed_over_ns_;
  mutable std::size_t next_ = 0;
};

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_RECORDING_CLOCK_H_
