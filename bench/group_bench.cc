// Expiry of a whole group: how long the call takes, when its first and its last member start, and
// what other tasks that fall due meanwhile feel of it. The log on disk.
#include <atomic>
#include <thread>

#include "bench_engine.h"

namespace countwheel::bench {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kGroup = 7;

double since_us(const std::atomic<std::int64_t>& from_ns) {
  return static_cast<double>(SystemClock::instance().now().boot_ns - from_ns.load()) / 1e3;
}

// Members a day away, expired at once, while others fall due a thousand a second.
void expire_group(benchmark::State& state, int members) {
  constexpr int kOthers = 1'000;
  Directory directory;
  Result<Opened> opened = open(directory.log(), {});
  if (!opened.ok()) {
    state.SkipWithError(opened.status().text().c_str());
    return;
  }
  Engine& engine = *opened->engine;
  std::atomic<std::int64_t> called_ns{0};
  std::atomic<int> runs{0};
  std::atomic<double> first_us{0};
  std::atomic<double> last_us{0};
  std::vector<double> late_us(kOthers, 0);
  std::atomic<int> others{0};
  (void)engine.on("member", [&](Delivery d) {
    const int run = runs.fetch_add(1) + 1;
    if (run == 1) {
      first_us.store(since_us(called_ns));
    }
    if (run == members) {
      last_us.store(since_us(called_ns));
    }
    (void)d.done();
  });
  (void)engine.on("other", [&](Delivery d) {
    late_us[static_cast<std::size_t>(others.fetch_add(1))] =
        std::chrono::duration<double, std::micro>(d.lateness()).count();
    (void)d.done();
  });
  (void)engine.start();
  for (int i = 0; i < members; ++i) {
    (void)engine.submit({.type = "member",
                         .deadline = after(std::chrono::hours(24)),
                         .durability = Durability::kOs,
                         .group = kGroup});
    if (i % 100'000 == 99'999) {
      (void)engine.flush(Durability::kOs);
    }
  }
  for (int i = 0; i < kOthers; ++i) {
    (void)engine.submit({.type = "other", .deadline = after(milliseconds(500 + i))});
  }
  (void)engine.flush();
  std::this_thread::sleep_for(milliseconds(300));
  const Stats before = engine.stats();
  const Clock::time_point begin = Clock::now();
  called_ns.store(SystemClock::instance().now().boot_ns);
  const GroupChange change = engine.submit_expire_group(kGroup);
  state.counters["call"] = 1e6 * seconds_since(begin);
  state.counters["records"] = static_cast<double>(engine.stats().next_lsn - before.next_lsn);
  (void)engine.wait_durable(change.lsn);
  state.counters["durable"] = 1e6 * seconds_since(begin);
  while ((runs.load() < members || others.load() < kOthers) && seconds_since(begin) < 60) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  state.counters["first_start"] = first_us.load();
  state.counters["last_start"] = last_us.load() / 1e3;
  report_quantiles(state, "others.", late_us);
  (void)engine.stop();
}

const Row rows[] = {
    {"engine.expire_group.1k", [](benchmark::State& state) { expire_group(state, 1'000); }},
    {"engine.expire_group.1m", [](benchmark::State& state) { expire_group(state, 1'000'000); }},
};

}  // namespace
}  // namespace countwheel::bench

BENCHMARK_MAIN();
