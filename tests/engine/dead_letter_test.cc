// Dead letters: how a task becomes one, what it keeps, and the ways out.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "engine/dead_letter_fixture.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::AfterCrash;
using testing::FailingEngine;
using testing::HostEngine;
using testing::MemoryLog;

void expect_same(const TaskInfo& a, const TaskInfo& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.payload, b.payload);
  EXPECT_EQ(a.attempts, b.attempts);
  EXPECT_EQ(a.failures, b.failures);
  EXPECT_EQ(a.last_error, b.last_error);
  EXPECT_EQ(a.dead_reason, b.dead_reason);
  EXPECT_EQ(a.died_at, b.died_at);
  EXPECT_EQ(a.requeued_from, b.requeued_from);
}

TEST(DeadLetter, KeepsWhatItWasAndWhyAlsoOverARestart) {
  MemoryLog log;
  FailingEngine host(FailingEngine::one_attempt(), log.journal());
  const TaskId id = host.bury("order-1", "payload");
  const Result<TaskInfo> info = host.engine->find(id);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->dead_reason, DeadReason::kAttempts);
  EXPECT_EQ(info->last_error, "no luck with order-1");
  EXPECT_EQ(info->payload, "payload");
  EXPECT_EQ(info->attempts, 1U);
  EXPECT_EQ(info->died_at.time_since_epoch().count(), host.clock.now().wall_ns);
  ASSERT_TRUE(host.engine->flush().ok());
  AfterCrash restarted(log);
  const Result<TaskInfo> found = restarted.engine->find(id);
  ASSERT_TRUE(found.ok());
  expect_same(*found, *info);
  EXPECT_EQ(restarted.engine->check_invariants(), "");
}

TEST(DeadLetter, ListsInPages) {
  FailingEngine host;
  std::vector<TaskId> buried;
  for (int i = 0; i < 7; ++i) {
    buried.push_back(host.bury("key" + std::to_string(i)));
    host.schedule(after(1h));  // alive: not listed
  }
  std::vector<TaskId> listed;
  for (;;) {
    const std::vector<TaskInfo> page =
        host.engine->dead_letters(listed.empty() ? TaskId{} : listed.back(), 3);
    if (page.empty()) {
      break;
    }
    EXPECT_LE(page.size(), 3U);
    for (const TaskInfo& info : page) {
      EXPECT_EQ(info.state, State::kDead);
      listed.push_back(info.id);
    }
  }
  std::sort(buried.begin(), buried.end(), [](TaskId a, TaskId b) { return a.index() < b.index(); });
  EXPECT_EQ(listed, buried);
}

