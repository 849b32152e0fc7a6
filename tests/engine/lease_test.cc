// Leases: how long an attempt may take, and what becomes of those that take longer.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"
#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::HostEngine;
using testing::ThreadedEngine;

TypePolicy with_lease(std::chrono::nanoseconds lease) {
  TypePolicy policy;
  policy.lease = lease;
  policy.retry = RetryPolicy::fixed(10s);
  return policy;
}

// A host-driven engine whose handler keeps every delivery: handlers that go on elsewhere.
class KeepingEngine : public HostEngine {
 public:
  explicit KeepingEngine(TypePolicy policy) {
    EXPECT_TRUE(engine
                    ->on(
                        "test", [this](Delivery d) { kept.push_back(std::move(d)); }, policy)
                    .ok());
    EXPECT_TRUE(engine->start().ok());
  }

  std::vector<Delivery> kept;
};

TEST(Lease, B68_CountsFromTheStartOfTheHandlerNotFromTheSchedule) {
  for (const auto& [lease, delay] :
       {std::pair<std::chrono::nanoseconds, std::chrono::hours>(2s, 0h),
        std::pair<std::chrono::nanoseconds, std::chrono::hours>(1h, 6h)}) {
    KeepingEngine host(with_lease(lease));
    host.schedule(after(delay + 5s));
    host.advance(delay + 5s);
    ASSERT_EQ(host.kept.size(), 1U);
    host.advance(100ms);
    EXPECT_TRUE(host.kept[0].done().ok());
    host.advance_by_steps(2 * lease, lease / 4);
    EXPECT_EQ(host.kept.size(), 1U);
    EXPECT_EQ(host.engine->stats().done, 1U);
    EXPECT_EQ(host.engine->stats().leases_expired, 0U);
  }
}

TEST(Lease, B69_OneThatIsExtendedInTimeHolds) {
  KeepingEngine host(with_lease(1s));
  host.schedule(after(1s));
  host.advance(1s);
  for (int i = 0; i < 10; ++i) {  // 3 s of work
    host.advance(300ms);
    ASSERT_TRUE(host.kept.at(0).extend_lease(1s).ok());
  }
  EXPECT_FALSE(host.kept[0].cancel_requested());
  EXPECT_TRUE(host.kept[0].done().ok());
  host.advance(10s);
  EXPECT_EQ(host.kept.size(), 1U);
}

