// A trading session: its orders are cancelled together, or expire together at the close.
#include <cstdio>

#include <countwheel/engine.h>

using namespace std::chrono_literals;

int main() {
  countwheel::ManualClock clock;
  countwheel::EngineParts parts;
  parts.clock = &clock;
  auto engine = std::move(
      *countwheel::Engine::create({.drive = countwheel::Drive::kHost}, std::move(parts)));
  (void)engine->on("order.expire", [](countwheel::Delivery delivery) {
    std::printf("%.*s expired\n", int(delivery.key().size()), delivery.key().data());
    (void)delivery.done();
  });
  (void)engine->start();
  constexpr std::uint64_t kAlice = 7, kBob = 8;  // a session, a symbol, a user: any number but 0
  (void)engine->schedule(
      {.type = "order.expire", .deadline = countwheel::after(8h), .key = "a1", .group = kAlice});
  (void)engine->schedule(
      {.type = "order.expire", .deadline = countwheel::after(6h), .key = "a2", .group = kAlice});
  (void)engine->schedule(
      {.type = "order.expire", .deadline = countwheel::after(7h), .key = "b1", .group = kBob});

  const countwheel::GroupChange gone = engine->cancel_group(kBob);  // cancel on disconnect
  std::printf("bob: %llu cancelled\n", static_cast<unsigned long long>(gone.count));
  (void)engine->pause_group(kAlice);  // her symbol is halted
  clock.advance(6h);
  engine->poll();
  std::printf("alice: %llu open\n", static_cast<unsigned long long>(engine->group_count(kAlice)));
  (void)engine->resume_group(kAlice);
  (void)engine->expire_group(kAlice);  // the close, two hours early
  while (engine->poll() != 0 || engine->group_count(kAlice) != 0) {
  }
}
