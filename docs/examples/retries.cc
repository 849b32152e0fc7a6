// A task that fails: its retries, its dead letter, and the way back.
#include <cstdio>

#include <countwheel/engine.h>

using namespace std::chrono_literals;

int main() {
  auto engine = std::move(*countwheel::Engine::create({.drive = countwheel::Drive::kHost}));
  bool gateway_is_up = false;

  countwheel::TypePolicy policy;
  policy.retry = countwheel::RetryPolicy::exponential(10ms, 2.0, 1s);  // 10, 20, 40 ms, ... 1 s
  policy.retry.max_attempts = 3;
  (void)engine->on(
      "refund",
      [&](countwheel::Delivery delivery) {
        std::printf("attempt %u of %.*s: %s\n",
                    delivery.attempt(),
                    int(delivery.key().size()),
                    delivery.key().data(),
                    gateway_is_up ? "paid" : "no answer");
        (void)(gateway_is_up ? delivery.done() : delivery.fail("no answer from the gateway"));
      },
      policy);
  (void)engine->start();

  (void)engine->schedule({"refund", countwheel::after(0ms), "order-1"});
  while (engine->stats().pending > 0) engine->poll();

  for (const auto& letter : engine->dead_letters({}, 100)) {
    std::printf("dead letter %s: %s after %u failures\n",
                letter.key.c_str(),
                letter.last_error.c_str(),
                letter.failures);
    gateway_is_up = true;
    (void)engine->requeue(letter.id);  // a new task with fresh counters; the letter is gone
  }
  while (engine->stats().pending > 0) engine->poll();
  std::printf("%llu dead letters left\n", static_cast<unsigned long long>(engine->stats().dead));
}
