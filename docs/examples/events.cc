// A listener that hears how every order ends, and a batch handler that expires them together.
#include <cstdio>
#include <string>

#include <countwheel/engine.h>

using namespace std::chrono_literals;

int main() {
  countwheel::ManualClock clock;
  countwheel::EngineParts parts;
  parts.clock = &clock;
  auto engine = std::move(
      *countwheel::Engine::create({.drive = countwheel::Drive::kHost}, std::move(parts)));
  (void)engine->listen([](const countwheel::Event& event) {
    std::printf("%llu: %s %s\n",
                static_cast<unsigned long long>(event.sequence),
                event.key.c_str(),
                std::string(to_string(event.kind)).c_str());
  });
  (void)engine->on_batch("order.expire", [](std::span<countwheel::Delivery> batch) {
    std::printf("%zu expire in one transaction\n", batch.size());
    for (countwheel::Delivery& delivery : batch) {
      (void)delivery.done();  // each by itself: one that fails repeats alone
    }
  });
  (void)engine->start();
  for (const char* key : {"o1", "o2", "o3", "o4"}) {
    (void)engine->schedule({"order.expire", countwheel::after(1s), key});
  }
  (void)engine->cancel("o2");
  clock.advance(1s);
  engine->poll();
}
