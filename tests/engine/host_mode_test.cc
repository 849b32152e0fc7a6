// An engine inside a host's own loop: its time, its order, its snapshots.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "testing/memory_log.h"

namespace countwheel::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kStartNs = 1'767'600'000'000'000'000;

Instant at_ns(std::int64_t ns) {
  return {kStartNs + ns, ns};
}

struct Fired {
  std::string key;
  std::uint64_t sequence;
  std::int64_t lateness_ns;
  std::uint32_t attempt;
  friend bool operator==(const Fired&, const Fired&) = default;
};

// A deterministic machine: everything it does follows from the calls and the times it is given.
class Machine {
 public:
  explicit Machine(MemoryLog& log, std::int64_t now_ns = 0) {
    clock.set(at_ns(now_ns));
    EngineOptions options;
    options.drive = Drive::kHost;
    Result<Recovered> recovered = recover(log, options, &clock, &executor_);
    EXPECT_TRUE(recovered.ok()) << recovered.status().text();
    engine = std::move(recovered->engine);
    EXPECT_TRUE(engine->on("test", [this](Delivery d) { run(std::move(d)); }).ok());
  }

  void run(Delivery d) {
    fired.push_back({std::string(d.key()), d.sequence(), d.lateness().count(), d.attempt()});
    if (d.payload() == "keep" && d.attempt() == 1) {
      EXPECT_TRUE(d.keep(at(d.deadline() + 5s)).ok());
    } else if (d.payload() == "not now" && d.attempt() < 3) {
      EXPECT_TRUE(d.not_now().ok());
    } else {
      EXPECT_TRUE(d.done().ok());
    }
  }

  // The i-th command of a script, at its time.
  void command(int i) {
    std::mt19937_64 random(static_cast<std::uint64_t>(i));
    (void)engine->poll(at_ns(i * 100'000'000L), 3);
    const std::string key = "o" + std::to_string(random() % 40);
    const char* payloads[] = {"", "keep", "not now"};
    (void)engine->submit({.type = "test",
                          .deadline = after(std::chrono::milliseconds(random() % 3000)),
                          .key = key,
                          .payload = payloads[random() % 3],
                          .key_policy = KeyPolicy::kReplace,
                          .group = random() % 4});
    if (random() % 3 == 0) {
      (void)engine->submit_cancel("o" + std::to_string(random() % 40));
    }
    if (random() % 9 == 0) {
      (void)engine->submit_expire_group(random() % 3 + 1);
    }
  }

  InlineExecutor executor_;
  ManualClock clock;
  std::vector<Fired> fired;
  std::unique_ptr<Engine> engine;
};

TEST(HostMode, TheSameCallsAtTheSameTimesDoTheSame) {
  MemoryLog one_log;
  MemoryLog other_log;
  Machine one(one_log);
  Machine other(other_log);
  ASSERT_TRUE(one.engine->start().ok());
  ASSERT_TRUE(other.engine->start().ok());
  for (int i = 0; i < 600; ++i) {
    one.command(i);
    other.clock.advance(7s);  // Whatever its own clock says.
    other.command(i);
  }
  EXPECT_GT(one.fired.size(), 300U);
  EXPECT_EQ(one.fired, other.fired);
  EXPECT_EQ(one.engine->check_invariants(), "");
}

TEST(HostMode, ARecoveredHostGoesOnAsTheOtherWouldHave) {
  for (const int crash : {50, 199, 333}) {
    MemoryLog log;
    Machine machine(log);
    ASSERT_TRUE(machine.engine->start().ok());
    for (int i = 0; i < crash; ++i) {
      machine.command(i);
    }
    ASSERT_TRUE(machine.engine->flush().ok());
    const std::unique_ptr<MemoryLog> image = log.killed();
    Machine recovered(*image, (crash - 1) * 100'000'000L);
    ASSERT_TRUE(recovered.engine->start().ok());
    // No calls any more: what is there runs out, in the same order.
    machine.fired.clear();
    for (int i = crash; i < crash + 100; ++i) {
      (void)machine.engine->poll(at_ns(i * 100'000'000L), 3);
      (void)recovered.engine->poll(at_ns(i * 100'000'000L), 3);
    }
    ASSERT_EQ(machine.fired.size(), recovered.fired.size());
    for (std::size_t i = 0; i < machine.fired.size(); ++i) {
      EXPECT_EQ(machine.fired[i].key, recovered.fired[i].key) << i;
      EXPECT_EQ(machine.fired[i].lateness_ns, recovered.fired[i].lateness_ns) << i;
      EXPECT_EQ(recovered.fired[i].sequence, i + 1) << i;
    }
  }
}