TEST(Lease, B69_OneThatIsNotGoesToTheNextAttemptAndFencesTheLateAnswer) {
  KeepingEngine host(with_lease(1s));
  host.schedule(after(1s), "order-1", "a payload that does not fit into the node");
  host.advance(1s);
  host.advance(500ms);
  ASSERT_TRUE(host.kept.at(0).extend_lease(1s).ok());
  host.advance_by_steps(999ms, 3ms);
  ASSERT_EQ(host.kept.size(), 1U);
  EXPECT_FALSE(host.kept[0].cancel_requested());
  host.advance_by_steps(20ms, 10ms);  // 1.5 s after the start, and one tick
  ASSERT_EQ(host.kept.size(), 2U);
  EXPECT_LT(host.kept[0].fencing_token(), host.kept[1].fencing_token());
  EXPECT_EQ(host.kept[1].attempt(), 2U);
  EXPECT_TRUE(host.kept[0].cancel_requested());
  EXPECT_EQ(host.kept[0].extend_lease(1s).code(), Code::kStaleLease);
  EXPECT_EQ(host.engine->stats().stuck, 1U);
  EXPECT_EQ(host.engine->stats().running, 1U);

  ASSERT_TRUE(host.kept[1].done().ok());
  host.engine->poll();
  // Its slot may have another tenant by now; what it was given is still there.
  host.schedule(after(1h), "order-2", "another payload that does not fit either");
  EXPECT_EQ(host.kept[0].key(), "order-1");
  EXPECT_EQ(host.kept[0].payload(), "a payload that does not fit into the node");
  EXPECT_EQ(host.kept[0].done().code(), Code::kStaleLease);
  const Stats stats = host.engine->stats();
  EXPECT_EQ(stats.done, 1U);
  EXPECT_EQ(stats.stuck, 0U);
  EXPECT_EQ(stats.running, 0U);
  EXPECT_EQ(stats.leases_expired, 1U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Lease, B70_TasksThatHaveNotStartedHaveNone) {
  testing::GatedExecutor gate(5);
  HostEngine host({}, &gate);
  host.run(with_lease(100ms));
  for (int i = 0; i < 100; ++i) {
    host.schedule(after(10s));
  }
  host.advance_by_steps(9900ms, 100ms);
  EXPECT_TRUE(host.started.empty());
  host.advance_by_steps(5s, 100ms);  // due, and the pool is busy with something else
  EXPECT_TRUE(host.started.empty());
  EXPECT_EQ(host.engine->stats().leases_expired, 0U);
  while (gate.open() != 0) {
    host.engine->poll();
  }
  EXPECT_EQ(host.started.size(), 100U);
  EXPECT_EQ(host.engine->stats().leases_expired, 0U);
}

TEST(Lease, TheLastAttemptThatTakesTooLongIsADeadLetter) {
  TypePolicy policy = with_lease(1s);
  policy.retry.max_attempts = 2;
  KeepingEngine host(policy);
  const TaskId id = host.schedule(after(1s));
  host.advance_by_steps(4s, 100ms);
  ASSERT_EQ(host.kept.size(), 2U);
  const Result<TaskInfo> info = host.engine->find(id);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->state, State::kDead);
  EXPECT_EQ(info->last_error, "lease_expired");
  for (Delivery& delivery : host.kept) {
    EXPECT_EQ(delivery.fail("late").code(), Code::kStaleLease);
  }
}

TEST(Lease, ACancelMeanwhileIsTheEndWhenTheLeaseIsOver) {
  KeepingEngine host(with_lease(1s));
  const TaskId id = host.schedule(after(1s));
  host.advance(1s);
  EXPECT_EQ(host.engine->cancel(id).status.code(), Code::kTooLate);
  host.advance_by_steps(10s, 1s);
  EXPECT_EQ(host.kept.size(), 1U);
  EXPECT_EQ(host.engine->stats().cancelled, 1U);
  EXPECT_EQ(host.engine->stats().pending, 0U);
}

TEST(Lease, AnExtensionNeverShortens) {
  KeepingEngine host(with_lease(10s));
  host.schedule(after(1s));
  host.advance(1s);
  EXPECT_TRUE(host.kept.at(0).extend_lease(1ms).ok());
  host.advance(9s);
  EXPECT_TRUE(host.kept[0].done().ok());
}

TEST(Lease, NonsenseIsRefusedByName) {
  HostEngine host;
  for (const auto lease : {std::chrono::nanoseconds(-1), std::chrono::nanoseconds(31 * 24h)}) {
    const Status status = host.engine->on(
        "test", [](Delivery) {}, with_lease(lease));
    EXPECT_EQ(status.code(), Code::kOutOfRange);
    EXPECT_NE(status.text().find("TypePolicy::lease"), std::string::npos) << status.text();
  }
  KeepingEngine keeping(with_lease(1s));
  keeping.schedule(after(0s));
  keeping.engine->poll();
  EXPECT_EQ(keeping.kept.at(0).extend_lease(0s).code(), Code::kOutOfRange);
  EXPECT_EQ(keeping.kept.at(0).extend_lease(31 * 24h).code(), Code::kOutOfRange);
}

TEST(Lease, WithoutOneThereIsNothingToExtend) {
  KeepingEngine host({});
  host.schedule(after(1s));
  host.advance(1s);
  EXPECT_TRUE(host.kept.at(0).extend_lease(1s).ok());
  host.advance(24h);
  EXPECT_TRUE(host.kept[0].done().ok());
}

