// The system's clock, moved: what happens hours from now can be measured now.
#ifndef COUNTWHEEL_BENCH_SHIFTED_CLOCK_H_
#define COUNTWHEEL_BENCH_SHIFTED_CLOCK_H_

#include <atomic>
#include <memory>
#include <utility>

#include <countwheel/clock.h>

namespace countwheel::bench {

// Both faces stand the same distance ahead of the system's. A sleeper that was asleep before a
// shift wakes as planned, unless it is woken. Thread contract: safe for concurrent use.
class ShiftedClock final : public countwheel::Clock {
 public:
  Instant now() const noexcept override {
    const Instant now = SystemClock::instance().now();
    const std::int64_t shift_ns = shift_ns_.load();
    return {now.wall_ns + shift_ns, now.boot_ns + shift_ns};
  }
  Session session() const override { return SystemClock::instance().session(); }
  std::unique_ptr<Sleeper> make_sleeper() override {
    std::unique_ptr<Sleeper> sleeper = SystemClock::instance().make_sleeper();
    return sleeper ? std::make_unique<ShiftedSleeper>(*this, std::move(sleeper)) : nullptr;
  }

  void shift(std::int64_t by_ns) { shift_ns_.fetch_add(by_ns); }

 private:
  class ShiftedSleeper final : public Sleeper {
   public:
    ShiftedSleeper(const ShiftedClock& clock, std::unique_ptr<Sleeper> sleeper)
        : clock_(clock), sleeper_(std::move(sleeper)) {}
    void wait(Instant until) noexcept override {
      sleeper_->wait({system(until.wall_ns), system(until.boot_ns)});
    }
    void wake() noexcept override { sleeper_->wake(); }

   private:
    std::int64_t system(std::int64_t ns) const {
      return ns == kNever ? kNever : ns - clock_.shift_ns_.load();
    }

    const ShiftedClock& clock_;
    std::unique_ptr<Sleeper> sleeper_;
  };

  std::atomic<std::int64_t> shift_ns_{0};
};

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_SHIFTED_CLOCK_H_
