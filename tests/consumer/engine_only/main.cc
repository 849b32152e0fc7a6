// A user of timers in memory, who wants no database: a task is scheduled and its handler runs.
#include <chrono>
#include <cstdio>
#include <future>

#include <countwheel/engine.h>

int main() {
  std::promise<void> expired;
  auto engine = countwheel::Engine::create({});
  if (!engine.ok()) {
    return 1;
  }
  (*engine)->on("greet", [&expired](countwheel::Delivery delivery) {
    delivery.done();
    expired.set_value();
  });
  (*engine)->start();
  const auto scheduled = (*engine)->schedule(
      {.type = "greet", .deadline = countwheel::after(std::chrono::milliseconds(10))});
  if (!scheduled.ok()) {
    return 2;
  }
  if (expired.get_future().wait_for(std::chrono::seconds(10)) != std::future_status::ready) {
    std::puts("a task of 10 ms has not expired after 10 s");
    return 3;
  }
  return 0;
}
