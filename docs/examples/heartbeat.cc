// Cancel all after: a session that stops sending heartbeats loses its orders.
#include <cstdio>

#include <countwheel/engine.h>

using namespace std::chrono_literals;

int main() {
  countwheel::ManualClock clock;
  countwheel::EngineParts parts;
  parts.clock = &clock;
  auto engine = std::move(
      *countwheel::Engine::create({.drive = countwheel::Drive::kHost}, std::move(parts)));
  (void)engine->on("session.silent", [&](countwheel::Delivery delivery) {
    const countwheel::GroupChange orders = engine->submit_cancel_group(7);
    std::printf("silent after %lld s, %llu orders cancelled\n",
                static_cast<long long>(clock.now().boot_ns / 1'000'000'000),
                static_cast<unsigned long long>(orders.count));
    (void)delivery.done();
  });
  (void)engine->start();
  (void)engine->schedule({"session.silent", countwheel::after(5s), "session-7"});
  for (int i = 0; i < 3; ++i) {
    (void)engine->schedule(
        {.type = "order.expire", .deadline = countwheel::after(8h), .group = 7});
  }
  for (int beats = 0; beats < 1'000; ++beats) {
    clock.advance(100ms);
    (void)engine->touch("session-7", countwheel::after(5s));
    engine->poll();
  }
  std::printf("1000 heartbeats, %llu records\n",
              static_cast<unsigned long long>(engine->stats().ops));
  clock.advance(5s);
  engine->poll();
}