TEST(HostMode, APollHandsOverNoMoreThanItsLimit) {
  MemoryLog log;
  Machine machine(log);
  ASSERT_TRUE(machine.engine->start().ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(
        machine.engine->submit({.type = "test", .deadline = after(1s), .key = std::to_string(i)})
            .ok());
  }
  EXPECT_EQ(machine.engine->poll(at_ns(0), 3), 0U);
  EXPECT_EQ(machine.engine->poll(at_ns(1'000'000'000), 3), 3U);
  EXPECT_EQ(machine.fired.size(), 3U);
  EXPECT_EQ(machine.engine->poll(at_ns(1'000'000'000)), 7U);
}

TEST(HostMode, ADeliveryThatIsPutBackHasNotFailed) {
  MemoryLog log;
  Machine machine(log);
  ASSERT_TRUE(machine.engine->start().ok());
  const Result<Submitted> kept = machine.engine->submit(
      {.type = "test", .deadline = after(1s), .key = "kept", .payload = "keep"});
  const Result<Submitted> not_now = machine.engine->submit(
      {.type = "test", .deadline = after(1s), .key = "n", .payload = "not now"});
  (void)machine.engine->poll(at_ns(0));
  (void)machine.engine->poll(at_ns(1'000'000'000));
  EXPECT_EQ(machine.engine->find(kept->id)->failures, 0U);
  EXPECT_EQ(machine.engine->stats().failed_attempts, 0U);
  // The one at its new time, the other with each step until it is taken.
  for (int i = 0; i < 5; ++i) {
    (void)machine.engine->poll(at_ns(1'000'000'000));
  }
  EXPECT_EQ(machine.engine->find(not_now->id).code(), Code::kNotFound);
  EXPECT_EQ(machine.fired.size(), 4U);
  (void)machine.engine->poll(at_ns(5'999'999'999));
  EXPECT_EQ(machine.fired.size(), 4U);
  (void)machine.engine->poll(at_ns(6'000'000'000));
  ASSERT_EQ(machine.fired.size(), 5U);
  EXPECT_EQ(machine.fired.back().key, "kept");
  EXPECT_EQ(machine.fired.back().lateness_ns, 0);
  EXPECT_EQ(machine.engine->stats().done, 2U);
}

TEST(HostMode, ADeadlineThatMakesNoSenseLeavesTheDeliveryAsItIs) {
  MemoryLog log;
  EngineOptions options;
  options.drive = Drive::kHost;
  InlineExecutor executor;
  ManualClock clock;
  Result<Recovered> recovered = recover(log, options, &clock, &executor);
  Engine& engine = *recovered->engine;
  ASSERT_TRUE(engine
                  .on("test",
                      [](Delivery d) {
                        EXPECT_EQ(d.keep(after(24h * 365 * 100)).code(), Code::kOutOfRange);
                        EXPECT_FALSE(d.answered());
                        EXPECT_TRUE(d.done().ok());
                        EXPECT_EQ(d.keep(after(1s)).code(), Code::kStaleLease);
                        EXPECT_EQ(d.not_now().code(), Code::kStaleLease);
                      })
                  .ok());
  ASSERT_TRUE(engine.start().ok());
  ASSERT_TRUE(engine.schedule({.type = "test"}).ok());
  engine.poll();
  EXPECT_EQ(engine.stats().done, 1U);
}

TEST(HostMode, ASnapshotIsOfOneMomentAndHandlesComeBackByKey) {
  MemoryLog log;
  Machine machine(log);
  ASSERT_TRUE(machine.engine->start().ok());
  for (int i = 0; i < 100; ++i) {
    machine.command(i);
  }
  ASSERT_TRUE(machine.engine->flush().ok());
  std::vector<std::pair<std::string, TaskId>> orders;
  const Result<Lsn> lsn = machine.engine->snapshot(
      [&](const TaskInfo& task) { orders.emplace_back(task.key, task.id); });
  ASSERT_TRUE(lsn.ok());
  EXPECT_EQ(lsn->value, machine.engine->stats().next_lsn - 1);
  EXPECT_EQ(orders.size(), machine.engine->stats().pending);
  ASSERT_GT(orders.size(), 5U);
  const std::unique_ptr<MemoryLog> image = log.killed();
  Machine recovered(*image, 99 * 100'000'000L);
  for (const auto& [key, id] : orders) {  // before start()
    const Result<TaskInfo> task = recovered.engine->find(key);
    ASSERT_TRUE(task.ok()) << key;
    EXPECT_EQ(task->id, id);
  }
}

}  // namespace
}  // namespace countwheel::testing
