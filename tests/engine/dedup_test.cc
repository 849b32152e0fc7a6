// Deduplication: a key that is refused for a while after its task is done.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "engine/dead_letter_fixture.h"
#include "testing/engine_fixture.h"
#include "testing/memory_log.h"
#include "testing/restarted.h"

namespace countwheel::testing {
namespace {

using namespace std::chrono_literals;

Result<Scheduled> once(Engine& engine,
                       std::string_view key,
                       KeyPolicy policy = KeyPolicy::kReject,
                       std::string_view payload = {}) {
  return engine.schedule({.type = "test",
                          .deadline = after(1s),
                          .key = key,
                          .payload = payload,
                          .key_policy = policy,
                          .dedup_window = 60s});
}

TEST(Dedup, B71_AKeyIsRefusedUntilItsWindowIsOverAlsoAcrossARestart) {
  MemoryLog log;
  GatedExecutor gate;
  HostEngine host({}, &gate, log.journal());
  host.run();
  const Result<Scheduled> first = once(*host.engine, "pay-1");
  ASSERT_TRUE(first.ok());
  const std::string id = std::to_string(first->value);
  // Pending.
  EXPECT_EQ(once(*host.engine, "pay-1").code(), Code::kExists);
  EXPECT_EQ(once(*Restarted(log, host.clock).engine, "pay-1").code(), Code::kExists);
  // In the pool, then done.
  host.advance(1s);
  const Result<Scheduled> second = once(*host.engine, "pay-1");
  EXPECT_EQ(second.code(), Code::kExists);
  EXPECT_NE(second.status().text().find(id), std::string::npos);
  gate.open();
  host.engine->poll();
  ASSERT_EQ(host.started.size(), 1U);
  for (const KeyPolicy policy : {KeyPolicy::kReject, KeyPolicy::kReplace, KeyPolicy::kKeep}) {
    const Result<Scheduled> again = once(*host.engine, "pay-1", policy);
    EXPECT_EQ(again.code(), Code::kDuplicate);
    EXPECT_NE(again.status().text().find(id), std::string::npos);
    EXPECT_EQ(once(*Restarted(log, host.clock).engine, "pay-1", policy).code(), Code::kDuplicate);
  }
  EXPECT_EQ(host.engine->find("pay-1").code(), Code::kNotFound);
  EXPECT_EQ(host.engine->find(*first).code(), Code::kNotFound);
  EXPECT_EQ(host.engine->cancel("pay-1").status.code(), Code::kNotFound);
  EXPECT_EQ(host.engine->stats().pending, 0U);
  // Until done + 60 s.
  host.advance(60s - 1ns);
  EXPECT_EQ(once(*host.engine, "pay-1").code(), Code::kDuplicate);
  EXPECT_EQ(once(*Restarted(log, host.clock).engine, "pay-1").code(), Code::kDuplicate);
  host.advance(1ns);
  EXPECT_TRUE(once(*Restarted(log, host.clock).engine, "pay-1").ok());
  EXPECT_TRUE(once(*host.engine, "pay-1").ok());
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Dedup, B71_ADeadOrCancelledTaskFreesItsKeyAtOnce) {
  MemoryLog log;
  FailingEngine host(FailingEngine::one_attempt(), log.journal());
  const Result<Scheduled> dead = once(*host.engine, "dead");
  const Result<Scheduled> cancelled = once(*host.engine, "cancelled");
  EXPECT_TRUE(host.engine->cancel(*cancelled));
  host.advance(1s);
  EXPECT_EQ(host.engine->find(*dead)->state, State::kDead);
  for (const char* key : {"dead", "cancelled"}) {
    EXPECT_TRUE(once(*Restarted(log, host.clock).engine, key).ok());
    EXPECT_TRUE(once(*host.engine, key).ok());
  }
}

// A cancel that came while it ran did not keep it from being done.
TEST(Dedup, TheWindowOfATaskThatWasCancelledTooLateIsThereAfterARestart) {
  for (const bool with_group : {false, true}) {
    MemoryLog log;
    HostEngine host({}, nullptr, log.journal());
    std::optional<Delivery> running;
    ASSERT_TRUE(host.engine->on("test", [&](Delivery d) { running = std::move(d); }).ok());
    ASSERT_TRUE(host.engine->start().ok());
    const TaskSpec spec{.type = "test",
                        .deadline = after(1s),
                        .key = "key",
                        .payload = "done once",
                        .group = 7,
                        .dedup_window = 60s};
    const Result<Scheduled> id = host.engine->schedule(spec);
    ASSERT_TRUE(id.ok());
    host.advance(1s);
    ASSERT_TRUE(running.has_value());
    if (with_group) {
      EXPECT_TRUE(host.engine->cancel_group(7).status.ok());
    } else {
      EXPECT_EQ(host.engine->cancel("key").status.code(), Code::kTooLate);
    }
    ASSERT_TRUE(running->done().ok());
    ASSERT_TRUE(host.engine->flush().ok());
    EXPECT_EQ(once(*host.engine, "key").code(), Code::kDuplicate);
    Restarted restarted(log, host.clock);
    EXPECT_EQ(restarted.engine->find(*id).code(), Code::kNotFound);
    EXPECT_EQ(once(*restarted.engine, "key").code(), Code::kDuplicate) << with_group;
    EXPECT_EQ(restarted.engine->stats().pending, 0U);
    EXPECT_EQ(restarted.engine->group_count(7), 0U);
    EXPECT_TRUE(once(*Restarted(log, host.clock, 60s).engine, "key").ok());
  }
}

TEST(Dedup, TheCleanerCarriesWindowsOn) {
  MemoryLog log;
  log.clean_above = 6;
  HostEngine host({}, nullptr, log.journal());
  host.run();
  ASSERT_TRUE(once(*host.engine, "key", KeyPolicy::kReject, std::string(500, 'x')).ok());
  host.advance(1s);
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(host.engine->cancel(host.schedule(after(1h))));
  }
  ASSERT_GT(host.engine->stats().reappended, 0U);
  EXPECT_EQ(once(*Restarted(log, host.clock).engine, "key").code(), Code::kDuplicate);
}

TEST(Dedup, WindowsThatAreOverCostNothing) {
  HostEngine host;
  host.run();
  const std::string payload(1000, 'x');
  for (int i = 0; i < 500; ++i) {
    const std::string key = "a-long-key-that-does-not-fit-a-node-" + std::to_string(i % 300);
    const Result<Scheduled> id = once(*host.engine, key, KeyPolicy::kReject, payload);
    ASSERT_TRUE(id.ok()) << i << id.status().text();
    host.advance(1s);
  }
  EXPECT_EQ(host.started.size(), 500U);
  EXPECT_EQ(host.started.back().payload, payload);
  EXPECT_EQ(host.engine->check_invariants(), "");
  EXPECT_EQ(host.engine->stats().pending_bytes, 0U);
}

TEST(Dedup, AWindowNeedsAKeyAndAReasonableLength) {
  HostEngine host;
  EXPECT_EQ(once(*host.engine, "").code(), Code::kInvalidArgument);
  EXPECT_EQ(host.engine->schedule({.type = "test", .key = "k", .dedup_window = -1ns}).code(),
            Code::kOutOfRange);
}

TEST(Reached, ACallSaysHowFarItsRecordHasTravelled) {
  MemoryLog log;
  HostEngine host({}, nullptr, log.journal());
  host.run();
  const auto at_level = [&](Durability level) {
    return host.engine->schedule({.type = "test", .deadline = after(1h), .durability = level});
  };
  EXPECT_EQ(at_level(Durability::kDisk)->reached, Durability::kDisk);
  const Result<Scheduled> os = at_level(Durability::kOs);
  EXPECT_EQ(os->reached, Durability::kOs);
  const Result<Scheduled> memory = at_level(Durability::kMemory);
  EXPECT_EQ(memory->reached, Durability::kMemory);
  EXPECT_EQ(host.engine->cancel(*os, Durability::kOs).reached, Durability::kOs);
  // Those that were written with others are as far as those.
  const Change change = host.engine->cancel(*memory, Durability::kDisk);
  EXPECT_EQ(change.reached, Durability::kDisk);
  EXPECT_EQ(host.engine->reached(memory->lsn), Durability::kDisk);
  EXPECT_EQ(host.engine->submit_cancel(TaskId{}).reached, Durability::kMemory);
}

}  // namespace
}  // namespace countwheel::testing
