// Events: the end of every task, once, in order.
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/dead_letter_fixture.h"
#include "testing/engine_fixture.h"
#include "testing/threaded_engine.h"

namespace countwheel::testing {
namespace {

using namespace std::chrono_literals;

struct Heard {
  Listener listener() {
    return [this](const Event& event) {
      const std::lock_guard lock(mutex);
      events.push_back(event);
    };
  }
  std::mutex mutex;
  std::vector<Event> events;
};

TEST(Events, EveryEndIsToldWithKeyTypeAndReason) {
  Heard heard;
  HostEngine host;
  ASSERT_TRUE(host.engine->listen(heard.listener()).ok());
  EXPECT_EQ(host.engine->listen(heard.listener()).code(), Code::kExists);
  TypePolicy once;
  once.retry.max_attempts = 1;
  ASSERT_TRUE(host.engine
                  ->on(
                      "fails", [](Delivery d) { EXPECT_TRUE(d.fail("no").ok()); }, once)
                  .ok());
  host.run();
  const TaskId done = host.schedule(after(1s), "done");
  const TaskId cancelled = host.schedule(after(1h), "cancelled");
  const Result<Scheduled> dead =
      host.engine->schedule({.type = "fails", .deadline = after(2s), .key = "dead"});
  ASSERT_TRUE(host.engine->cancel(cancelled));
  host.advance(1s);
  host.advance(1s);
  ASSERT_EQ(heard.events.size(), 3U);
  EXPECT_EQ(heard.events[0].kind, Event::Kind::kCancelled);
  EXPECT_EQ(heard.events[0].id, cancelled);
  EXPECT_EQ(heard.events[0].key, "cancelled");
  EXPECT_EQ(heard.events[1].kind, Event::Kind::kDone);
  EXPECT_EQ(heard.events[1].id, done);
  EXPECT_EQ(heard.events[1].type, "test");
  EXPECT_EQ(heard.events[2].kind, Event::Kind::kDead);
  EXPECT_EQ(heard.events[2].id, *dead);
  EXPECT_EQ(heard.events[2].reason, DeadReason::kAttempts);
  for (std::size_t i = 0; i < heard.events.size(); ++i) {
    EXPECT_EQ(heard.events[i].sequence, i + 1);
  }
  // The letter was its end.
  ASSERT_TRUE(host.engine->purge(*dead));
  host.engine->poll();
  EXPECT_EQ(heard.events.size(), 3U);
}

TEST(Events, ATaskThatNeverReachedTheLogIsToldToo) {
  Heard heard;
  HostEngine host;
  ASSERT_TRUE(host.engine->listen(heard.listener()).ok());
  host.run();
  const Result<Submitted> submitted =
      host.engine->submit({.type = "test", .deadline = after(1h), .key = "k"});
  ASSERT_TRUE(host.engine->submit_cancel(submitted->id));
  host.engine->poll();
  EXPECT_EQ(host.engine->stats().elided, 2U);
  ASSERT_EQ(heard.events.size(), 1U);
  EXPECT_EQ(heard.events[0].kind, Event::Kind::kCancelled);
  EXPECT_EQ(heard.events[0].key, "k");
}

TEST(Events, MembersOfACancelledGroupAreToldOneByOne) {
  Heard heard;
  HostEngine host;
  ASSERT_TRUE(host.engine->listen(heard.listener()).ok());
  host.run();
  for (int i = 0; i < 600; ++i) {
    ASSERT_TRUE(host.engine->schedule({.type = "test", .deadline = after(1h), .group = 7}).ok());
  }
  const GroupChange change = host.engine->cancel_group(7);
  for (int i = 0; i < 10; ++i) {
    host.engine->poll();
  }
  ASSERT_EQ(heard.events.size(), 600U);
  std::set<std::uint64_t> ids;
  for (const Event& event : heard.events) {
    EXPECT_EQ(event.kind, Event::Kind::kCancelled);
    EXPECT_EQ(event.lsn, change.lsn);
    ids.insert(event.id.value);
  }
  EXPECT_EQ(ids.size(), 600U);
}

TEST(Events, AListenerMayCallTheEngine) {
  HostEngine host;
  int ends = 0;
  ASSERT_TRUE(
      host.engine
          ->listen([&](const Event& event) {
            if (++ends < 5) {
              EXPECT_TRUE(
                  host.engine->schedule({.type = "test", .deadline = after(0s), .key = event.key})
                      .ok());
            }
          })
          .ok());
  host.run();
  host.schedule(after(0s), "again");
  for (int i = 0; i < 10; ++i) {
    host.advance(1ms);
  }
  EXPECT_EQ(ends, 5);
}

TEST(Events, AListenerComesBeforeTheStart) {
  HostEngine host;
  EXPECT_EQ(host.engine->listen({}).code(), Code::kInvalidArgument);
  host.run();
  EXPECT_EQ(host.engine->listen([](const Event&) {}).code(), Code::kInvalidArgument);
}

TEST(Events, B80_EveryTaskHasOneEndWhateverHappensToIt) {
  constexpr int kTasks = 10'000;
  Heard heard;
  ThreadedEngine threaded({}, nullptr, &SystemClock::instance());
  Engine& engine = *threaded.engine;
  ASSERT_TRUE(engine.listen(heard.listener()).ok());
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(1ms);
  policy.retry.max_attempts = 2;
  ASSERT_TRUE(engine
                  .on(
                      "test",
                      [](Delivery d) {
                        switch (d.id().value % 4) {
                          case 0:
                            EXPECT_TRUE(d.fail("always").ok());
                            break;
                          case 1:
                            EXPECT_TRUE((d.attempt() == 1 ? d.retry(1ms, "once") : d.done()).ok());
                            break;
                          default:
                            EXPECT_TRUE(d.done().ok());
                        }
                      },
                      policy)
                  .ok());
  ASSERT_TRUE(engine.start().ok());
  std::vector<std::thread> callers;
  std::atomic<int> cancelled{0};
  for (unsigned caller = 0; caller < 2; ++caller) {
    callers.emplace_back([&, caller] {
      std::mt19937_64 random(caller);
      std::vector<TaskId> ids;
      for (int i = 0; i < kTasks / 2; ++i) {
        const Result<Submitted> submitted = engine.submit(
            {.type = "test", .deadline = after(std::chrono::microseconds(random() % 3000))});
        ASSERT_TRUE(submitted.ok());
        ids.push_back(submitted->id);
        if (random() % 3 == 0) {
          const TaskId id = ids[random() % ids.size()];
          cancelled += engine.submit_cancel(id) ? 1 : 0;
        }
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  ASSERT_TRUE(eventually([&] { return engine.stats().pending == 0; }));
  ASSERT_TRUE(engine.flush().ok());
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(heard.mutex);
    return heard.events.size() >= static_cast<std::size_t>(kTasks);
  }));
  ASSERT_TRUE(engine.stop().ok());
  std::map<std::uint64_t, int> ends;
  std::map<Event::Kind, std::uint64_t> kinds;
  for (std::size_t i = 0; i < heard.events.size(); ++i) {
    ASSERT_EQ(heard.events[i].sequence, i + 1);
    ASSERT_TRUE(i == 0 || heard.events[i - 1].lsn < heard.events[i].lsn);
    ++ends[heard.events[i].id.value];
    ++kinds[heard.events[i].kind];
  }
  EXPECT_EQ(ends.size(), static_cast<std::size_t>(kTasks));
  EXPECT_EQ(heard.events.size(), static_cast<std::size_t>(kTasks));
  const Stats stats = engine.stats();
  EXPECT_EQ(kinds[Event::Kind::kDone], stats.done);
  EXPECT_EQ(kinds[Event::Kind::kDead], stats.dead);
  EXPECT_EQ(kinds[Event::Kind::kCancelled], stats.cancelled);
}

}  // namespace
}  // namespace countwheel::testing
