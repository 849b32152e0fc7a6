// A replicated matching engine: time comes with the commands, and the loop decides what it takes.
#include <cstdio>

#include <countwheel/engine.h>

using namespace std::chrono_literals;

int main() {
  auto engine =
      std::move(*countwheel::Engine::create({.drive = countwheel::Drive::kHost}));  // no threads
  bool halted = true;
  (void)engine->on("order.expire", [&](countwheel::Delivery delivery) {
    const auto n = static_cast<unsigned long long>(delivery.sequence());
    if (delivery.key() == "iceberg" && delivery.attempt() == 1) {
      std::printf("%llu: iceberg lives 2 s longer\n", n);
      (void)delivery.keep(countwheel::at(delivery.deadline() + 2s));
    } else if (halted) {
      std::printf("%llu: %.*s not now\n", n, int(delivery.key().size()), delivery.key().data());
      (void)delivery.not_now();  // the next poll offers it again
    } else {
      std::printf("%llu: %.*s expired\n", n, int(delivery.key().size()), delivery.key().data());
      (void)delivery.done();
    }
  });
  (void)engine->start();

  // The time of the log of commands, not of this machine: a replica that replays it does the same.
  const auto now = [](std::int64_t seconds) {
    return countwheel::Instant{(1'772'740'800 + seconds) * 1'000'000'000, seconds * 1'000'000'000};
  };
  engine->poll(now(0));
  (void)engine->submit({"order.expire", countwheel::after(1s), "iceberg"});
  (void)engine->submit({"order.expire", countwheel::after(1s), "limit"});
  engine->poll(now(1));
  halted = false;
  engine->poll(now(2), 1);  // at most one a turn
  engine->poll(now(3), 1);
  (void)engine->submit({"order.expire", countwheel::after(1h), "day"});
  const auto lsn = engine->snapshot([](const countwheel::TaskInfo& task) {
    std::printf("in the snapshot: %s\n", task.key.c_str());
  });
  std::printf("as of record %llu\n", static_cast<unsigned long long>(lsn->value));
}
