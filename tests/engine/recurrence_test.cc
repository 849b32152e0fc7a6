// Recurring tasks: one task, one id, many runs.
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/engine_fixture.h"
#include "testing/memory_log.h"
#include "testing/restarted.h"

namespace countwheel::testing {
namespace {

using namespace std::chrono_literals;

// An engine whose handler notes when it runs, and fails while it is told to.
class Chain : public HostEngine {
 public:
  explicit Chain(std::unique_ptr<Journal> journal = nullptr, TypePolicy policy = {})
      : HostEngine({}, nullptr, std::move(journal)) {
    EXPECT_TRUE(engine
                    ->on(
                        "test", [this](Delivery d) { run(std::move(d)); }, policy)
                    .ok());
    EXPECT_TRUE(engine->start().ok());
  }

  void run(Delivery delivery) {
    minutes.push_back(clock.now().boot_ns / (1min / 1ns));
    runs.push_back(delivery.run());
    attempts.push_back(delivery.attempt());
    tokens.push_back(delivery.fencing_token());
    clock.advance(takes);
    EXPECT_TRUE((fails ? delivery.fail("no") : delivery.done()).ok());
  }

  TaskId every(const Recurrence& recurrence,
               Deadline first = after(5min),
               std::string_view key = {}) {
    const Result<TaskId> id = engine->schedule(
        {.type = "test", .deadline = first, .key = key, .recurrence = &recurrence});
    EXPECT_TRUE(id.ok()) << id.status().text();
    return id.ok() ? *id : TaskId{};
  }

