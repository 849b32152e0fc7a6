// The order of hand-over: (wall deadline, LSN of the latest (re)schedule) across both clocks, the
// same after a restart.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"
#include "testing/memory_log.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::HostEngine;
using testing::MemoryLog;
using testing::Started;

std::vector<std::string> keys_of(const std::vector<Started>& started) {
  std::vector<std::string> keys;
  for (const Started& start : started) {
    keys.push_back(start.key);
  }
  return keys;
}

// 1,000 tasks at one instant, in shuffled places, half of them moved there; answers the keys in the
// order of the operations that put them there.
std::vector<std::string> schedule_a_thousand(HostEngine& host, WallTime instant) {
  std::mt19937 random(28);
  std::vector<int> numbers;
  for (int i = 0; i < 1000; ++i) {
    numbers.push_back(i);
  }
  std::shuffle(numbers.begin(), numbers.end(), random);
  std::vector<int> to_move(numbers.begin(), numbers.begin() + 500);
  for (const int number : to_move) {
    host.schedule(at(instant + 1ms * (number % 7 + 1)), std::to_string(number));
  }
  std::shuffle(to_move.begin(), to_move.end(), random);
  std::vector<std::string> order;
  for (std::size_t i = 0; i < 500; ++i) {
    const std::string fresh = std::to_string(numbers[500 + i]);
    host.schedule(at(instant), fresh);
    order.push_back(fresh);
    const std::string moved = std::to_string(to_move[i]);
    EXPECT_TRUE(host.engine->reschedule(moved, at(instant)));
    order.push_back(moved);
  }
  return order;
}

