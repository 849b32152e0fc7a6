// When a failed task is tried again, how often, and what counts as a failure.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>
#include <countwheel/retry.h>

#include "testing/engine_fixture.h"
#include "testing/memory_log.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::HostEngine;
using testing::MemoryLog;

TEST(RetryCases, B64_BackoffDoublesToItsCapAndNeverOverflows) {
  const RetryPolicy policy = RetryPolicy::exponential(100ms, 2.0, 45s);
  nanoseconds previous{0};
  for (std::uint32_t failures = 1; failures <= 200; ++failures) {
    const nanoseconds delay = backoff(policy, failures, 7);
    EXPECT_EQ(delay,
              failures <= 9 ? nanoseconds(100ms) * (1 << (failures - 1)) : nanoseconds(45'000ms))
        << failures;
    EXPECT_GT(delay, 0ns);
    EXPECT_GE(delay, previous);
    previous = delay;
  }
  EXPECT_EQ(backoff(policy, 9, 0), 25'600ms);
  EXPECT_EQ(backoff(policy, 10, 0), 45'000ms);
  EXPECT_EQ(backoff(policy, 0xffffffff, 0), 45'000ms);  // "infinite"
}

TEST(RetryCases, B64_JitterTakesAwayAtMostItsShare) {
  RetryPolicy policy = RetryPolicy::exponential(100ms, 2.0, 45s);
  policy.jitter = 0.2;
  bool differ = false;
  for (std::uint32_t failures = 1; failures <= 200; ++failures) {
    RetryPolicy plain = policy;
    plain.jitter = 0;
    const nanoseconds full = backoff(plain, failures, 0);
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const nanoseconds delay = backoff(policy, failures, seed);
      EXPECT_GE(delay.count(), full.count() * 8 / 10);  // 0.8x, and never above the cap
      EXPECT_LE(delay, full);
      EXPECT_LE(delay, 45s);
      differ |= delay != full;
      EXPECT_EQ(delay, backoff(policy, failures, seed));  // the same seed, the same delay
    }
  }
  EXPECT_TRUE(differ);
}

// Fails every attempt; answers the delays between the starts.
std::vector<nanoseconds> delays_between_starts(const TypePolicy& policy, int starts_wanted) {
  HostEngine host;
  std::vector<nanoseconds> starts;
  EXPECT_TRUE(host.engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        starts.push_back(nanoseconds(host.clock.now().boot_ns));
                        EXPECT_TRUE(d.fail("again").ok());
                      },
                      policy)
                  .ok());
  EXPECT_TRUE(host.engine->start().ok());
  host.schedule(after(0s));
  host.engine->poll();
  while (static_cast<int>(starts.size()) < starts_wanted) {
    const std::int64_t wake = host.engine->next_wake().boot_ns;
    if (wake == kNever) {
      break;
    }
    host.advance(nanoseconds(wake - host.clock.now().boot_ns));
  }
  std::vector<nanoseconds> delays;
  for (std::size_t i = 1; i < starts.size(); ++i) {
    delays.push_back(starts[i] - starts[i - 1]);
  }
  return delays;
}

TEST(RetryCases, B65_DelaysAfterEachFailure) {
  TypePolicy exponential;
  exponential.retry = RetryPolicy::exponential(100ms, 2.0, 45s);
  exponential.retry.max_attempts = 100;
  EXPECT_EQ(delays_between_starts(exponential, 6),
            (std::vector<nanoseconds>{100ms, 200ms, 400ms, 800ms, 1600ms}));
  // Pinned: the last of a list is repeated until max_attempts.
  TypePolicy list;
  list.retry = RetryPolicy::list({10s, 20s, 30s});
  list.retry.max_attempts = 6;
  EXPECT_EQ(delays_between_starts(list, 100), (std::vector<nanoseconds>{10s, 20s, 30s, 30s, 30s}));
}

TEST(RetryCases, B65_DelaysCountFromTheFailureNotFromTheStart) {
  HostEngine host;
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(10s);
  std::vector<nanoseconds> starts;
  ASSERT_TRUE(host.engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        starts.push_back(nanoseconds(host.clock.now().boot_ns));
                        host.clock.advance(3s);  // the handler takes its time
                        EXPECT_TRUE(d.fail("slow").ok());
                      },
                      policy)
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  host.schedule(after(0s));
  host.engine->poll();
  host.advance_by_steps(10s, 100ms);
  EXPECT_EQ(starts, (std::vector<nanoseconds>{0s, 13s}));
}

TEST(RetryCases, B66_MaxAttemptsCountsStartsOfFailingHandlers) {
  for (const std::uint32_t max_attempts : {1U, 3U}) {
    HostEngine host;
    TypePolicy policy;
    policy.retry = RetryPolicy::fixed(1s);
    policy.retry.max_attempts = max_attempts;
    std::uint32_t entered = 0;
    ASSERT_TRUE(host.engine
                    ->on(
                        "test",
                        [&](Delivery d) {
                          EXPECT_EQ(d.attempt(), ++entered);
                          EXPECT_TRUE(d.fail("no").ok());
                        },
                        policy)
                    .ok());
    ASSERT_TRUE(host.engine->start().ok());
    const TaskId id = host.schedule(after(0s));
    host.engine->poll();
    host.advance_by_steps(100s, 100ms);
    EXPECT_EQ(entered, max_attempts);
    EXPECT_EQ(host.engine->find(id)->state, State::kDead);
    EXPECT_EQ(host.engine->find(id)->failures, max_attempts);
    EXPECT_EQ(host.engine->find(id)->crashes, 0U);
  }
}

// A process that is killed in the middle of its handler: the image is taken there.
class KilledInHandler {
 public:
  explicit KilledInHandler(TypePolicy policy) : policy_(std::move(policy)) {}

  // One life: recovers, runs what is due, and dies in the first handler if there is one. Answers
  // whether a handler was entered.
  bool live_once(bool dies) {
    EngineOptions options;
    options.drive = Drive::kHost;
    InlineExecutor executor;
    Result<testing::Recovered> recovered = testing::recover(*log_, options, &clock_, &executor);
    EXPECT_TRUE(recovered.ok());
    Engine& engine = *recovered->engine;
    std::unique_ptr<MemoryLog> image;
    bool entered = false;
    EXPECT_TRUE(engine
                    .on(
                        "test",
                        [&](Delivery d) {
                          entered = true;
                          attempts_.push_back(d.attempt());
                          if (dies) {
                            image = log_->killed();
                          }
                          EXPECT_TRUE(d.done().ok());
                        },
                        policy_)
                    .ok());
    EXPECT_TRUE(engine.start().ok());
    if (!scheduled_) {
      id_ = *engine.schedule({.type = "test", .deadline = after(1s)});
      scheduled_ = true;
    }
    clock_.advance(10s);
    engine.poll();
    if (!entered) {
      info_ = engine.find(id_);
    }
    recovered->engine.reset();
    if (image != nullptr) {
      log_ = std::move(image);
    }
    return entered;
  }

  const std::vector<std::uint32_t>& attempts() const { return attempts_; }
  const Result<TaskInfo>& info() const { return info_; }

 private:
  const TypePolicy policy_;
  ManualClock clock_;
  std::unique_ptr<MemoryLog> log_ = std::make_unique<MemoryLog>();
  bool scheduled_ = false;
  TaskId id_;
  std::vector<std::uint32_t> attempts_;
  Result<TaskInfo> info_ = Status(Code::kNotFound);
};

TEST(RetryCases, B66_KilledInItsHandlerRunsAgainThoughOneAttemptIsAllowed) {
  TypePolicy policy;
  policy.retry.max_attempts = 1;
  KilledInHandler process(policy);
  EXPECT_TRUE(process.live_once(true));
  EXPECT_TRUE(process.live_once(false));  // not dead: a crash is no failure
  EXPECT_FALSE(process.live_once(false));
  EXPECT_EQ(process.info().code(), Code::kNotFound);
  EXPECT_EQ(process.attempts(), (std::vector<std::uint32_t>{1, 2}));
}

TEST(RetryCases, B66_WhatKillsEveryProcessIsDeadAfterFiveStarts) {
  TypePolicy policy;
  policy.retry.max_crashes = 5;
  KilledInHandler process(policy);
  int starts = 0;
  while (starts < 20 && process.live_once(true)) {
    ++starts;
  }
  EXPECT_EQ(starts, 5);
  EXPECT_EQ(process.attempts(), (std::vector<std::uint32_t>{1, 2, 3, 4, 5}));
  ASSERT_TRUE(process.info().ok());
  EXPECT_EQ(process.info()->state, State::kDead);
  EXPECT_EQ(process.info()->last_error.substr(0, 5), "crash");
  EXPECT_EQ(process.info()->crashes, 5U);
  EXPECT_EQ(process.info()->failures, 0U);  // kept apart
  // It stays dead.
  EXPECT_FALSE(process.live_once(false));
  EXPECT_EQ(process.info()->state, State::kDead);
}

TEST(Retry, AHandlersOwnDelayComesBeforeThePolicys) {
  HostEngine host;
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(1h);
  std::vector<nanoseconds> starts;
  ASSERT_TRUE(host.engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        starts.push_back(nanoseconds(host.clock.now().boot_ns));
                        EXPECT_TRUE(d.retry(starts.size() == 1 ? 2s : -5s, "later").ok());
                      },
                      policy)
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  host.schedule(after(0s));
  host.engine->poll();
  host.advance_by_steps(2s, 100ms);
  host.engine->poll();
  EXPECT_EQ(starts, (std::vector<nanoseconds>{0s, 2s, 2s}));  // a negative delay is due now
}