  std::vector<std::int64_t> minutes;
  std::vector<std::uint64_t> runs;
  std::vector<std::uint32_t> attempts;
  std::vector<FencingToken> tokens;
  std::chrono::nanoseconds takes{0};
  bool fails = false;
};

using Minutes = std::vector<std::int64_t>;

TEST(Recurrence, AFixedRateGoesByDeadlinesAndAFixedDelayByEnds) {
  Chain rate;
  rate.takes = 2min;
  rate.every(Recurrence::rate(5min));
  rate.advance_by_steps(20min, 1s);
  EXPECT_EQ(rate.minutes, (Minutes{5, 10, 15, 20, 25, 30}));
  Chain delay;
  delay.takes = 2min;
  delay.every(Recurrence::delay(5min));
  delay.advance_by_steps(20min, 1s);
  EXPECT_EQ(delay.minutes, (Minutes{5, 12, 19, 26}));
}

TEST(Recurrence, AChainIsOneTaskUntilItEnds) {
  MemoryLog log;
  Chain chain(log.journal());
  Recurrence recurrence = Recurrence::rate(5min);
  recurrence.count = 3;
  const TaskId id = chain.every(recurrence, after(5min), "report");
  const std::uint64_t ops = log.op_count();
  chain.advance_by_steps(11min, 1min);
  EXPECT_EQ(chain.engine->stats().pending, 1U);
  EXPECT_EQ(chain.engine->find("report")->id, id);
  EXPECT_EQ(chain.engine->find("report")->runs, 2U);
  chain.advance_by_steps(1h, 1min);
  EXPECT_EQ(chain.minutes, (Minutes{5, 10, 15}));
  EXPECT_EQ(chain.runs, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(chain.engine->find(id).code(), Code::kNotFound);
  EXPECT_EQ(log.op_count() - ops, 3U);  // one record a run
  const Stats stats = chain.engine->stats();
  EXPECT_EQ(stats.repeated, 2U);
  EXPECT_EQ(stats.done, 1U);
  EXPECT_EQ(stats.pending, 0U);
  EXPECT_EQ(chain.engine->check_invariants(), "");
}

TEST(Recurrence, NoRunIsAfterItsEnd) {
  Chain chain;
  Recurrence recurrence = Recurrence::rate(5min);
  recurrence.until = WallTime(std::chrono::nanoseconds(chain.clock.now().wall_ns)) + 15min;
  chain.every(recurrence);
  chain.advance_by_steps(1h, 1min);
  EXPECT_EQ(chain.minutes, (Minutes{5, 10, 15}));
  EXPECT_EQ(chain.engine->stats().pending, 0U);
}

TEST(Recurrence, CancellingOrMovingTheTaskIsCancellingOrMovingTheChain) {
  Chain chain;
  const TaskId id = chain.every(Recurrence::rate(5min));
  chain.advance_by_steps(6min, 1min);
  ASSERT_TRUE(chain.engine->reschedule(id, after(1min)).status.ok());
  chain.advance_by_steps(8min, 1min);
  EXPECT_EQ(chain.minutes, (Minutes{5, 7, 12}));
  EXPECT_TRUE(chain.engine->cancel(id));
  chain.advance_by_steps(1h, 1min);
  EXPECT_EQ(chain.minutes.size(), 3U);
}

TEST(Recurrence, ACancelDuringARunEndsTheChain) {
  HostEngine host;
  int runs = 0;
  ASSERT_TRUE(host.engine
                  ->on("test",
                       [&](Delivery d) {
                         ++runs;
                         EXPECT_EQ(host.engine->submit_cancel(d.id()).status.code(),
                                   Code::kTooLate);
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  const Recurrence recurrence = Recurrence::rate(1s);
  ASSERT_TRUE(
      host.engine->schedule({.type = "test", .deadline = after(1s), .recurrence = &recurrence})
          .ok());
  host.advance_by_steps(10s, 1s);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(host.engine->stats().pending, 0U);
}

TEST(Recurrence, AFailedRunIsTriedAgainAndTheSeriesStays) {
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(30s);
  policy.retry.max_attempts = 3;
  Chain chain(nullptr, policy);
  chain.fails = true;
  const TaskId id = chain.every(Recurrence::rate(5min));
  chain.advance_by_steps(5min + 30s, 30s);
  chain.fails = false;
  chain.advance_by_steps(5min, 30s);
  EXPECT_EQ(chain.minutes, (Minutes{5, 5, 6, 10}));
  EXPECT_EQ(chain.attempts, (std::vector<std::uint32_t>{1, 2, 3, 1}));
  EXPECT_EQ(chain.runs, (std::vector<std::uint64_t>{1, 1, 1, 2}));
  for (std::size_t i = 1; i < chain.tokens.size(); ++i) {
    EXPECT_LT(chain.tokens[i - 1], chain.tokens[i]);
  }
  // A run that fails for good is followed by the next one.
  chain.fails = true;
  chain.advance_by_steps(6min, 30s);
  chain.fails = false;
  chain.advance_by_steps(4min, 30s);
  EXPECT_EQ(chain.runs.back(), 4U);
  EXPECT_EQ(chain.minutes.back(), 20);
  EXPECT_EQ(chain.engine->find(id)->last_error, "no");
  EXPECT_EQ(chain.engine->stats().dead, 0U);
}

// A chain every 5 min from +5 min; the process ends at 7 min and is back at 39 min.
Minutes after_a_crash(Recurrence::CatchUp catch_up, std::uint64_t* pending) {
  MemoryLog log;
  Chain before(log.journal());
  before.every(Recurrence::rate(5min, catch_up));
  before.advance_by_steps(7min, 1min);
  EXPECT_EQ(before.minutes, (Minutes{5}));
  Restarted restarted(log, before.clock, 32min);
  EXPECT_EQ(restarted.summary.live, 1U);
  ManualClock& clock = restarted.clock;
  Engine& engine = *restarted.engine;
  Minutes minutes;
  EXPECT_TRUE(engine
                  .on("test",
                      [&](Delivery d) {
                        minutes.push_back(clock.now().boot_ns / (1min / 1ns));
                        EXPECT_TRUE(d.done().ok());
                      })
                  .ok());
  EXPECT_TRUE(engine.start().ok());
  for (int i = 0; i < 20; ++i) {
    engine.poll();
  }
  for (int i = 0; i < 6; ++i) {
    clock.advance(1min);
    engine.poll();
  }
  *pending = engine.stats().pending;
  EXPECT_EQ(engine.check_invariants(), "");
  return minutes;
}

TEST(Recurrence, B53_MissedRunsAreCaughtUpAsThePolicySays) {
  std::uint64_t pending = 0;
  EXPECT_EQ(after_a_crash(Recurrence::CatchUp::kOnce, &pending), (Minutes{39, 40, 45}));
  EXPECT_EQ(pending, 1U);
  EXPECT_EQ(after_a_crash(Recurrence::CatchUp::kAll, &pending),
            (Minutes{39, 39, 39, 39, 39, 39, 40, 45}));
  EXPECT_EQ(pending, 1U);
  EXPECT_EQ(after_a_crash(Recurrence::CatchUp::kSkip, &pending), (Minutes{40, 45}));
  EXPECT_EQ(pending, 1U);
}

// What the log says of a chain at any time is what memory says.
TEST(Recurrence, ACrashBetweenAnyTwoStepsKeepsRunSeriesAndRules) {
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(30s);
  policy.retry.max_attempts = 3;
  MemoryLog log;
  Chain chain(log.journal(), policy);
  Recurrence recurrence = Recurrence::rate(5min, Recurrence::CatchUp::kAll);
  recurrence.count = 9;
  const TaskId id = chain.every(recurrence);
  for (int i = 0; i < 60; ++i) {
    chain.fails = i % 7 == 3 || i % 7 == 4;
    chain.advance(30s);
    const Restarted restarted(log, chain.clock);
    const Result<TaskInfo> a = chain.engine->find(id);
    const Result<TaskInfo> b = restarted.engine->find(id);
    ASSERT_EQ(a.ok(), b.ok());
    if (a.ok()) {
      EXPECT_EQ(a->runs, b->runs);
      EXPECT_EQ(a->attempts, b->attempts);
      EXPECT_EQ(a->failures, b->failures);
      EXPECT_EQ(a->deadline, b->deadline);
      EXPECT_EQ(a->last_error, b->last_error);
      EXPECT_EQ(a->order_lsn, b->order_lsn);
    }
  }
}

TEST(Recurrence, AMarkOfAnEarlierRunIsNotTakenForTheNext) {
  MemoryLog log;
  Chain chain(log.journal());
  const TaskId id = chain.every(Recurrence::rate(5min));
  std::unique_ptr<Restarted> restarted;
  // The record of the first run's end is written, its mark not cleared yet.
  log.after_append = [&] { restarted = std::make_unique<Restarted>(log, chain.clock); };
  chain.advance(5min);
  log.after_append = nullptr;
  ASSERT_NE(restarted, nullptr);
  EXPECT_EQ(restarted->summary.redelivered, 0U);
  EXPECT_EQ(restarted->engine->find(id)->attempts, 0U);
  EXPECT_EQ(restarted->engine->find(id)->runs, 1U);
}

TEST(Recurrence, NonsenseIsRefusedByName) {
  HostEngine host;
  const Recurrence nothing;
  const Result<Scheduled> id =
      host.engine->schedule({.type = "test", .deadline = after(1s), .recurrence = &nothing});
  EXPECT_EQ(id.code(), Code::kInvalidArgument);
  EXPECT_NE(id.status().text().find("Recurrence::period"), std::string::npos);
}

TEST(NextDeadline, IsTheFirstOfTheSeriesThatIsNotPast) {
  const Recurrence once = Recurrence::rate(10ns);
  EXPECT_EQ(next_deadline(once, 100, 100), 110);
  EXPECT_EQ(next_deadline(once, 100, 109), 110);
  EXPECT_EQ(next_deadline(once, 100, 110), 120);
  EXPECT_EQ(next_deadline(once, 100, 1'005), 1'010);
  EXPECT_EQ(next_deadline(once, -100, 1'005), 1'010);
  EXPECT_EQ(next_deadline(Recurrence::rate(10ns, Recurrence::CatchUp::kAll), 100, 1'005), 110);
  EXPECT_EQ(next_deadline(Recurrence::delay(10ns), 100, 1'005), 1'015);
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(next_deadline(once, kMax - 5, 0), std::nullopt);
  EXPECT_EQ(next_deadline(once, kMax - 12, kMax - 1), std::nullopt);
  EXPECT_EQ(next_deadline(Recurrence::delay(10ns), 0, kMax - 5), std::nullopt);
  EXPECT_EQ(next_deadline(once, std::numeric_limits<std::int64_t>::min(), kMax - 20), kMax - 15);
}

}  // namespace
}  // namespace countwheel::testing
