// What fell due while the process was away: old quotes are dropped, settlements are spread.
#include <chrono>
#include <cstdio>
#include <string>

#include <countwheel/recovery.h>

using namespace std::chrono_literals;

int main() {
  countwheel::ManualClock clock;  // a clock that tells the time it is told
  countwheel::OpenOptions options;
  options.clock = &clock;
  options.engine.drive = countwheel::Drive::kHost;
  {
    auto before = countwheel::open("missed.countwheel", options);
    (void)before->engine->start();
    for (int i = 1; i <= 4; ++i) {
      const std::string key = std::to_string(i);
      (void)before->engine->schedule({"quote.refresh", countwheel::after(i * 10min), "q" + key});
      (void)before->engine->schedule({"settle", countwheel::after(i * 10min), "s" + key});
    }
    (void)before->engine->stop();
  }
  clock.advance(45min);
  auto after = countwheel::open("missed.countwheel", options);
  countwheel::Engine& engine = *after->engine;
  std::printf("%llu were missed\n", static_cast<unsigned long long>(after->report.overdue));
  const auto start_s = clock.now().boot_ns / 1'000'000'000;
  const auto print = [&](countwheel::Delivery delivery) {
    std::printf("%lld s: %.*s\n",
                static_cast<long long>(clock.now().boot_ns / 1'000'000'000 - start_s),
                int(delivery.key().size()),
                delivery.key().data());
    (void)delivery.done();
  };
  countwheel::TypePolicy quotes, settlements;
  quotes.misfire = countwheel::MisfirePolicy::drop(20min);        // older ones are worth nothing
  settlements.misfire = countwheel::MisfirePolicy::spread(2min);  // and do not storm the bank
  (void)engine.on("quote.refresh", print, quotes);
  (void)engine.on("settle", print, settlements);
  (void)engine.start();
  for (int i = 0; i < 5; ++i, clock.advance(30s)) {
    engine.poll();
  }
  std::printf("%llu dropped\n", static_cast<unsigned long long>(engine.stats().cancelled));
  (void)engine.stop();
}
