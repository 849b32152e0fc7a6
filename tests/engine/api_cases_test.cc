// What calls accept, refuse and answer: limits, keys, delays and units.
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
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

// What a crash now would leave, in an engine with the noting handler.
class AfterCrash {
 public:
  explicit AfterCrash(const MemoryLog& log, EngineOptions options = {}) : image_(log.killed()) {
    options.drive = Drive::kHost;
    Result<testing::Recovered> recovered = testing::recover(*image_, options, &clock, &executor_);
    EXPECT_TRUE(recovered.ok()) << recovered.status().text();
    engine = std::move(recovered->engine);
    EXPECT_TRUE(engine
                    ->on("test",
                         [this](Delivery d) {
                           started.push_back({d.id(),
                                              std::string(d.key()),
                                              std::string(d.payload()),
                                              0,
                                              0,
                                              d.lateness(),
                                              d.attempt(),
                                              d.overdue()});
                           EXPECT_TRUE(d.done().ok());
                         })
                    .ok());
    EXPECT_TRUE(engine->start().ok());
  }

  ManualClock clock;
  std::vector<Started> started;

 private:
  std::unique_ptr<MemoryLog> image_;
  InlineExecutor executor_;

 public:
  std::unique_ptr<Engine> engine;
};

TEST(EngineCases, B36_NoMoreThanAllowedIsPending) {
  MemoryLog log;
  EngineOptions options;
  options.max_pending_count = 1000;
  HostEngine host(options, nullptr, log.journal());
  host.run();
  std::vector<TaskId> ids;
  for (int i = 1; i <= 1000; ++i) {
    ids.push_back(host.schedule(after(1h)));
  }
  const std::uint64_t logged = log.op_count();
  const Result<TaskId> refused = host.engine->schedule({.type = "test", .deadline = after(1h)});
  EXPECT_EQ(refused.code(), Code::kOverloaded);  // #1001
  EXPECT_NE(refused.status().text().find("1000"), std::string::npos);
  ASSERT_TRUE(host.engine->flush().ok());
  EXPECT_EQ(log.op_count(), logged);
  EXPECT_EQ(host.engine->stats().refused, 1U);
  EXPECT_EQ(host.engine->cancel(ids[500]).status.code(), Code::kCancelled);
  host.schedule(after(1h));
  EXPECT_EQ(host.engine->schedule({.type = "test", .deadline = after(1h)}).code(),
            Code::kOverloaded);

  EngineOptions lowered;
  lowered.max_pending_count = 500;
  AfterCrash restarted(log, lowered);
  EXPECT_EQ(restarted.engine->stats().pending, 1000U);
  EXPECT_EQ(restarted.engine->schedule({.type = "test", .deadline = after(1h)}).code(),
            Code::kOverloaded);
  restarted.clock.advance(2h);
  restarted.engine->poll();
  EXPECT_EQ(restarted.started.size(), 1000U);
  EXPECT_TRUE(restarted.engine->schedule({.type = "test", .deadline = after(1h)}).ok());
}