// A machine that stood still gave its handlers no time to work.
TEST(Lease, ASuspendOfTheMachineDoesNotCount) {
  ThreadedEngine threaded;
  std::atomic<bool> started{false};
  std::atomic<bool> go_on{false};
  std::atomic<Code> answer{Code::kOk};
  ASSERT_TRUE(threaded.engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        started = true;
                        EXPECT_TRUE(eventually([&] { return go_on.load(); }));
                        answer = d.done().code();
                      },
                      with_lease(10s))
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  threaded.schedule(after(1s));
  threaded.clock.advance(1s);
  ASSERT_TRUE(eventually([&] { return started.load(); }));
  threaded.clock.suspend(1h);
  const std::uint64_t steps = threaded.engine->stats().steps;
  ASSERT_TRUE(eventually([&] {
    threaded.clock.advance(1ms);  // and it wakes
    return threaded.engine->stats().steps > steps + 2;
  }));
  EXPECT_EQ(threaded.engine->stats().leases_expired, 0U);
  go_on = true;
  ASSERT_TRUE(threaded.wait_idle());
  EXPECT_EQ(answer, Code::kOk);
  EXPECT_EQ(threaded.engine->stats().leases_expired, 0U);
}

// The pool has a second worker: the task goes on there while the first hangs.
TEST(Lease, AHandlerThatHangsIsCountedAndNamedByStop) {
  ThreadedEngine threaded;
  std::atomic<int> starts{0};
  std::atomic<bool> go_on{false};
  std::atomic<Code> late_answer{Code::kOk};
  ASSERT_TRUE(threaded.engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        if (++starts == 1) {
                          EXPECT_TRUE(eventually([&] { return go_on.load(); }));
                          late_answer = d.done().code();
                          return;
                        }
                        EXPECT_EQ(d.attempt(), 2U);
                        EXPECT_TRUE(d.done().ok());
                      },
                      with_lease(1s))
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  const TaskId id = threaded.schedule(after(1s));
  threaded.clock.advance(1s);
  ASSERT_TRUE(eventually([&] { return starts == 1; }));
  // In steps, as time passes for a thread that is not held up.
  ASSERT_TRUE(eventually([&] {
    threaded.clock.advance(50ms);
    return starts == 2;
  }));
  ASSERT_TRUE(threaded.wait_idle());
  EXPECT_EQ(threaded.engine->stats().stuck, 1U);
  EXPECT_EQ(threaded.engine->stats().done, 1U);
  const Status stopped = threaded.engine->stop(0s);
  EXPECT_EQ(stopped.code(), Code::kTimedOut);
  EXPECT_NE(stopped.text().find("task " + std::to_string(id.value)), std::string::npos)
      << stopped.text();
  go_on = true;
  ASSERT_TRUE(eventually([&] { return late_answer != Code::kOk; }));
  EXPECT_EQ(late_answer, Code::kStaleLease);
}

TEST(Lease, AnExceptionAfterItsEndChangesNothing) {
  ThreadedEngine threaded;
  std::atomic<int> starts{0};
  std::atomic<bool> go_on{false};
  ASSERT_TRUE(threaded.engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        if (++starts == 1) {
                          EXPECT_TRUE(eventually([&] { return go_on.load(); }));
                          throw std::runtime_error("too late to matter");
                        }
                        EXPECT_TRUE(d.done().ok());
                      },
                      with_lease(1s))
                  .ok());
  ASSERT_TRUE(threaded.engine->start().ok());
  threaded.schedule(after(1s));
  ASSERT_TRUE(eventually([&] {
    threaded.clock.advance(50ms);
    return starts == 2;
  }));
  go_on = true;
  ASSERT_TRUE(threaded.wait_idle());
  ASSERT_TRUE(eventually([&] { return threaded.engine->stats().stuck == 0; }));
  const Stats stats = threaded.engine->stats();
  EXPECT_EQ(stats.done, 1U);
  EXPECT_EQ(stats.failed_attempts, 1U);
}

}  // namespace
}  // namespace countwheel
