// The system's clock, which remembers what it told the tick thread. A task is handed over by the
// first step whose time has reached its deadline, so these moments say to the nanosecond what the
// engine's own histogram says by buckets an eighth wide.
#ifndef COUNTWHEEL_BENCH_RECORDING_CLOCK_H_
#define COUNTWHEEL_BENCH_RECORDING_CLOCK_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <countwheel/clock.h>

namespace countwheel::bench {

// Thread contract: safe for concurrent use; wall_times() only once the engine has stopped. One
// engine, whose tick thread is the one that sleeps.
class RecordingClock final : public countwheel::Clock {
 public:
  explicit RecordingClock(std::size_t expected_steps) { wall_times_.reserve(expected_steps); }

  Instant now() const noexcept override {
    const Instant now = SystemClock::instance().now();
    if (is_tick_thread()) {
      wall_times_.push_back(now.wall_ns);
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

  // The first step at or after a moment of the wall clock; 0 when there was none.
  std::int64_t first_step_from(std::int64_t wall_ns) const {
    const auto step = std::lower_bound(wall_times_.begin(), wall_times_.end(), wall_ns);
    return step == wall_times_.end() ? 0 : *step;
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

  mutable std::vector<std::int64_t> wall_times_;
};

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_RECORDING_CLOCK_H_
