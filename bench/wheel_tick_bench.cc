// What one advance of the wheel costs with a million timers pending: the worst of an hour that
// cascades, one with nothing to do, and a jump over an hour.
#include <span>

#include "row.h"
#include "wheel_fixture.h"

namespace countwheel::bench {
namespace {

constexpr std::size_t kTimers = 1'000'000;

void advance(TimingWheel& wheel, std::int64_t now_ns) {
  wheel.advance(now_ns, [](std::span<const TimingWheel::Expired> batch) {
    benchmark::DoNotOptimize(batch.data());
  });
}

// Every tick of an hour that drains and of the hour that expires, timed by itself. Three passes,
// and of each tick the fastest counts: what is left of preemption would have to hit the same tick
// three times. The first hour is the cascade alone, nothing expires in it.
void ticks(benchmark::State& state) {
  constexpr std::size_t kTickCount = 2 * kHour / kTick;
  Fixture fixture(kTimers, Spread::kOneHour);
  std::vector<double> ticks_ms(kTickCount, 1e9);
  for (int pass = 0; pass < 3; ++pass) {
    fixture.reset();
    fixture.schedule_all();
    advance(fixture.wheel(), kHour);
    for (std::size_t i = 0; i < kTickCount; ++i) {
      const Clock::time_point before = Clock::now();
      advance(fixture.wheel(), kHour + static_cast<std::int64_t>(i + 1) * kTick);
      ticks_ms[i] = std::min(ticks_ms[i], seconds_since(before) * 1e3);
    }
  }
  state.counters["cascade_moved.1m"] =
      static_cast<double>(fixture.wheel().counters().moved_in_advance_max);
  state.counters["drain_worst.1m"] =
      *std::max_element(ticks_ms.begin(), ticks_ms.begin() + kTickCount / 2);
  state.counters["cascade_worst.1m"] = quantile(ticks_ms, 1.0);
  state.counters["advance_p9999.1m"] = quantile(ticks_ms, 0.9999) * 1e3;
}

void idle_tick(benchmark::State& state) {
  constexpr std::size_t kCalls = 20'000'000;
  Fixture fixture(kTimers, Spread::kWeek);
  fixture.reset();
  for (std::size_t i = 0; i < kTimers; ++i) {
    fixture.wheel().schedule(fixture.deadline(i) + kDay, i);
  }
  std::int64_t now_ns = 0;
  const double before = processor_seconds();
  for (std::size_t i = 0; i < kCalls; ++i) {
    now_ns += 1000;
    benchmark::DoNotOptimize(
        fixture.wheel().advance(now_ns, [](std::span<const TimingWheel::Expired>) {}));
  }
  state.counters["value"] = (processor_seconds() - before) * 1e9 / static_cast<double>(kCalls);
}

// One hour at once and the next wake-up asked for, everything pending due days later; the median of
// thirty days of such jumps.
void jump(benchmark::State& state) {
  Fixture fixture(kTimers, Spread::kWeek);
  fixture.reset();
  for (std::size_t i = 0; i < kTimers; ++i) {
    fixture.wheel().schedule(fixture.deadline(i) + 40 * kDay, i);
  }
  std::vector<double> samples;
  for (std::int64_t now_ns = kHour; now_ns < 30 * kDay; now_ns += kHour) {
    const Clock::time_point before = Clock::now();
    advance(fixture.wheel(), now_ns);
    benchmark::DoNotOptimize(fixture.wheel().next_wake());
    samples.push_back(seconds_since(before) * 1e9);
  }
  state.counters["value"] = quantile(samples, 0.5);
}

const Row rows[] = {
    {"wheel.ticks.1m", ticks},
    {"wheel.idle_tick.1m", idle_tick},
    {"wheel.jump_1h", jump},
};

}  // namespace
}  // namespace countwheel::bench
