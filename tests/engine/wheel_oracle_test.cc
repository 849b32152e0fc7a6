// The wheel against a sorted multimap: a million random calls, and every expiry must be the one the
// multimap names, at the time it names. Deadlines gather where wheels break: at now, around a tick,
// a second, an hour and the top of the ring, give or take a nanosecond. The seed is printed;
// COUNTWHEEL_SEED repeats a run.
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/wheel.h>

#include "wheel_testing.h"

namespace countwheel::testing {
namespace {

class Oracle {
 public:
  Oracle(const WheelOptions& options, std::int64_t start_ns, std::uint64_t seed)
      : options_(options), wheel_(options, start_ns), random_(seed), now_ns_(start_ns) {
    tick_ns_ = options.tick_ns;
    second_ns_ = tick_ns_ * options.span[0];
    hour_ns_ = second_ns_ * options.span[1];
    top_ns_ = hour_ns_ * options.ring[2];
  }

  // Clock steps like those of a host; without them, like those of B07: within two hours.
  void let_clock_jump(bool allowed) { jumps_ = allowed; }

  void step() {
    const std::uint64_t choice = below(100);
    if (choice < 40) {
      schedule();
    } else if (choice < 57) {
      cancel();
    } else if (choice < 75) {
      reschedule();
    } else {
      advance();
    }
    ASSERT_EQ(wheel_.size(), pending_.size());
  }

  void check() { ASSERT_TRUE(is_intact(wheel_)); }
  bool is_broken() const { return broken_ || ::testing::Test::HasFatalFailure(); }
  std::uint64_t expired_count() const { return expired_; }
  TimingWheel& wheel() { return wheel_; }

 private:
  struct Timer {
    TimingWheel::Handle handle;
    std::int64_t deadline_ns = 0;
    std::uint64_t sequence = 0;
    std::int64_t slack_ns = 0;
    bool pending = true;
  };
  using Order = std::pair<std::int64_t, std::uint64_t>;  // (deadline, sequence)

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  std::int64_t up_to(std::int64_t bound) {
    return static_cast<std::int64_t>(below(static_cast<std::uint64_t>(bound) + 1));
  }

  std::int64_t delay() {
    const std::int64_t near = up_to(2) - 1;
    switch (below(9)) {
      case 0:
        return near;
      case 1:
        return up_to(2 * tick_ns_);
      case 2:
        return second_ns_ + near;
      case 3:
        return hour_ns_ + near;
      case 4:
        return top_ns_ + near;
      case 5:
        return up_to(3 * second_ns_) / tick_ns_ * tick_ns_ + near;
      case 6:
        return up_to(3 * hour_ns_) / second_ns_ * second_ns_ + near;
      case 7:
        return up_to(2 * top_ns_) / hour_ns_ * hour_ns_ + near;
      default:
        return -up_to(second_ns_);
    }
  }

  void schedule() {
    Timer timer;
    timer.deadline_ns = now_ns_ + delay();
    timer.slack_ns = below(3) == 0 ? up_to(second_ns_) / 1000 * 1000 : 0;
    timer.sequence = ++sequence_;
    timer.handle = wheel_.schedule(timer.deadline_ns, timers_.size(), timer.slack_ns);
    pending_[{timer.deadline_ns, timer.sequence}] = timers_.size();
    picks_.push_back(timers_.size());
    timers_.push_back(timer);
  }

  // A timer at random, expired ones among them: their handles must stay dead.
  Timer* pick(bool remove) {
    if (picks_.empty()) {
      return nullptr;
    }
    const std::size_t place = below(picks_.size());
    Timer& timer = timers_[picks_[place]];
    if (remove) {
      picks_[place] = picks_.back();
      picks_.pop_back();
    }
    return &timer;
  }

  void cancel() {
    if (Timer* const timer = pick(true)) {
      ASSERT_EQ(wheel_.cancel(timer->handle), timer->pending);
      if (std::exchange(timer->pending, false)) {
        pending_.erase({timer->deadline_ns, timer->sequence});
      }
      ASSERT_FALSE(wheel_.cancel(timer->handle));
    }
  }

  void reschedule() {
    Timer* const timer = pick(false);
    if (timer == nullptr) {
      return;
    }
    const std::int64_t deadline_ns = below(6) == 0 ? timer->deadline_ns : now_ns_ + delay();
    ASSERT_EQ(wheel_.reschedule(timer->handle, deadline_ns), timer->pending);
    if (timer->pending) {
      auto node = pending_.extract({timer->deadline_ns, timer->sequence});
      timer->deadline_ns = deadline_ns;
      timer->sequence = ++sequence_;
      node.key() = {deadline_ns, timer->sequence};
      pending_.insert(std::move(node));
    }
  }

  std::int64_t clock_step() {
    switch (below(8)) {
      case 0:
        return 0;
      case 1:
        return up_to(tick_ns_);
      case 2:
        return tick_ns_;
      case 3:
        return up_to(second_ns_);
      case 4:
        return below(40) == 0 ? up_to(hour_ns_) : up_to(tick_ns_);
      case 5:
        return jumps_ && below(100) == 0 ? up_to(top_ns_) : 1;
      case 6:
        return jumps_ && below(4) == 0 ? -up_to(second_ns_) : tick_ns_;
      default:
        return std::clamp<std::int64_t>(wheel_.next_wake() - now_ns_, 0, hour_ns_);
    }
  }

