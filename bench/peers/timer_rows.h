// The rows `wheel.*` for any TimerPeer: register_timer_rows<Peer>() adds `<row>/<peer>`.
#ifndef COUNTWHEEL_BENCH_PEERS_TIMER_ROWS_H_
#define COUNTWHEEL_BENCH_PEERS_TIMER_ROWS_H_

#include <chrono>
#include <memory>
#include <string>

#include <benchmark/benchmark.h>

#include "bench_engine.h"
#include "peers/timer_peer.h"
#include "peers/timer_workload.h"

namespace countwheel::bench {

// Calls pass() again and again for a second, at most 30 times, and reports the least ns that it
// returns for one timer: what the code costs when nobody else uses the caches. The first pass does
// not count, as with ours, unless ten million timers make it the only one.
template <class Pass>
void report_best(benchmark::State& state, std::size_t timer_count, Pass&& pass, bool once = false) {
  constexpr int kPasses = 30;
  constexpr double kSeconds = 1.0;
  for (auto unused : state) {
    double best_ns = 0;
    const Clock::time_point start = Clock::now();
    const int least = once || timer_count > 1'000'000 ? 1 : 2;
    for (int i = 0; i < kPasses && (i < least || seconds_since(start) < kSeconds); ++i) {
      const double ns = pass() * 1e9 / static_cast<double>(timer_count);
      best_ns = i <= 1 ? ns : std::min(best_ns, ns);
    }
    state.SetIterationTime(best_ns * 1e-9);
    state.counters["value"] = best_ns;
  }
}

template <class Work>
double cpu_seconds_of(Work&& work) {
  const double before = processor_seconds();
  work();
  return processor_seconds() - before;
}

// Timers, pending: one of each deadline.
template <TimerPeer Peer>
std::unique_ptr<Peer> scheduled(const std::vector<std::int64_t>& deadlines) {
  auto peer = std::make_unique<Peer>(deadlines.size());
  for (std::uint32_t i = 0; i < deadlines.size(); ++i) {
    peer->schedule(i, deadlines[i]);
  }
  return peer;
}

// Around a microsecond a call: passes take seconds, and more of them than one would fill the run.
// The difference that warm memory makes is far below theirs. Ten million timers are left to others.
template <TimerPeer Peer>
constexpr bool is_slow() {
  return requires {
    Peer::kIsSlow;
  };
}

template <TimerPeer Peer>
void schedule_row(benchmark::State& state, std::size_t count) {
  const std::vector<std::int64_t> deadlines = week_deadlines(count);
  report_best(state, count, [&] {
    Peer peer(count);
    return cpu_seconds_of([&] {
      for (std::uint32_t i = 0; i < count; ++i) {
        peer.schedule(i, deadlines[i]);
      }
      peer.settle();
    });
  });
}

template <TimerPeer Peer>
void cancel_row(benchmark::State& state, std::size_t count) {
  const std::vector<std::int64_t> deadlines = week_deadlines(count);
  const std::vector<std::uint32_t> order = random_order(count);
  const auto pass = [&] {
    const std::unique_ptr<Peer> peer = scheduled<Peer>(deadlines);
    return cpu_seconds_of([&] {
      for (const std::uint32_t timer : order) {
        peer->cancel(timer);
      }
      peer->settle();
    });
  };
  report_best(state, count, pass, is_slow<Peer>() && count > 100'000);
}

template <TimerPeer Peer>
void reschedule_row(benchmark::State& state, std::size_t count) {
  const std::vector<std::int64_t> deadlines = week_deadlines(count);
  const std::vector<std::uint32_t> order = random_order(count);
  const auto pass = [&] {
    const std::unique_ptr<Peer> peer = scheduled<Peer>(deadlines);
    return cpu_seconds_of([&] {
      for (std::size_t i = 0; i < count; ++i) {
        peer->reschedule(order[i], earlier(deadlines[order[i]], i));
      }
      peer->settle();
    });
  };
  report_best(state, count, pass, is_slow<Peer>() && count > 100'000);
}

// Ticks until nothing is pending; processor seconds of the ticks alone.
template <TimerPeer Peer>
double run_ticks(Peer& peer, std::size_t count) {
  if constexpr (Peer::kRealClock) {
    double seconds = 0;
    for (std::int64_t now_ns = 0; peer.expiries().count() < count; now_ns += kPeerTickNs) {
      peer.clock().wait_until(now_ns);
      seconds += cpu_seconds_of([&] { peer.advance(now_ns); });
    }
    return seconds;
  } else {
    return cpu_seconds_of([&] {
      for (std::int64_t now_ns = 0; peer.expiries().count() < count; now_ns += kPeerTickNs) {
        peer.advance(now_ns);
      }
    });
  }
}

// A peer on the real clock schedules while its clock runs: it gets two (real) seconds for that.
template <TimerPeer Peer>
constexpr std::int64_t lead_ns() {
  return Peer::kRealClock ? 20 * kSecondNs : 0;
}

template <TimerPeer Peer>
void expire_row(benchmark::State& state, std::size_t count, std::int64_t width_ns) {
  const std::int64_t from_ns = lead_ns<Peer>() + (width_ns == 0 ? 10 * kSecondNs : 0);
  const std::vector<std::int64_t> deadlines = uniform_deadlines(count, from_ns, width_ns);
  const auto pass = [&] {
    const std::unique_ptr<Peer> peer = scheduled<Peer>(deadlines);
    if constexpr (Peer::kRealClock) {
      peer->clock().wait_until(from_ns - kPeerTickNs);
    }
    const double seconds = run_ticks(*peer, count);
    benchmark::DoNotOptimize(peer->expiries().sum());
    return seconds;
  };
  // On the real clock a pass is mostly waiting.
  report_best(state, count, pass, Peer::kRealClock);
}

template <TimerPeer Peer>
void idle_tick_row(benchmark::State& state, std::size_t count) {
  const std::unique_ptr<Peer> peer =
      scheduled<Peer>(uniform_deadlines(count, 2 * kDayNs, 7 * kDayNs));
  std::int64_t now_ns = 0;
  const int ticks = 5'000;
  for (auto unused : state) {
    const double seconds = cpu_seconds_of([&] {
      for (int i = 0; i < ticks; ++i) {
        peer->advance(now_ns += kPeerTickNs);
      }
    });
    state.SetIterationTime(seconds);
    state.counters["value"] = seconds * 1e9 / ticks;
  }
}

// An hour at once. What takes every tick by itself, and long for it, is given a hundredth of it.
template <TimerPeer Peer>
void jump_row(benchmark::State& state, std::size_t count, std::int64_t share) {
  const std::unique_ptr<Peer> peer =
      scheduled<Peer>(uniform_deadlines(count, 2 * kDayNs, 7 * kDayNs));
  for (auto unused : state) {
    const double seconds =
        static_cast<double>(share) * cpu_seconds_of([&] { peer->advance(kHourNs / share); });
    state.SetIterationTime(seconds);
    state.counters["value"] = seconds * 1e9;
  }
}

// The worst tick in the hour before a full hour slot and in that hour; `passes` of them, and of
// each tick the fastest counts, because of preemption.
template <TimerPeer Peer>
void worst_tick_row(benchmark::State& state, std::size_t count, int passes, bool moved) {
  const std::vector<std::int64_t> deadlines =
      uniform_deadlines(count, 2 * kHourNs, kHourNs - kPeerTickNs);
  constexpr auto kTicks = static_cast<std::size_t>(2 * kHourNs / kPeerTickNs);
  for (auto unused : state) {
    std::vector<double> ticks_ms(kTicks, 1e9);
    for (int pass = 0; pass < passes; ++pass) {
      const std::unique_ptr<Peer> peer = scheduled<Peer>(deadlines);
      peer->advance(kHourNs);
      for (std::size_t i = 0; i < kTicks; ++i) {
        const Clock::time_point start = Clock::now();
        peer->advance(kHourNs + static_cast<std::int64_t>(i + 1) * kPeerTickNs);
        ticks_ms[i] = std::min(ticks_ms[i], seconds_since(start) * 1e3);
      }
      if constexpr (requires { peer->moved_max(); }) {
        state.counters["moved_max"] = static_cast<double>(peer->moved_max());
      }
    }
    std::sort(ticks_ms.begin(), ticks_ms.end());
    state.SetIterationTime(ticks_ms.back() * 1e-3);
    state.counters["p9999_us"] = ticks_ms[kTicks - 1 - kTicks / 10'000] * 1e3;
    state.counters["value"] = moved ? state.counters["moved_max"].value : ticks_ms.back();
  }
}

template <TimerPeer Peer>
void bytes_row(benchmark::State& state, std::size_t count) {
  const std::vector<std::int64_t> deadlines = week_deadlines(count);
  for (auto unused : state) {
    const double before = resident_bytes();
    const std::unique_ptr<Peer> peer = scheduled<Peer>(deadlines);
    const double bytes = resident_bytes() - before;
    state.SetIterationTime(1.0);
    state.counters["value"] = bytes / static_cast<double>(count);
  }
}

// What a row is measured with, beside the peer.
template <TimerPeer Peer, class... Arguments>
void add_row(const std::string& row,
             void (*function)(benchmark::State&, std::size_t, Arguments...),
             std::size_t count,
             Arguments... given) {
  const std::string name = row + "/" + Peer::kName;
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) { function(state, count, given...); })
      ->Iterations(1)
      ->UseManualTime();
}

template <TimerPeer Peer>
void add_call_rows(const std::string& size, std::size_t count) {
  add_row<Peer>("wheel.schedule." + size, &schedule_row<Peer>, count);
  add_row<Peer>("wheel.cancel." + size, &cancel_row<Peer>, count);
  add_row<Peer>("wheel.reschedule." + size, &reschedule_row<Peer>, count);
}

template <TimerPeer Peer>
void register_timer_rows() {
  constexpr std::size_t kMillion = 1'000'000;
  add_call_rows<Peer>("10k", 10'000);
  add_call_rows<Peer>("1m", kMillion);
  if constexpr (!is_slow<Peer>()) {
    add_call_rows<Peer>("10m", 10 * kMillion);
  }
  add_row<Peer>("wheel.expire_same.100k", &expire_row<Peer>, 100'000, std::int64_t{0});
  add_row<Peer>("wheel.expire_same.1m", &expire_row<Peer>, kMillion, std::int64_t{0});
  add_row<Peer>("wheel.expire_spread.1m", &expire_row<Peer>, kMillion, 10 * kSecondNs);
  if constexpr (!requires { Peer::kTickCostsMore; }) {
    add_row<Peer>("wheel.idle_tick.1m", &idle_tick_row<Peer>, kMillion);
  }
  add_row<Peer>("wheel.bytes.exact", &bytes_row<Peer>, kMillion);
  if constexpr (!Peer::kRealClock && !requires { Peer::kTickCostsMore; }) {
    constexpr std::int64_t kShare = requires {
      Peer::kJumpShare;
    }
    ? 100 : 1;
    add_row<Peer>("wheel.jump_1h", &jump_row<Peer>, kMillion, kShare);
  }
}

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_TIMER_ROWS_H_