TEST(EngineCases, B36_BytesAreLimitedToo) {
  EngineOptions options;
  options.max_pending_bytes = 100;
  HostEngine host(options);
  host.run();
  host.schedule(after(1h), "0123456789", std::string(40, 'a'));
  host.schedule(after(1h), "9876543210", std::string(40, 'a'));
  EXPECT_EQ(host.engine->stats().pending_bytes, 100U);
  const TaskSpec one_more{.type = "test", .deadline = after(1h), .payload = "x"};
  EXPECT_EQ(host.engine->schedule(one_more).code(), Code::kOverloaded);
  // An upsert counts what it adds while both are held.
  TaskSpec larger{.type = "test", .deadline = after(1h), .key = "0123456789"};
  larger.key_policy = KeyPolicy::kReplace;
  EXPECT_EQ(host.engine->schedule(larger).code(), Code::kOverloaded);
  EXPECT_EQ(host.engine->cancel("9876543210").status.code(), Code::kCancelled);
  EXPECT_TRUE(host.engine->schedule(larger).ok());
  EXPECT_EQ(host.engine->stats().pending_bytes, 10U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(EngineCases, B37_AnUpsertLeavesNoOrphan) {
  HostEngine host;
  host.run();
  std::optional<TaskId> id;
  for (const auto delay : {10s, 20s, 5s, 40s, 30s}) {
    TaskSpec spec{.type = "test", .deadline = after(delay), .key = "X"};
    spec.key_policy = KeyPolicy::kReplace;
    const Result<TaskId> put = host.engine->schedule(spec);
    ASSERT_TRUE(put.ok());
    EXPECT_EQ(*put, id.value_or(*put));  // moved in place
    id = *put;
    EXPECT_EQ(host.engine->stats().pending, 1U);
  }
  host.advance_by_steps(100s, 10ms);
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_EQ(nanoseconds(host.started[0].boot_ns), 30s);
  const Stats stats = host.engine->stats();
  EXPECT_EQ(stats.scheduled, 5U);
  EXPECT_EQ(stats.replaced, 4U);
  EXPECT_EQ(stats.done, 1U);
}

TEST(WalCases, B43_AChangeWithoutDelayIsLogged) {
  MemoryLog log;
  HostEngine host({}, nullptr, log.journal());
  host.run();
  host.schedule(after(1h), "K", "P1");
  TaskSpec spec{.type = "test", .deadline = after(0s), .key = "K", .payload = "P2"};
  spec.key_policy = KeyPolicy::kReplace;
  ASSERT_TRUE(host.engine->schedule(spec).ok());  // acknowledged, and has not run
  EXPECT_TRUE(host.started.empty());
  AfterCrash restarted(log);
  restarted.engine->poll();
  restarted.clock.advance(2h);
  restarted.engine->poll();
  ASSERT_EQ(restarted.started.size(), 1U);
  EXPECT_EQ(restarted.started[0].payload, "P2");
}

TEST(WalCases, B47_TheLargestTaskIsKeptToTheByte) {
  MemoryLog log;
  HostEngine host({}, nullptr, log.journal());
  host.run();
  const std::string type(64, 't');
  std::string key(1024, 'k');
  std::string payload(std::size_t{1} << 20, 'p');
  for (std::size_t i = 0; i < payload.size(); ++i) {
    payload[i] = static_cast<char>(i * 131 >> 3);
  }
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(0s);
  policy.retry.max_attempts = 65'535;
  const std::string reason(10'000, 'r');  // longer than what is kept
  int failures = 0;
  ASSERT_TRUE(host.engine
                  ->on(
                      type,
                      [&](Delivery d) {
                        ++failures;
                        EXPECT_EQ(d.payload(), payload);
                        EXPECT_TRUE(d.retry(failures < 100 ? 0s : 1h, reason).ok());
                      },
                      policy)
                  .ok());
  ASSERT_TRUE(
      host.engine->schedule({.type = type, .deadline = after(0s), .key = key, .payload = payload}));
  for (int i = 0; i < 10; ++i) {
    host.schedule(after(1s), std::to_string(i));
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(host.engine->poll(), 1U);
  }
  EXPECT_EQ(failures, 100);
  const std::uint64_t logged = log.op_count();
  const std::string longer_payload = payload + "x";
  const std::string longer_key = key + "x";
  EXPECT_EQ(
      host.engine->schedule({.type = "test", .deadline = after(0s), .payload = longer_payload})
          .code(),
      Code::kTooLarge);
  EXPECT_EQ(
      host.engine->schedule({.type = "test", .deadline = after(0s), .key = longer_key}).code(),
      Code::kTooLarge);
  EXPECT_EQ(host.engine->schedule({.type = std::string(65, 't'), .deadline = after(0s)}).code(),
            Code::kInvalidArgument);
  ASSERT_TRUE(host.engine->flush().ok());
  EXPECT_EQ(log.op_count(), logged);

  AfterCrash restarted(log);
  const Result<TaskInfo> info = restarted.engine->find(key);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->type, type);
  EXPECT_EQ(info->payload, payload);
  EXPECT_EQ(info->attempts, 100U);
  EXPECT_EQ(info->failures, 100U);
  EXPECT_EQ(info->last_error, reason.substr(0, 512));
  restarted.clock.advance(1s);
  restarted.engine->poll();
  EXPECT_EQ(restarted.started.size(), 10U);  // the normal ones, on time
  EXPECT_EQ(restarted.started[0].lateness, 0ns);
}

TEST(ApiCases, B72_ALongerDelayDoesNotFireAtOnce) {
  HostEngine host;
  host.run();
  const TaskId id = host.schedule(after(300s));
  host.advance_by_steps(60s, 1s);
  EXPECT_EQ(host.engine->reschedule(id, after(100'000s)).status.code(), Code::kOk);
  host.engine->poll();
  host.advance_by_steps(100'000s - 1s, 10s);
  EXPECT_TRUE(host.started.empty());
  host.advance(1s);
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_EQ(nanoseconds(host.started[0].boot_ns), 60s + 100'000s);
}

TEST(ApiCases, B73_TheSameKeyTwiceAndMovesOfWhatIsNotThere) {
  MemoryLog log;
  HostEngine host({}, nullptr, log.journal());
  host.run();
  const TaskSpec spec{.type = "test", .deadline = after(1h), .key = "X", .payload = "first"};
  const Result<TaskId> first = host.engine->schedule(spec);
  ASSERT_TRUE(first.ok());
  const auto check = [&](Engine& engine) {
    const Result<TaskId> second =
        engine.schedule({.type = "test", .deadline = after(2h), .key = "X", .payload = "second"});
    EXPECT_EQ(second.code(), Code::kExists);  // "duplicate" of a live key
    EXPECT_NE(second.status().text().find(std::to_string(first->value)), std::string::npos);
    EXPECT_EQ(engine.find("X")->payload, "first");
    EXPECT_EQ(engine.find("X")->id, *first);
    EXPECT_EQ(engine.reschedule(TaskId{12345}, after(1s)).status.code(), Code::kNotFound);
    EXPECT_EQ(engine.reschedule(TaskId{}, after(1s)).status.code(), Code::kNotFound);
    EXPECT_EQ(engine.reschedule("unknown", after(1s)).status.code(), Code::kNotFound);
    EXPECT_EQ(engine.cancel(TaskId{~std::uint64_t{0}}).status.code(), Code::kNotFound);
    TaskSpec upsert{.type = "test", .deadline = after(3h), .key = "Y"};
    upsert.key_policy = KeyPolicy::kReplace;
    const Result<Submitted> created = engine.submit(upsert);
    ASSERT_TRUE(created.ok());
    EXPECT_FALSE(created->replaced);
    EXPECT_EQ(engine.cancel("Y").status.code(), Code::kCancelled);
  };
  check(*host.engine);
  AfterCrash restarted(log);
  check(*restarted.engine);
}

TEST(ApiCases, B74_ExtremeDelaysAreOutOfRange) {
  HostEngine host;
  host.run();
  using std::chrono::duration;
  const WallTime now(nanoseconds(host.clock.now().wall_ns));
  // The year 9999 does not fit nanoseconds in 64 bits; microseconds hold it.
  const auto year_9999 = std::chrono::time_point_cast<std::chrono::microseconds>(
      std::chrono::sys_days(std::chrono::year(9999) / 12 / 31));
  const std::vector<Deadline> refused = {
      after(nanoseconds::max()),
      after(std::chrono::microseconds::max()),
      after(std::chrono::milliseconds::max()),
      after(std::chrono::seconds::max()),
      after(std::chrono::minutes::max()),
      after(std::chrono::hours::max()),
      after(std::chrono::years::max()),
      after(duration<double>(std::numeric_limits<double>::infinity())),
      after(duration<double>(std::numeric_limits<double>::quiet_NaN())),
      after(duration<double>(1e300)),
      at(year_9999),
      at(WallTime::max()),
      at(now + host.engine->options().max_delay + 1ns),
      after(host.engine->options().max_delay + 1ns)};
  for (const Deadline deadline : refused) {
    EXPECT_EQ(host.engine->schedule({.type = "test", .deadline = deadline}).code(),
              Code::kOutOfRange)
        << deadline.ns();
  }
  EXPECT_EQ(host.engine->stats().scheduled, 0U);
  EXPECT_EQ(host.engine->stats().refused, refused.size());
  host.schedule(after(host.engine->options().max_delay));  // 10 years
  for (int year = 0; year < 9; ++year) {
    host.advance(std::chrono::hours(24 * 365));
  }
  EXPECT_TRUE(host.started.empty());
  for (int year = 9; year < 100; ++year) {
    host.advance(std::chrono::hours(24 * 365));
  }
  EXPECT_EQ(host.started.size(), 1U);
  // Far in the past is due now, and nothing wraps into the future.
  host.schedule(after(-host.engine->options().max_delay));
  EXPECT_EQ(host.engine->poll(), 1U);
}

TEST(ApiCases, B75_NegativeAndZeroDelaysAreDueNow) {
  EngineOptions options;
  options.wheel.precision = Precision::kTick;
  HostEngine host(options);
  host.run();
  host.advance(10s);
  const WallTime now(nanoseconds(host.clock.now().wall_ns));
  host.schedule(after(-46ms), "46 ms");
  host.schedule(after(0ms), "0");
  host.schedule(at(now - 1h), "1 h");
  EXPECT_EQ(host.advance(10ms), 3U);  // the next tick
  ASSERT_EQ(host.started.size(), 3U);
  const std::vector<std::pair<std::string, nanoseconds>> expected = {
      {"1 h", 1h}, {"46 ms", 46ms}, {"0", 0ms}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(host.started[i].key, expected[i].first);
    EXPECT_EQ(host.started[i].lateness, expected[i].second + 10ms);
    EXPECT_TRUE(host.started[i].overdue);
  }
  HostEngine exact;
  exact.run();
  exact.clock.advance(10s);
  exact.schedule(after(-46ms));
  EXPECT_EQ(exact.engine->poll(), 1U);
  ASSERT_EQ(exact.started.size(), 1U);
  EXPECT_EQ(exact.started[0].lateness, 46ms);
}

// A bare integer is no deadline.
static_assert(!std::is_convertible_v<std::int64_t, Deadline>);
static_assert(!std::is_convertible_v<int, Deadline>);
static_assert(!std::is_constructible_v<Deadline, std::int64_t>);

TEST(ApiCases, B76_RawIntegersInAnotherUnitAreSuspicious) {
  HostEngine host;
  host.run();
  const std::int64_t in_an_hour = host.clock.now().wall_ns + nanoseconds(1h).count();
  for (const std::int64_t unit : {1'000, 1'000'000, 1'000'000'000}) {
    EXPECT_EQ(
        host.engine->schedule({.type = "test", .deadline = at_unix_ns(in_an_hour / unit)}).code(),
        Code::kSuspiciousUnit)
        << unit;
  }
  constexpr std::int64_t kYear = std::int64_t{31'557'600} * 1'000'000'000;
  const std::int64_t now = host.clock.now().wall_ns;
  const auto code = [&](std::int64_t ns) {
    return host.engine->schedule({.type = "test", .deadline = at_unix_ns(ns)}).code();
  };
  EXPECT_EQ(code(now - 10 * kYear - 1), Code::kSuspiciousUnit);
  EXPECT_EQ(code(now + 100 * kYear + 1), Code::kSuspiciousUnit);
  EXPECT_EQ(code(std::numeric_limits<std::int64_t>::max()), Code::kSuspiciousUnit);
  EXPECT_EQ(code(std::numeric_limits<std::int64_t>::min()), Code::kSuspiciousUnit);
  EXPECT_EQ(code(now + 50 * kYear), Code::kOutOfRange);  // nanoseconds, but beyond max_delay
  EXPECT_EQ(host.engine->stats().scheduled, 0U);
  EXPECT_EQ(code(in_an_hour), Code::kOk);
  EXPECT_EQ(code(now - 10 * kYear), Code::kOk);
  EXPECT_EQ(host.engine->poll(), 1U);
  EXPECT_EQ(host.advance(1h), 1U);
}

}  // namespace
}  // namespace countwheel
