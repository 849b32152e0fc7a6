// What each operation of the wheel costs, in nanoseconds per timer.
//
//   wheel_bench                                   ten thousand and a million timers
//   COUNTWHEEL_BENCH_TIMERS=10000000 wheel_bench  that many instead of the million
//
// Every pass works on N timers at once and is timed as a whole; `ns` is the best pass divided by N.
// Cancels and moves come in random order, so that each meets a cold node; expiry reads the value of
// each timer. Allocation of the node and the handle are part of schedule.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <time.h>
#include <vector>

#include <benchmark/benchmark.h>

#include <countwheel/wheel.h>

namespace {

using countwheel::TimingWheel;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kSecond = 1'000 * kMs;
constexpr std::int64_t kHour = 3'600 * kSecond;
constexpr std::int64_t kDay = 24 * kHour;
constexpr std::int64_t kTick = 10 * kMs;

enum class Spread {
  kWeek,      // uniform from 5 s to 7 days
  kOrderMix,  // log-uniform from 10 ms to 1 h, as orders are
  kTenSeconds,
  kOneInstant,
  kOneHour,  // uniform in the hour that begins in two hours
};

std::vector<std::int64_t> deadlines_of(Spread spread, std::size_t count) {
  std::mt19937_64 random(42);
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  std::vector<std::int64_t> deadlines(count);
  for (std::int64_t& deadline_ns : deadlines) {
    const double share = unit(random);
    switch (spread) {
      case Spread::kWeek:
        deadline_ns = 5 * kSecond + static_cast<std::int64_t>(share * 7 * kDay);
        break;
      case Spread::kOrderMix:
        deadline_ns = static_cast<std::int64_t>(10e6 * std::pow(360'000.0, share));
        break;
      case Spread::kTenSeconds:
        deadline_ns = static_cast<std::int64_t>(share * 10 * kSecond);
        break;
      case Spread::kOneInstant:
        deadline_ns = 10 * kSecond;
        break;
      case Spread::kOneHour:
        deadline_ns = 2 * kHour + static_cast<std::int64_t>(share * kHour);
        break;
    }
  }
  return deadlines;
}

// A wheel with N timers, as a process has it that has been running: its memory was used before.
class Fixture {
 public:
  Fixture(benchmark::State& state, Spread spread)
      : count_(static_cast<std::size_t>(state.range(0))), deadlines_(deadlines_of(spread, count_)) {
    handles_.resize(count_);
    std::mt19937_64 random(43);
    order_.resize(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      order_[i] = i;
    }
    std::shuffle(order_.begin(), order_.end(), random);
  }

  std::size_t count() const { return count_; }
  TimingWheel& wheel() { return *wheel_; }
  const std::vector<TimingWheel::Handle>& handles() const { return handles_; }
  std::int64_t deadline(std::size_t i) const { return deadlines_[i]; }

  void reset() {
    wheel_.reset();
    wheel_ = std::make_unique<TimingWheel>(countwheel::WheelOptions{}, 0);
    wheel_->reserve(count_);
  }

  void schedule_all() {
    for (std::size_t i = 0; i < count_; ++i) {
      handles_[i] = wheel_->schedule(deadlines_[i], i);
    }
  }

  std::vector<TimingWheel::Handle> shuffled_handles() const {
    std::vector<TimingWheel::Handle> shuffled(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      shuffled[i] = handles_[order_[i]];
    }
    return shuffled;
  }

 private:
  std::size_t count_;
  std::vector<std::int64_t> deadlines_;
  std::vector<TimingWheel::Handle> handles_;
  std::vector<std::size_t> order_;
  std::unique_ptr<TimingWheel> wheel_;
};

// Processor time of this thread: on a machine that is shared, the time of others does not count.
double processor_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <class Work>
void timed(benchmark::State& state, std::size_t operation_count, Work&& work) {
  const double before = processor_seconds();
  work();
  const double elapsed = processor_seconds() - before;
  state.SetIterationTime(elapsed);
  // The best pass: what the code costs when nobody else uses the caches.
  const double each_ns = elapsed * 1e9 / static_cast<double>(operation_count);
  benchmark::Counter& best = state.counters["ns"];
  best = best.value == 0.0 ? each_ns : std::min(best.value, each_ns);
}

void schedule(benchmark::State& state, Spread spread) {
  Fixture fixture(state, spread);
  for (auto _ : state) {
    fixture.reset();
    timed(state, fixture.count(), [&] { fixture.schedule_all(); });
  }
}

// Schedules into a wheel whose slots were all cancelled in random order before.
void schedule_into_used(benchmark::State& state, Spread spread) {
  Fixture fixture(state, spread);
  fixture.reset();
  for (auto _ : state) {
    fixture.schedule_all();
    fixture.wheel().cancel_batch(fixture.shuffled_handles());
    fixture.wheel().compact(2 * fixture.count());
    timed(state, fixture.count(), [&] { fixture.schedule_all(); });
    fixture.wheel().cancel_batch(fixture.handles());
    fixture.wheel().compact(2 * fixture.count());
  }
}

void cancel(benchmark::State& state, bool batched) {
  Fixture fixture(state, Spread::kWeek);
  for (auto _ : state) {
    fixture.reset();
    fixture.schedule_all();
    const std::vector<TimingWheel::Handle> handles = fixture.shuffled_handles();
    std::size_t cancelled = 0;
    timed(state, fixture.count(), [&] {
      if (batched) {
        cancelled = fixture.wheel().cancel_batch(handles);
      } else {
        for (const TimingWheel::Handle handle : handles) {
          cancelled += fixture.wheel().cancel(handle) ? 1U : 0U;
        }
      }
    });
    if (cancelled != fixture.count()) {
      state.SkipWithError("a timer was not cancelled");
    }
  }
}

enum class Direction { kAnywhere, kLater };

void reschedule(benchmark::State& state, bool batched, Direction direction) {
  Fixture fixture(state, Spread::kWeek);
  for (auto _ : state) {
    fixture.reset();
    fixture.schedule_all();
    std::vector<TimingWheel::Move> moves;
    std::size_t i = 0;
    for (const TimingWheel::Handle handle : fixture.shuffled_handles()) {
      const std::int64_t before_ns = *fixture.wheel().deadline(handle);
      // Earlier by default: every move then needs a new entry, which is the dear case.
      moves.push_back({handle,
                       direction == Direction::kLater
                           ? before_ns + 30 * kSecond
                           : 4 * kSecond + static_cast<std::int64_t>(
                                               static_cast<double>(before_ns - 4 * kSecond) *
                                               static_cast<double>(i++ % 97) / 97.0)});
    }
    timed(state, fixture.count(), [&] {
      if (batched) {
        fixture.wheel().reschedule_batch(moves);
      } else {
        for (const TimingWheel::Move& move : moves) {
          fixture.wheel().reschedule(move.handle, move.deadline_ns);
        }
      }
    });
  }
}

// Ticks from `from_ns` until nothing is left; returns the sum of the values, which must be read.
std::uint64_t run_ticks(TimingWheel& wheel, std::int64_t from_ns) {
  std::uint64_t sum = 0;
  for (std::int64_t now_ns = from_ns; wheel.size() > 0; now_ns += kTick) {
    wheel.advance(now_ns, [&](std::span<const TimingWheel::Expired> batch) {
      for (const TimingWheel::Expired& expired : batch) {
        sum += expired.value;
      }
    });
  }
  return sum;
}

void expire(benchmark::State& state, Spread spread) {
  Fixture fixture(state, spread);
  for (auto _ : state) {
    fixture.reset();
    fixture.schedule_all();
    timed(state, fixture.count(), [&] {
      benchmark::DoNotOptimize(run_ticks(fixture.wheel(), spread == Spread::kOneHour ? kHour : 0));
    });
  }
}

void idle_tick(benchmark::State& state) {
  Fixture fixture(state, Spread::kWeek);
  fixture.reset();
  for (std::size_t i = 0; i < fixture.count(); ++i) {
    fixture.wheel().schedule(fixture.deadline(i) + kDay, i);
  }
  std::int64_t now_ns = 0;
  for (auto _ : state) {
    now_ns += 1000;
    benchmark::DoNotOptimize(
        fixture.wheel().advance(now_ns, [](std::span<const TimingWheel::Expired>) {}));
  }
}

// One hour at once, everything pending due days later.
void jump(benchmark::State& state) {
  Fixture fixture(state, Spread::kWeek);
  fixture.reset();
  for (std::size_t i = 0; i < fixture.count(); ++i) {
    fixture.wheel().schedule(fixture.deadline(i) + 40 * kDay, i);
  }
  std::int64_t now_ns = 0;
  for (auto _ : state) {
    now_ns = now_ns >= 30 * kDay ? 0 : now_ns + kHour;
    if (now_ns == 0) {
      break;
    }
    const auto before = std::chrono::steady_clock::now();
    fixture.wheel().advance(now_ns, [](std::span<const TimingWheel::Expired>) {});
    benchmark::DoNotOptimize(fixture.wheel().next_wake());
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
  }
}

// Every tick of an hour that drains and of the hour that expires, timed by itself with N timers in
// the second. Three passes, and of each tick the fastest counts: what is left of preemption would
// have to hit the same tick three times. `drain` is the first hour, where nothing expires.
void worst_advance(benchmark::State& state) {
  Fixture fixture(state, Spread::kOneHour);
  constexpr std::size_t kTickCount = 2 * kHour / kTick;
  std::vector<double> ticks_us(kTickCount, 1e9);
  for (auto _ : state) {
    fixture.reset();
    fixture.schedule_all();
    fixture.wheel().advance(kHour, [](std::span<const TimingWheel::Expired>) {});
    for (std::size_t i = 0; i < kTickCount; ++i) {
      const auto before = std::chrono::steady_clock::now();
      fixture.wheel().advance(kHour + static_cast<std::int64_t>(i + 1) * kTick,
                              [](std::span<const TimingWheel::Expired> batch) {
                                benchmark::DoNotOptimize(batch.data());
                              });
      const std::chrono::duration<double, std::micro> elapsed =
          std::chrono::steady_clock::now() - before;
      ticks_us[i] = std::min(ticks_us[i], elapsed.count());
    }
  }
  state.counters["drain_worst_us"] =
      *std::max_element(ticks_us.begin(), ticks_us.begin() + kTickCount / 2);
  std::sort(ticks_us.begin(), ticks_us.end());
  state.counters["p99.99_us"] = ticks_us[kTickCount - 1 - kTickCount / 10'000];
  state.counters["worst_us"] = ticks_us.back();
  state.counters["moved_max"] =
      static_cast<double>(fixture.wheel().counters().moved_in_advance_max);
}

void memory(benchmark::State& state) {
  Fixture fixture(state, Spread::kWeek);
  for (auto _ : state) {
    fixture.reset();
    timed(state, fixture.count(), [&] { fixture.schedule_all(); });
    state.counters["bytes"] =
        static_cast<double>(fixture.wheel().touched_bytes()) / static_cast<double>(fixture.count());
  }
}

// The wheel whose timers are known by their index alone.
void memory_of_index(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const std::vector<std::int64_t> deadlines = deadlines_of(Spread::kWeek, count);
  for (auto _ : state) {
    countwheel::IndexWheel wheel({}, 0);
    wheel.reserve(count);
    timed(state, count, [&] {
      for (const std::int64_t deadline_ns : deadlines) {
        wheel.schedule(deadline_ns);
      }
    });
    state.counters["bytes"] =
        static_cast<double>(wheel.touched_bytes()) / static_cast<double>(count);
  }
}

std::int64_t large_count() {
  const char* const text = std::getenv("COUNTWHEEL_BENCH_TIMERS");
  return text == nullptr ? 1'000'000 : std::max<std::int64_t>(std::atoll(text), 1);
}

template <class... Arguments>
void pass(const char* name, void (*function)(benchmark::State&, Arguments...), Arguments... given) {
  for (const std::int64_t count : {std::int64_t{10'000}, large_count()}) {
    benchmark::RegisterBenchmark(name, [=](benchmark::State& state) { function(state, given...); })
        ->Arg(count)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(count > 100'000 ? 9 : 50);
  }
}

void register_all() {
  pass("schedule/week", schedule, Spread::kWeek);
  pass("schedule/order_mix", schedule, Spread::kOrderMix);
  pass("schedule/week_after_random_cancels", schedule_into_used, Spread::kWeek);
  pass("cancel", cancel, false);
  pass("cancel/batch", cancel, true);
  pass("reschedule/earlier", reschedule, false, Direction::kAnywhere);
  pass("reschedule/earlier_batch", reschedule, true, Direction::kAnywhere);
  pass("reschedule/later", reschedule, false, Direction::kLater);
  pass("reschedule/later_batch", reschedule, true, Direction::kLater);
  pass("expire/ten_seconds", expire, Spread::kTenSeconds);
  pass("expire/one_instant", expire, Spread::kOneInstant);
  pass("expire/order_mix", expire, Spread::kOrderMix);
  pass("memory/week", memory);
  pass("memory/index", memory_of_index);
  for (const std::int64_t count : {std::int64_t{10'000}, large_count()}) {
    benchmark::RegisterBenchmark("idle_tick", idle_tick)->Arg(count);
    benchmark::RegisterBenchmark("jump/hour", jump)->Arg(count)->UseManualTime()->Iterations(600);
    benchmark::RegisterBenchmark("worst_advance", worst_advance)
        ->Arg(count)
        ->Unit(benchmark::kMillisecond)
        ->Iterations(3);
  }
}

}  // namespace

int main(int argc, char** argv) {
  register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
