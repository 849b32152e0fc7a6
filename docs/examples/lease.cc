// A handler that takes too long: its task goes on elsewhere, and its own answer comes too late.
#include <cstdio>
#include <latch>
#include <thread>

#include <countwheel/engine.h>

using namespace std::chrono_literals;

int main() {
  auto engine = std::move(*countwheel::Engine::create({}));
  std::latch second_is_done(1), first_is_done(1);

  countwheel::TypePolicy policy;
  policy.lease = 50ms;  // from the start of the handler to its answer
  (void)engine->on(
      "report",
      [&](countwheel::Delivery delivery) {
        if (delivery.attempt() == 1) {
          (void)delivery.extend_lease(100ms);  // more work than usual
          second_is_done.wait();               // and then it hangs
          std::printf("attempt 1 answers: %s\n", delivery.done().text().c_str());
          first_is_done.count_down();
        } else {
          std::printf("attempt 2 answers: %s\n", delivery.done().text().c_str());
          second_is_done.count_down();
        }
      },
      policy);
  (void)engine->start();
  (void)engine->schedule({"report", countwheel::after(10ms)});
  first_is_done.wait();
  (void)engine->stop();  // records what is done
  std::printf("done %llu, leases expired %llu\n",
              static_cast<unsigned long long>(engine->stats().done),
              static_cast<unsigned long long>(engine->stats().leases_expired));
}
