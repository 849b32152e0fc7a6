// The close of a market, 16:00 in New York on weekdays. Zones and calendars change, so each run
// schedules the next: its key is its own from the moment this run is done.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <countwheel/engine.h>

using namespace std::chrono_literals;

namespace {

// The zone library is the C library's; std::chrono's time zones do the same in newer compilers.
countwheel::WallTime next_close(countwheel::WallTime now) {
  std::time_t seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  std::tm local = *std::localtime(&seconds);
  for (int day = 0;; ++day) {
    std::tm close = local;
    close.tm_mday += day;
    close.tm_hour = 16;
    close.tm_min = close.tm_sec = 0;
    close.tm_isdst = -1;  // whatever is the rule on that day
    const std::time_t at = std::mktime(&close);
    if (at > seconds && close.tm_wday != 0 && close.tm_wday != 6) {
      return countwheel::WallTime(std::chrono::seconds(at));
    }
  }
}

}  // namespace

int main() {
  setenv("TZ", "EST5EDT,M3.2.0,M11.1.0", 1);  // New York, without a zone database
  tzset();
  countwheel::ManualClock clock;
  const std::time_t thursday = 1'772'740'800;  // 2026-03-05 20:00 UTC, before the clocks change
  clock.set({thursday * 1'000'000'000, 0});
  countwheel::EngineParts parts;
  parts.clock = &clock;
  auto engine = std::move(
      *countwheel::Engine::create({.drive = countwheel::Drive::kHost}, std::move(parts)));
  const auto schedule_next = [&](countwheel::WallTime now) {
    (void)engine->submit({.type = "session.close",
                          .deadline = countwheel::at(next_close(now)),
                          .key = "XNYS",
                          .key_policy = countwheel::KeyPolicy::kReplace});
  };
  (void)engine->on("session.close", [&](countwheel::Delivery delivery) {
    const std::time_t at =
        std::chrono::floor<std::chrono::seconds>(delivery.deadline()).time_since_epoch().count();
    char utc[32];
    std::strftime(utc, sizeof(utc), "%a %F %R", std::gmtime(&at));
    std::printf("closed, %s UTC\n", utc);
    schedule_next(delivery.deadline());
    (void)delivery.done();
  });
  (void)engine->start();
  schedule_next(countwheel::WallTime(std::chrono::seconds(thursday)));
  for (int hour = 0; hour < 24 * 5; ++hour) {
    clock.advance(1h);
    engine->poll();
  }
}
