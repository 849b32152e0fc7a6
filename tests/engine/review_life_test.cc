// The engine before it starts, while it loads, in a fork, and at the end of its numbers.
#include <chrono>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <countwheel/engine.h>
#include <countwheel/restore.h>

#include "testing/engine_fixture.h"
#include "testing/memory_log.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::HostEngine;
using testing::MemoryLog;

TEST(EngineLife, NextWakeIsKnownBeforeTheStart) {
  HostEngine host;
  EXPECT_EQ(host.engine->next_wake(), (Instant{kNever, kNever}));
}

TEST(EngineLife, NextWakeIsNowWhileATaskIsOnItsWayToTheWheel) {
  HostEngine host;
  host.run();
  ASSERT_TRUE(host.engine->submit({.type = "test", .deadline = after(1h)}).ok());
  EXPECT_EQ(host.engine->next_wake(), host.clock.now());
  ASSERT_TRUE(host.engine->flush().ok());
  EXPECT_EQ(host.engine->next_wake(), host.clock.now()) << "durable, in the mailbox";
  host.engine->poll();
  EXPECT_GT(host.engine->next_wake().boot_ns, host.clock.now().boot_ns);
}

TEST(EngineLife, WhileItLoadsEveryCallSaysSo) {
  HostEngine host;
  Restorer restorer(*host.engine);
  EXPECT_EQ(host.engine->on("test", [](const Delivery&) {}).code(), Code::kRecovering);
  EXPECT_EQ(host.engine->find(TaskId::of(1, 1)).code(), Code::kRecovering);
  EXPECT_EQ(host.engine->find("key").code(), Code::kRecovering);
  EXPECT_EQ(host.engine->submit({.type = "test", .deadline = after(1h)}).code(), Code::kRecovering);
  EXPECT_EQ(host.engine->wait_durable(Lsn{1}).code(), Code::kRecovering);
  EXPECT_TRUE(host.engine->list({}, 10).empty());
  EXPECT_EQ(host.engine->stats().pending, 0U);
  EXPECT_EQ(host.engine->start().code(), Code::kRecovering);
}

TEST(EngineLife, AForkOfTheProcessCanDestroyItsCopy) {
  Result<std::unique_ptr<Engine>> engine = Engine::create({});
  ASSERT_TRUE(engine.ok());
  ASSERT_TRUE((*engine)->start().ok());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool refused = (*engine)->stop().code() == Code::kForked &&
                         (*engine)->find("key").code() == Code::kForked &&
                         (*engine)->flush().code() == Code::kForked;
    engine->reset();
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE((*engine)->stop().ok());
}

TEST(EngineLife, WithoutGenerationsLeftNoIdIsGivenTwice) {
  HostEngine host;
  LogEnd end;
  end.last_lsn = 1;
  end.generation_ceiling = 0xffffffff;
  {
    Restorer restorer(*host.engine);
    ASSERT_TRUE(restorer.finish(end).ok());
  }
  host.run();
  EXPECT_EQ(host.engine->submit({.type = "test", .deadline = after(1h)}).code(), Code::kResource);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(EngineLife, ASlotAtItsLastGenerationIsRetiredByARestartToo) {
  HostEngine host;
  constexpr std::uint32_t kLast = 0xffffffff;
  {
    Restorer restorer(*host.engine);
    Op type;
    type.kind = OpKind::kType;
    type.lsn = 1;
    type.data = "test";
    type.payload_bytes = 4;
    ASSERT_TRUE(restorer.apply(type, 0).ok());
    Op op;
    op.kind = OpKind::kSchedule;
    op.lsn = 2;
    op.base_lsn = 2;
    op.id = TaskId::of(0, kLast);
    ASSERT_TRUE(restorer.apply(op, 0).ok());
    op.kind = OpKind::kDone;
    op.lsn = 3;
    ASSERT_TRUE(restorer.apply(op, 0).ok());
    LogEnd end;
    end.last_lsn = 3;
    end.generation_ceiling = 7;  // As if the slot alone had come so far.
    ASSERT_TRUE(restorer.finish(end).ok());
  }
  host.run();
  for (int i = 0; i < 20; ++i) {
    const TaskId id = host.schedule(after(1h));
    EXPECT_NE(id.generation(), 0U);
    EXPECT_NE(id.value, TaskId::of(0, kLast).value);
  }
}

// The process dies while a task and its successor are there, twice; the order between them stays.
TEST(EngineLife, ASuccessorStaysBehindItsPredecessorOverTwoCrashes) {
  MemoryLog log;
  ManualClock clock;
  InlineExecutor executor;
  EngineOptions options;
  options.drive = Drive::kHost;
  EngineParts parts;
  parts.clock = &clock;
  parts.executor = &executor;
  parts.journal = log.journal();
  Result<std::unique_ptr<Engine>> engine = Engine::create(options, std::move(parts));
  ASSERT_TRUE(engine.ok());
  std::optional<Delivery> held;
  ASSERT_TRUE((*engine)->on("test", [&](Delivery d) { held.emplace(std::move(d)); }).ok());
  ASSERT_TRUE((*engine)->start().ok());
  TaskSpec spec = {.type = "test", .deadline = after(0ns), .key = "k", .payload = "first"};
  ASSERT_TRUE((*engine)->schedule(spec).ok());
  (*engine)->poll();
  ASSERT_TRUE(held.has_value());
  spec.payload = "second";
  spec.key_policy = KeyPolicy::kReplace;
  ASSERT_TRUE((*engine)->schedule(spec).ok());

  std::unique_ptr<MemoryLog> image = log.killed();
  for (int crash = 0; crash < 2; ++crash) {
    Result<testing::Recovered> recovered = recover(*image, options, &clock, &executor);
    ASSERT_TRUE(recovered.ok());
    ASSERT_TRUE(recovered->engine->flush().ok());
    std::unique_ptr<MemoryLog> next = image->killed();
    recovered->engine.reset();
    image = std::move(next);
  }
  const Result<testing::Recovered> recovered = recover(*image, options, &clock, &executor);
  ASSERT_TRUE(recovered.ok());
  std::vector<std::string> order;
  ASSERT_TRUE(recovered->engine
                  ->on("test",
                       [&](Delivery d) {
                         order.emplace_back(d.payload());
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(recovered->engine->start().ok());
  for (int i = 0; i < 5; ++i) {
    recovered->engine->poll();
  }
  EXPECT_EQ(order, (std::vector<std::string>{"first", "second"}));
  EXPECT_TRUE(held->done().ok());
}

}  // namespace
}  // namespace countwheel
