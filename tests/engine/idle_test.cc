// What an idle engine costs on the clock of the machine. It sleeps: not in the fast set.
#include <array>
#include <chrono>
#include <memory>
#include <sys/resource.h>
#include <thread>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

namespace countwheel {
namespace {

using namespace std::chrono_literals;

std::chrono::microseconds cpu_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

TEST(ClockCases, B21_TenIdleSecondsCostNothing) {
  // One engine with nothing to do and one with a task in 10 years, for the same 10 s.
  std::array<std::unique_ptr<Engine>, 2> engines;
  for (std::unique_ptr<Engine>& engine : engines) {
    Result<std::unique_ptr<Engine>> made = Engine::create({});
    ASSERT_TRUE(made.ok());
    engine = std::move(*made);
    ASSERT_TRUE(engine->on("test", [](Delivery d) { EXPECT_TRUE(d.done().ok()); }).ok());
    ASSERT_TRUE(engine->start().ok());
  }
  ASSERT_TRUE(
      engines[1]->schedule({.type = "test", .deadline = after(std::chrono::years(10))}).ok());
  const std::chrono::microseconds before = cpu_time();
  std::this_thread::sleep_for(10s);
  EXPECT_LE(cpu_time() - before, 100ms);
  for (const std::unique_ptr<Engine>& engine : engines) {
    EXPECT_LE(engine->stats().steps, 10U);  // tickless
    EXPECT_LE(engine->stats().commit_wakes, 10U);
  }
}

}  // namespace
}  // namespace countwheel