TEST(DeadLetter, RequeueMakesANewTaskWithFreshCounters) {
  MemoryLog log;
  FailingEngine host(FailingEngine::one_attempt(), log.journal());
  const TaskId letter = host.bury("order-1", "a payload on the heap, as long as it is");
  const Result<TaskId> id = host.engine->requeue(letter, after(10s));
  ASSERT_TRUE(id.ok()) << id.status().text();
  EXPECT_NE(*id, letter);
  EXPECT_EQ(host.engine->find(letter).code(), Code::kNotFound);
  EXPECT_EQ(host.engine->stats().dead, 0U);
  const Result<TaskInfo> info = host.engine->find("order-1");
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->id, *id);
  EXPECT_EQ(info->failures, 0U);
  EXPECT_EQ(info->attempts, 0U);
  EXPECT_EQ(info->requeued_from, letter);
  EXPECT_EQ(info->dead_reason, DeadReason::kNone);
  EXPECT_EQ(info->payload, "a payload on the heap, as long as it is");

  AfterCrash restarted(log);
  EXPECT_EQ(restarted.engine->find(letter).code(), Code::kNotFound);
  const Result<TaskInfo> found = restarted.engine->find(*id);
  ASSERT_TRUE(found.ok());
  expect_same(*found, *info);
  EXPECT_EQ(restarted.engine->stats().dead, 0U);

  host.succeed = true;
  host.advance(9s);
  EXPECT_EQ(host.runs, 1);
  host.advance(1s);
  EXPECT_EQ(host.runs, 2);
  EXPECT_EQ(host.engine->stats().pending, 0U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(DeadLetter, RequeueRefusesWhatIsNoneOrWhoseKeyIsTaken) {
  FailingEngine host;
  const TaskId alive = host.schedule(after(1h), "alive");
  EXPECT_EQ(host.engine->requeue(alive).code(), Code::kNotFound);
  EXPECT_EQ(host.engine->requeue(TaskId::of(77, 77)).code(), Code::kNotFound);
  const TaskId letter = host.bury("order-1");
  const TaskId holder = host.schedule(after(1h), "order-1");
  const Result<TaskId> taken = host.engine->requeue(letter);
  EXPECT_EQ(taken.code(), Code::kExists);
  EXPECT_NE(taken.status().text().find(std::to_string(holder.value)), std::string::npos);
  EXPECT_EQ(host.engine->find(letter)->state, State::kDead);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

// Were both left out of the log, the letter would be back after a crash.
TEST(DeadLetter, ARequeueAndItsCancelInOneBatchStillEndTheLetter) {
  MemoryLog log;
  FailingEngine host(FailingEngine::one_attempt(), log.journal());
  const TaskId letter = host.bury();
  const Result<Submitted> submitted = host.engine->submit_requeue(letter, after(1h));
  ASSERT_TRUE(submitted.ok());
  EXPECT_TRUE(host.engine->submit_cancel(submitted->id));
  ASSERT_TRUE(host.engine->flush().ok());
  AfterCrash restarted(log);
  EXPECT_EQ(restarted.engine->stats().dead, 0U);
  EXPECT_EQ(restarted.engine->stats().pending, 0U);
}

TEST(DeadLetter, B67_IsInExactlyOnePlaceWhereverTheLogEnds) {
  MemoryLog log;
  FailingEngine host(FailingEngine::one_attempt(), log.journal());
  for (int i = 0; i < 100; ++i) {
    host.bury("key" + std::to_string(i));
    if (i % 2 == 0) {
      const TaskId letter = host.engine->find(host.engine->dead_letters({}, 1)[0].id)->id;
      ASSERT_TRUE(host.engine->requeue(letter, after(1h)).ok());
    }
  }
  for (std::size_t size = 1; size <= log.size(); ++size) {
    const std::unique_ptr<MemoryLog> prefix = log.prefix(size);
    ManualClock clock;
    InlineExecutor executor;
    EngineOptions options;
    options.drive = Drive::kHost;
    const Result<testing::Recovered> recovered =
        testing::recover(*prefix, options, &clock, &executor);
    ASSERT_TRUE(recovered.ok()) << recovered.status().text();
    std::vector<std::string> keys;
    for (const TaskInfo& info : recovered->engine->list({}, 1000)) {
      keys.push_back(info.key);
    }
    std::sort(keys.begin(), keys.end());
    EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end()) << "prefix " << size;
    EXPECT_EQ(recovered->engine->check_invariants(), "") << "prefix " << size;
  }
}

TEST(DeadLetter, APurgedOneIsGoneForGood) {
  MemoryLog log;
  FailingEngine host(FailingEngine::one_attempt(), log.journal());
  const TaskId letter = host.bury("order-1");
  EXPECT_TRUE(host.engine->purge(letter));
  EXPECT_EQ(host.engine->purge(letter).status.code(), Code::kNotFound);
  EXPECT_EQ(host.engine->find(letter).code(), Code::kNotFound);
  EXPECT_EQ(host.engine->stats().dead, 0U);
  EXPECT_EQ(host.engine->check_invariants(), "");
  AfterCrash restarted(log);
  EXPECT_EQ(restarted.engine->find(letter).code(), Code::kNotFound);
}

TEST(DeadLetter, ARefusedRequeueOrPurgeLeavesTheLetter) {
  for (const bool requeue : {true, false}) {
    MemoryLog log;
    FailingEngine host(FailingEngine::one_attempt(), log.journal());
    const TaskId letter = host.bury("order-1", "payload");
    ASSERT_TRUE(host.engine->flush().ok());
    const TaskInfo before = *host.engine->find(letter);
    log.before_append = [](const Batch& batch) {
      return batch.op_count == 0 ? Status() : Status(Code::kNoSpace, "the test said so");
    };
    if (requeue) {
      EXPECT_EQ(host.engine->requeue(letter).code(), Code::kNoSpace);
    } else {
      EXPECT_EQ(host.engine->purge(letter).status.code(), Code::kNoSpace);
    }
    expect_same(*host.engine->find(letter), before);
    EXPECT_EQ(host.engine->stats().dead, 1U);
    EXPECT_EQ(host.engine->stats().pending, 0U);
    EXPECT_EQ(host.engine->check_invariants(), "");
  }
}

TEST(DeadLetter, OnlyAsManyAreKeptAsAllowedTheOldestGoFirst) {
  EngineOptions options;
  options.max_dead_count = 3;
  MemoryLog log;
  FailingEngine host(FailingEngine::one_attempt(), log.journal(), options);
  std::vector<TaskId> buried;
  for (int i = 0; i < 5; ++i) {
    const TaskId id = host.schedule(after(0s));
    host.advance(1ms);
    buried.push_back(id);
  }
  EXPECT_EQ(host.engine->stats().dead, 3U);
  EXPECT_EQ(host.engine->find(buried[0]).code(), Code::kNotFound);
  EXPECT_EQ(host.engine->find(buried[1]).code(), Code::kNotFound);
  EXPECT_TRUE(host.engine->find(buried[2]).ok());
  ASSERT_TRUE(host.engine->flush().ok());
  EngineOptions fewer;
  fewer.max_dead_count = 1;
  AfterCrash restarted(log, fewer);
  EXPECT_EQ(restarted.engine->stats().dead, 1U);
  EXPECT_TRUE(restarted.engine->find(buried[4]).ok());
}

TEST(DeadLetter, OldOnesGoWhenAnotherComes) {
  EngineOptions options;
  options.max_dead_age = 24h;
  FailingEngine host(FailingEngine::one_attempt(), nullptr, options);
  const TaskId old = host.bury();
  host.advance(25h);
  EXPECT_TRUE(host.engine->find(old).ok());
  host.bury();
  EXPECT_EQ(host.engine->find(old).code(), Code::kNotFound);
  EXPECT_EQ(host.engine->stats().dead, 1U);
}

}  // namespace
}  // namespace countwheel