TEST(EngineCases, B28_EqualDeadlinesRunInTheOrderOfTheirOperations) {
  MemoryLog log;
  HostEngine host({}, nullptr, log.journal());
  host.run();
  const WallTime instant(nanoseconds(host.clock.now().wall_ns) + 10s);
  const std::vector<std::string> order = schedule_a_thousand(host, instant);
  const std::unique_ptr<MemoryLog> image = log.killed();
  host.advance(9s);
  EXPECT_EQ(host.advance(1s), 1000U);
  EXPECT_EQ(keys_of(host.started), order);

  // The same after a crash.
  EngineOptions options;
  options.drive = Drive::kHost;
  ManualClock clock;
  InlineExecutor executor;
  Result<testing::Recovered> recovered = testing::recover(*image, options, &clock, &executor);
  ASSERT_TRUE(recovered.ok());
  EXPECT_EQ(recovered->summary.live, 1000U);
  std::vector<std::string> again;
  ASSERT_TRUE(recovered->engine
                  ->on("test",
                       [&](Delivery d) {
                         again.emplace_back(d.key());
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(recovered->engine->start().ok());
  clock.advance(10s);
  recovered->engine->poll();
  EXPECT_EQ(again, order);
}

TEST(HandOverOrder, AcrossBothClocksByTheWallDeadline) {
  HostEngine host;
  host.run();
  const WallTime now(nanoseconds(host.clock.now().wall_ns));
  host.schedule(after(40ms), "4");
  host.schedule(at(now + 30ms), "3");
  host.schedule(after(20ms), "2");
  host.schedule(at(now + 10ms), "1");
  host.schedule(at(now + 50ms), "5 first");
  host.schedule(after(50ms), "5 second");
  host.schedule(at(now + 50ms), "5 third");
  EXPECT_EQ(host.advance(1s), 7U);
  EXPECT_EQ(keys_of(host.started),
            (std::vector<std::string>{"1", "2", "3", "4", "5 first", "5 second", "5 third"}));
}

TEST(HandOverOrder, TheLimitCutsTheOrderAndTheRestFollows) {
  HostEngine host;
  host.run();
  const WallTime now(nanoseconds(host.clock.now().wall_ns));
  std::vector<std::string> expected;
  for (int i = 0; i < 10'000; ++i) {
    const Deadline deadline = i % 2 == 0 ? after(1us * i) : at(now + 1us * i);
    const std::string key = std::to_string(i);
    ASSERT_TRUE(host.engine->submit({.type = "test", .deadline = deadline, .key = key}));
    expected.push_back(key);
  }
  host.clock.advance(1s);
  EXPECT_EQ(host.engine->poll(1), 1U);
  EXPECT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.engine->poll(2999), 2999U);
  EXPECT_EQ(host.started.size(), 3000U);
  EXPECT_LE(host.engine->next_wake().boot_ns, host.clock.now().boot_ns);
  while (host.engine->poll(777) != 0) {
  }
  EXPECT_EQ(keys_of(host.started), expected);
}

TEST(HandOverOrder, SequencesAscendByOne) {
  HostEngine host;
  std::vector<std::uint64_t> sequences;
  ASSERT_TRUE(host.engine
                  ->on("test",
                       [&](Delivery d) {
                         sequences.push_back(d.sequence());
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  for (int i = 0; i < 100; ++i) {
    host.schedule(after(1ms * (100 - i)));
  }
  host.advance_by_steps(1s, 7ms);
  ASSERT_EQ(sequences.size(), 100U);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(sequences[i], i + 1);
  }
}

TEST(HandOverOrder, AMoveThereAndBackGoesLast) {
  HostEngine host;
  host.run();
  const WallTime instant(nanoseconds(host.clock.now().wall_ns) + 1s);
  host.schedule(at(instant), "moved away and back");
  host.schedule(at(instant), "stayed");
  EXPECT_TRUE(host.engine->reschedule("moved away and back", at(instant + 1s)));
  EXPECT_TRUE(host.engine->reschedule("moved away and back", at(instant)));
  host.advance(1s);
  EXPECT_EQ(keys_of(host.started), (std::vector<std::string>{"stayed", "moved away and back"}));
  host.advance(10s);
  EXPECT_EQ(host.started.size(), 2U);
}

TEST(Slack, WaitingTasksShareOneWake) {
  EngineOptions options;
  options.slack = 5ms;
  HostEngine host(options);
  host.run();
  for (const auto delay : {100ms, 101ms, 102ms, 103ms, 104ms, 105ms}) {
    host.schedule(after(delay));
  }
  host.engine->poll();
  // The smallest deadline + slack, and then all that is due.
  EXPECT_EQ(nanoseconds(host.engine->next_wake().boot_ns), 105ms);
  EXPECT_EQ(host.advance(105ms), 6U);
  EXPECT_EQ(nanoseconds(host.engine->stats().lateness_ns_max), 5ms);
  EXPECT_EQ(host.engine->next_wake().boot_ns, kNever);
}

TEST(Slack, ATasksOwnAndItsTypesComeBeforeTheEngines) {
  EngineOptions options;
  options.slack = 5ms;
  HostEngine host(options);
  TypePolicy patient;
  patient.slack = 50ms;
  ASSERT_TRUE(host.engine
                  ->on(
                      "patient", [](Delivery d) { (void)d.done(); }, patient)
                  .ok());
  host.run();
  const auto wake = [&] { return nanoseconds(host.engine->next_wake().boot_ns); };
  ASSERT_TRUE(host.engine->schedule({.type = "patient", .deadline = after(100ms)}));
  host.engine->poll();
  EXPECT_EQ(wake(), 150ms);
  host.schedule(after(100ms));
  host.engine->poll();
  EXPECT_EQ(wake(), 105ms);
  ASSERT_TRUE(host.engine->schedule({.type = "patient", .deadline = after(100ms), .slack = 0ms}));
  host.engine->poll();
  EXPECT_EQ(wake(), 100ms);
  EXPECT_EQ(host.engine->schedule({.type = "test", .deadline = after(1s), .slack = -1ns}).code(),
            Code::kOutOfRange);
  EXPECT_EQ(host.engine->schedule({.type = "test", .deadline = after(1s), .slack = 61s}).code(),
            Code::kOutOfRange);
}

}  // namespace
}  // namespace countwheel