TEST(Retry, EveryAttemptHasAGreaterNumberToTheLastOneThereIs) {
  // Attempts are 16 bits in the log; with no end of failures the last of them is the end.
  HostEngine host;
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(0s);
  policy.retry.max_attempts = 0;
  std::uint32_t last = 0;
  bool ascending = true;
  ASSERT_TRUE(host.engine
                  ->on(
                      "test",
                      [&](Delivery d) {
                        ascending = ascending && d.attempt() == last + 1;
                        last = d.attempt();
                        EXPECT_TRUE(d.fail("again").ok());
                      },
                      policy)
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  const TaskId id = host.schedule(after(0s));
  for (int i = 0; i < 70'000 && host.engine->poll() != 0; ++i) {
  }
  EXPECT_TRUE(ascending);
  EXPECT_EQ(last, 65'535U);
  EXPECT_EQ(host.engine->find(id)->state, State::kDead);
}

TEST(Retry, PoliciesThatMakeNoSenseAreRefusedByName) {
  HostEngine host;
  const auto refused = [&](const char* field, auto change) {
    TypePolicy policy;
    change(policy.retry);
    const Status status = host.engine->on(
        "test", [](Delivery) {}, policy);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << field;
    EXPECT_NE(status.text().find(field), std::string::npos) << status.text();
  };
  refused("base", [](RetryPolicy& p) { p.base = -1ns; });
  refused("cap", [](RetryPolicy& p) { p.cap = -1ns; });
  refused("factor", [](RetryPolicy& p) { p.factor = 0.5; });
  refused("factor", [](RetryPolicy& p) { p.factor = std::numeric_limits<double>::quiet_NaN(); });
  refused("jitter", [](RetryPolicy& p) { p.jitter = 1.5; });
  refused("max_crashes", [](RetryPolicy& p) { p.max_crashes = 0; });
  refused("max_crashes", [](RetryPolicy& p) { p.max_crashes = 256; });
  refused("max_attempts", [](RetryPolicy& p) { p.max_attempts = 65'536; });
  refused("delays", [](RetryPolicy& p) { p = RetryPolicy::list({}); });
  refused("delays", [](RetryPolicy& p) { p = RetryPolicy::list({-1s}); });
}

}  // namespace
}  // namespace countwheel
