// A chain of runs under one id, and a key that stays refused for a while after its task is done.
#include <cstdio>

#include <countwheel/engine.h>

using namespace std::chrono_literals;

int main() {
  countwheel::ManualClock clock;
  countwheel::EngineParts parts;
  parts.clock = &clock;
  auto engine = std::move(
      *countwheel::Engine::create({.drive = countwheel::Drive::kHost}, std::move(parts)));
  (void)engine->on("positions.report", [&](countwheel::Delivery delivery) {
    std::printf("report %llu at %lld min\n",
                static_cast<unsigned long long>(delivery.run()),
                static_cast<long long>(clock.now().boot_ns / 60'000'000'000));
    (void)delivery.done();
  });
  (void)engine->start();

  auto every = countwheel::Recurrence::rate(5min);  // missed runs: one for all of them
  every.count = 4;
  (void)engine->schedule({.type = "positions.report",
                          .deadline = countwheel::after(5min),
                          .key = "report",
                          .recurrence = &every,
                          .dedup_window = 1h});
  for (const auto minutes : {5min, 5min, 22min, 3min}) {  // it was away for 22 minutes
    clock.advance(minutes);
    engine->poll();
  }
  const auto again = engine->schedule({.type = "positions.report", .key = "report"});
  std::printf("again: %s\n", std::string(to_string(again.code())).c_str());
}
