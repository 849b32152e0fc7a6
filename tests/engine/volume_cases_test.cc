// What must not grow: memory with tasks that are cancelled, and the price of counting with tasks
// that are pending. COUNTWHEEL_SHARE divides the numbers.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <malloc.h>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"
#include "testing/long_run.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using testing::HostEngine;
using testing::share_of;

TaskId submit(Engine& engine, Deadline deadline) {
  const Result<Submitted> submitted = engine.submit({.type = "test", .deadline = deadline});
  EXPECT_TRUE(submitted.ok()) << submitted.status().text();
  return submitted.ok() ? submitted->id : TaskId{};
}

// `pairs` tasks in 7 days, each cancelled when `live` younger ones are there.
void churn(HostEngine& host, std::int64_t pairs, std::size_t live) {
  std::vector<TaskId> ids(live);
  for (std::int64_t i = 0; i < pairs; ++i) {
    TaskId& place = ids[static_cast<std::size_t>(i) % live];
    if (place) {
      ASSERT_TRUE(host.engine->submit_cancel(place));
    }
    place = submit(*host.engine, after(days(7)));
    if (i % 500 == 0) {
      host.advance(1us);
    }
  }
  for (const TaskId id : ids) {
    ASSERT_TRUE(host.engine->submit_cancel(id));
  }
  host.engine->poll();
}

TEST(EngineCases, B38_CancelledTasksDoNotStayUntilTheirDeadline) {
  HostEngine host;
  host.run();
  ASSERT_NO_FATAL_FAILURE(churn(host, 100'000, 1000));
  const std::int64_t before = testing::resident_bytes();
  const std::int64_t pairs = share_of(10'000'000) - 100'000;
  ASSERT_NO_FATAL_FAILURE(churn(host, pairs / 2, 1000));  // their cancels find them in a wheel
  ASSERT_NO_FATAL_FAILURE(churn(host, pairs / 2, 1));     // theirs meet them in one batch
  if (!testing::kSanitized) {
    EXPECT_LE(testing::resident_bytes() - before, std::int64_t{16} << 20);
  }
  const Stats stats = host.engine->stats();
  EXPECT_EQ(stats.pending, 0U);
  EXPECT_EQ(stats.started, 0U);
  EXPECT_LT(stats.wheel_entries, 100'000U);
  EXPECT_GT(stats.elided, 0U);
  EXPECT_LT(stats.elided, stats.ops);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(EngineCases, B38_ACancelDoesNotDependOnTheRemainingDelay) {
  HostEngine host;
  host.run();
  const auto time_of_cancels = [&](Deadline deadline) {
    std::chrono::nanoseconds best = std::chrono::nanoseconds::max();
    for (int round = 0; round < 5; ++round) {
      std::vector<TaskId> ids;
      for (int i = 0; i < 10'000; ++i) {
        ids.push_back(submit(*host.engine, deadline));
      }
      host.engine->poll();
      best = std::min(best, testing::shortest(1, [&] {
                        for (const TaskId id : ids) {
                          EXPECT_TRUE(host.engine->submit_cancel(id));
                        }
                      }));
      host.engine->poll();
    }
    return best;
  };
  const std::chrono::nanoseconds second = time_of_cancels(after(1s));
  const std::chrono::nanoseconds week = time_of_cancels(after(days(7)));
  const std::chrono::nanoseconds years = time_of_cancels(after(days(3650)));
  EXPECT_LT(week, second * 10);
  EXPECT_LT(years, second * 10);
}

TEST(ApiCases, B78_CountingWhatIsPendingCostsNothing) {
  HostEngine host;
  host.run();
  const std::int64_t pending = share_of(3'000'000);
  for (std::int64_t i = 0; i < pending; ++i) {
    submit(*host.engine, after(1h + 1us * i));
    if (i % 10'000 == 0) {
      host.engine->poll();
    }
  }
  host.engine->poll();
  const std::size_t allocated = mallinfo2().uordblks;
  const std::chrono::nanoseconds shortest = testing::shortest(100, [&] {
    EXPECT_EQ(host.engine->stats().pending, static_cast<std::uint64_t>(pending));  // exact
  });
  EXPECT_LT(shortest, 1ms);
  EXPECT_LE(mallinfo2().uordblks, allocated);
}

}  // namespace
}  // namespace countwheel