  std::int64_t floor_tick(std::int64_t moment_ns) const {
    const std::int64_t rest = moment_ns % tick_ns_;
    return moment_ns - (rest < 0 ? rest + tick_ns_ : rest);
  }

  void advance() {
    check_next();
    now_ns_ += clock_step();
    const std::int64_t due_ns =
        options_.precision == Precision::kTick ? floor_tick(now_ns_) : now_ns_;
    const std::size_t limit = below(3) == 0 ? below(20) : TimingWheel::kNoLimit;
    AdvanceResult result = advance_once(due_ns, limit);
    ASSERT_LE(result.handed_over, limit);
    while (result.more_due && !broken_) {
      result = advance_once(due_ns, 1 + below(1000));
    }
    if (!pending_.empty()) {
      ASSERT_GT(pending_.begin()->first.first, due_ns) << "due, and not handed over";
    }
  }

  AdvanceResult advance_once(std::int64_t due_ns, std::size_t limit) {
    return wheel_.advance(
        now_ns_,
        [&](std::span<const TimingWheel::Expired> batch) {
          for (const TimingWheel::Expired& expired : batch) {
            expect(expired, due_ns);
          }
        },
        limit);
  }

  void expect(const TimingWheel::Expired& expired, std::int64_t due_ns) {
    if (broken_) {
      return;
    }
    const auto next = pending_.begin();
    broken_ = next == pending_.end() || next->second != expired.value ||
              next->first.first != expired.deadline_ns || expired.deadline_ns > due_ns;
    ASSERT_FALSE(broken_) << "expired " << expired.value << " at " << now_ns_ << ", expected "
                          << (next == pending_.end() ? 0 : next->second);
    timers_[next->second].pending = false;
    pending_.erase(next);
    ++expired_;
  }

  // Never later than the truth; how much earlier is another test's business.
  void check_next() {
    if (below(8) != 0) {
      return;
    }
    std::int64_t earliest = kNothingPending;
    std::int64_t latest = kNothingPending;
    for (const auto& [order, index] : pending_) {
      if (order.first >= latest) {
        break;
      }
      earliest = std::min(earliest, order.first);
      latest = std::min(latest, order.first + timers_[index].slack_ns);
    }
    ASSERT_LE(wheel_.next_deadline(), earliest);
    if (options_.precision == Precision::kTick && latest != kNothingPending) {
      latest = floor_tick(latest + tick_ns_ - 1);
    }
    ASSERT_LE(wheel_.next_wake(), latest);
  }

  WheelOptions options_;
  TimingWheel wheel_;
  std::mt19937_64 random_;
  std::int64_t now_ns_;
  std::int64_t tick_ns_ = 0;
  std::int64_t second_ns_ = 0;
  std::int64_t hour_ns_ = 0;
  std::int64_t top_ns_ = 0;
  bool jumps_ = false;

  std::vector<Timer> timers_;
  std::vector<std::size_t> picks_;
  std::map<Order, std::uint64_t> pending_;
  std::uint64_t sequence_ = 0;
  std::uint64_t expired_ = 0;
  bool broken_ = false;
};

void run(Oracle& oracle, std::uint64_t step_count, std::uint64_t check_every) {
  for (std::uint64_t i = 0; i < step_count; ++i) {
    oracle.step();
    if (i % check_every == 0) {
      oracle.check();
    }
    ASSERT_FALSE(oracle.is_broken()) << "after " << i << " steps";
  }
  oracle.check();
  EXPECT_GT(oracle.expired_count(), step_count / 20);
}

TEST(WheelCases, B07_AgainstASortedMultimap) {
  Oracle oracle(tick_precision(), 0, wheel_seed(7));
  run(oracle, 1'000'000, 20'011);
}

TEST(WheelOracle, ExactPrecision) {
  Oracle oracle({}, 1'790'000'000 * kSecond + 123'456'789, wheel_seed(8));
  oracle.let_clock_jump(true);
  run(oracle, 200'000, 5'003);
}

TEST(WheelOracle, TickPrecisionWithJumpsAndStepsBack) {
  Oracle oracle(tick_precision(), -3 * kDay - 5, wheel_seed(9));
  oracle.let_clock_jump(true);
  run(oracle, 100'000, 5'003);
}

// A wheel of a few slots goes round all the time, and handles are reused at once.
TEST(WheelOracle, TinyWheels) {
  WheelOptions options;
  options.tick_ns = 1;
  options.span = {4, 5};
  options.ring = {8, 16, 4};
  options.moves_per_tick_max = 2;
  const std::uint64_t seed = wheel_seed(10);
  for (std::uint64_t i = 0; i < 40; ++i) {
    options.precision = i % 2 == 0 ? Precision::kExact : Precision::kTick;
    Oracle oracle(options, static_cast<std::int64_t>(i * 977), seed + i);
    oracle.let_clock_jump(i % 3 == 0);
    run(oracle, 4'000, 13);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "wheel " << i;
  }
}

}  // namespace
}  // namespace countwheel::testing
