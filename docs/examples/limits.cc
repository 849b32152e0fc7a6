// What holds handlers back: a pause, one at a time, and a limit on how late.
#include <cstdio>

#include <countwheel/engine.h>

using namespace std::chrono_literals;

int main() {
  countwheel::ManualClock clock;
  countwheel::EngineParts parts;
  parts.clock = &clock;
  auto engine = std::move(
      *countwheel::Engine::create({.drive = countwheel::Drive::kHost}, std::move(parts)));
  countwheel::TypePolicy policy;
  policy.max_concurrent = 1;  // effects in the order of the deadlines
  policy.max_lateness = 5s;   // a quote that old is worth nothing
  (void)engine->on(
      "quote.refresh",
      [](countwheel::Delivery delivery) {
        std::printf("%.*s, %lld s late\n",
                    int(delivery.key().size()),
                    delivery.key().data(),
                    static_cast<long long>(delivery.lateness() / 1s));
        (void)delivery.done();
      },
      policy);
  (void)engine->start();
  (void)engine->schedule({"quote.refresh", countwheel::after(1s), "early"});
  (void)engine->schedule({"quote.refresh", countwheel::after(8s), "later"});

  (void)engine->pause("quote.refresh");
  clock.advance(10s);
  engine->poll();
  std::printf("%llu wait\n", static_cast<unsigned long long>(engine->stats().backlog));
  (void)engine->resume("quote.refresh");
  engine->poll();
  for (const auto& letter : engine->dead_letters({}, 10)) {
    std::printf("%s was not run: %s\n", letter.key.c_str(), letter.last_error.c_str());
  }
}
