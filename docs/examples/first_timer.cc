#include <cstdio>
#include <latch>

#include <countwheel/recovery.h>

using namespace std::chrono_literals;

int main() {
  auto opened = countwheel::open("orders.countwheel");  // locks, checks and replays the log
  if (!opened.ok()) return std::puts(opened.status().text().c_str()), 1;
  countwheel::Engine& engine = *opened->engine;
  std::printf("%llu waiting\n", static_cast<unsigned long long>(opened->report.live));
  if (opened->report.live == 0) {
    (void)engine.schedule({"order.expire", countwheel::after(100ms), "order-1"});  // durable when
    (void)engine.schedule({"order.expire", countwheel::after(100ms), "order-2"});  // it returns
    std::printf("order-2 %s\n", engine.cancel("order-2").status.text().c_str());
    std::fflush(stdout), std::_Exit(9);  // as if killed: nothing below runs
  }
  std::latch expired(1);
  (void)engine.on("order.expire", [&](countwheel::Delivery delivery) {
    std::printf("%.*s expired\n", int(delivery.key().size()), delivery.key().data());
    (void)delivery.done(), expired.count_down();
  });
  (void)engine.start(), expired.wait();
}
