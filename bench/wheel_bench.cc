// What each operation of the wheel costs, in nanoseconds a timer. Every pass works on N timers at
// once, and the best pass counts. Cancels and moves come in random order, so that each meets a cold
// node; allocation of the node and the handle are part of schedule.
#include <string>

#include "row.h"
#include "wheel_fixture.h"

namespace countwheel::bench {
namespace {

double schedule_ns(std::size_t count, Spread spread) {
  Fixture fixture(count, spread);
  return best_ns(
      count, [&] { fixture.reset(); }, [&] { fixture.schedule_all(); });
}

// Into a wheel whose slots were all cancelled in random order before.
double schedule_into_used_ns(std::size_t count) {
  Fixture fixture(count, Spread::kWeek);
  fixture.reset();
  return best_ns(
      count,
      [&] {
        fixture.wheel().cancel_batch(fixture.handles());
        fixture.schedule_all();
        fixture.wheel().cancel_batch(fixture.shuffled_handles());
        fixture.wheel().compact(4 * count);
      },
      [&] { fixture.schedule_all(); });
}

enum class Calls { kOneByOne, kBatch };

double cancel_ns(benchmark::State& state, std::size_t count, Calls calls) {
  Fixture fixture(count, Spread::kWeek);
  std::vector<TimingWheel::Handle> handles;
  return best_ns(
      count,
      [&] {
        fixture.reset();
        fixture.schedule_all();
        handles = fixture.shuffled_handles();
      },
      [&] {
        std::size_t cancelled = 0;
        if (calls == Calls::kBatch) {
          cancelled = fixture.wheel().cancel_batch(handles);
        } else {
          for (const TimingWheel::Handle handle : handles) {
            cancelled += fixture.wheel().cancel(handle) ? 1U : 0U;
          }
        }
        if (cancelled != count) {
          state.SkipWithError("a timer was not cancelled");
        }
      });
}

enum class Direction { kEarlier, kLater };

// Earlier is the dear case: every move needs a new entry.
double reschedule_ns(std::size_t count, Calls calls, Direction direction) {
  Fixture fixture(count, Spread::kWeek);
  std::vector<TimingWheel::Move> moves;
  return best_ns(
      count,
      [&] {
        fixture.reset();
        fixture.schedule_all();
        moves.clear();
        for (const TimingWheel::Handle handle : fixture.shuffled_handles()) {
          const std::int64_t before_ns = *fixture.wheel().deadline(handle);
          const auto share = static_cast<double>(moves.size() % 97) / 97.0;
          const auto earlier_ns = static_cast<double>(before_ns - 4 * kSecond) * share;
          moves.push_back({handle,
                           direction == Direction::kLater
                               ? before_ns + 30 * kSecond
                               : 4 * kSecond + static_cast<std::int64_t>(earlier_ns)});
        }
      },
      [&] {
        if (calls == Calls::kBatch) {
          fixture.wheel().reschedule_batch(moves);
        } else {
          for (const TimingWheel::Move& move : moves) {
            fixture.wheel().reschedule(move.handle, move.deadline_ns);
          }
        }
      });
}

// By ticks of 10 ms until nothing is left; the value of each timer is read.
double expire_ns(std::size_t count, Spread spread) {
  Fixture fixture(count, spread);
  return best_ns(
      count,
      [&] {
        fixture.reset();
        fixture.schedule_all();
      },
      [&] {
        std::uint64_t sum = 0;
        for (std::int64_t now_ns = 0; fixture.wheel().size() > 0; now_ns += kTick) {
          fixture.wheel().advance(now_ns, [&](std::span<const TimingWheel::Expired> batch) {
            for (const TimingWheel::Expired& expired : batch) {
              sum += expired.value;
            }
          });
        }
        benchmark::DoNotOptimize(sum);
      });
}

double bytes(std::size_t count) {
  Fixture fixture(count, Spread::kWeek);
  fixture.reset();
  fixture.schedule_all();
  return static_cast<double>(fixture.wheel().touched_bytes()) / static_cast<double>(count);
}

// The wheel whose timers are known by their index alone.
double bytes_of_index(std::size_t count) {
  IndexWheel wheel({}, 0);
  wheel.reserve(count);
  for (const std::int64_t deadline_ns : deadlines_of(Spread::kWeek, count)) {
    wheel.schedule(deadline_ns);
  }
  return static_cast<double>(wheel.touched_bytes()) / static_cast<double>(count);
}

struct Size {
  const char* name;
  std::size_t count;
};

void register_size(Size size) {
  const auto row = [&](const std::string& name, auto value) {
    const std::size_t count = size.count;
    Row("wheel." + name + "." + size.name,
        [=](benchmark::State& state) { state.counters["value"] = value(state, count); });
  };
  using State = benchmark::State;
  row("schedule", [](State&, auto n) { return schedule_ns(n, Spread::kWeek); });
  row("schedule_order_mix", [](State&, auto n) { return schedule_ns(n, Spread::kOrderMix); });
  row("schedule_used", [](State&, auto n) { return schedule_into_used_ns(n); });
  row("cancel", [](State& state, auto n) { return cancel_ns(state, n, Calls::kOneByOne); });
  row("cancel_batch", [](State& state, auto n) { return cancel_ns(state, n, Calls::kBatch); });
  row("reschedule",
      [](State&, auto n) { return reschedule_ns(n, Calls::kOneByOne, Direction::kEarlier); });
  row("reschedule_batch",
      [](State&, auto n) { return reschedule_ns(n, Calls::kBatch, Direction::kEarlier); });
  row("reschedule_later",
      [](State&, auto n) { return reschedule_ns(n, Calls::kOneByOne, Direction::kLater); });
  row("reschedule_later_batch",
      [](State&, auto n) { return reschedule_ns(n, Calls::kBatch, Direction::kLater); });
  row("expire_same", [](State&, auto n) { return expire_ns(n, Spread::kOneInstant); });
  row("expire_spread", [](State&, auto n) { return expire_ns(n, Spread::kTenSeconds); });
  row("expire_order_mix", [](State&, auto n) { return expire_ns(n, Spread::kOrderMix); });
}

const bool registered = [] {
  for (const Size size : {Size{"1k", 1'000},
                          Size{"10k", 10'000},
                          Size{"100k", 100'000},
                          Size{"1m", 1'000'000},
                          Size{"10m", 10'000'000}}) {
    register_size(size);
  }
  Row("wheel.bytes.exact",
      [](benchmark::State& state) { state.counters["value"] = bytes(1'000'000); });
  Row("wheel.bytes.index",
      [](benchmark::State& state) { state.counters["value"] = bytes_of_index(1'000'000); });
  return true;
}();

}  // namespace
}  // namespace countwheel::bench

BENCHMARK_MAIN();
