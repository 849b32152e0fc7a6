// Mistakes that prototypes of this engine made once, each a situation of its own. T2, T8 and T9 are
// in elision_test, those with threads in traps_threads_test.
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "engine/mailbox.h"
#include "engine/task_table.h"
#include "testing/engine_fixture.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using detail::Node;
using detail::TaskTable;
using detail::Word;
using std::chrono::nanoseconds;
using testing::GatedExecutor;
using testing::HostEngine;
using testing::Started;

constexpr std::uint32_t kLastGeneration = 0xffffffff;

// Ends the tenancy of a slot at `generation`.
void release_at(TaskTable& table, std::uint32_t index, std::uint32_t generation) {
  table.node(index).store(Word::of(generation, 0, State::kDone));
  table.release(index);
}

TEST(Traps, T1_ASlotAtTheLastGenerationIsRetired) {
  const auto table = std::make_unique<TaskTable>();
  const std::optional<TaskId> first = table->allocate(0);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->generation(), 1U);
  release_at(*table, first->index(), kLastGeneration - 1);
  const std::optional<TaskId> last = table->allocate(0);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->index(), first->index());
  EXPECT_EQ(last->generation(), kLastGeneration);
  release_at(*table, last->index(), kLastGeneration);
  EXPECT_EQ(table->shard(0).retired, 1U);
  for (int i = 0; i < 100; ++i) {
    const std::optional<TaskId> next = table->allocate(0);
    ASSERT_TRUE(next.has_value());
    EXPECT_NE(next->index(), first->index());
    release_at(*table, next->index(), next->generation());
  }
}

TEST(Traps, T1_ARetiredSlotStaysRetiredAfterARestart) {
  const auto table = std::make_unique<TaskTable>();
  const std::uint32_t index = 5;
  table->place(index)->store(Word::of(kLastGeneration, 0, State::kFree));
  table->set_generation_floor(7);
  for (std::uint32_t slot = 0; slot <= index; ++slot) {
    table->add_free(table->shard(0), slot);
  }
  for (int i = 0; i < 20; ++i) {
    const std::optional<TaskId> id = table->allocate(0);
    ASSERT_TRUE(id.has_value());
    EXPECT_NE(id->index(), index);
    EXPECT_EQ(id->generation(), 8U);  // above all that the log has named
  }
}

TEST(Traps, T1_WhenNoGenerationIsLeftThereIsNoTask) {
  const auto table = std::make_unique<TaskTable>();
  table->set_generation_floor(kLastGeneration);
  EXPECT_FALSE(table->allocate(0).has_value());
}

TEST(Traps, T1_SlotsAreTakenRoundRobin) {
  const auto table = std::make_unique<TaskTable>();
  std::vector<TaskId> ids;
  for (int i = 0; i < 10; ++i) {
    ids.push_back(*table->allocate(3));
  }
  for (const TaskId id : ids) {
    release_at(*table, id.index(), id.generation());
  }
  // First in, first out: a generation repeats only after the whole free list has been used.
  for (std::uint32_t generation = 2; generation < 5; ++generation) {
    for (const TaskId id : ids) {
      const std::optional<TaskId> again = table->allocate(3);
      ASSERT_TRUE(again.has_value());
      EXPECT_EQ(again->index(), id.index());
      EXPECT_EQ(again->generation(), generation);
      release_at(*table, again->index(), generation);
    }
  }
}

TEST(Traps, T6_DeadlineAndSlackAtTheEndOfTimeDoNotWrapIntoThePast) {
  detail::Mailbox mailbox;
  EXPECT_FALSE(mailbox.announce({1000, 1000}));
  constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();
  std::vector<detail::MailItem> items = {{kEnd, 1, 1000, ClockKind::kWall},
                                         {kEnd - 5, 2, 60'000'000, ClockKind::kBoot}};
  EXPECT_FALSE(mailbox.put(items, 1));  // nothing that would wake the tick thread
  items = {{999, 3, 0, ClockKind::kBoot}};
  EXPECT_TRUE(mailbox.put(items, 2));
}

TEST(Traps, T6_NothingPendingIsNever) {
  EngineOptions options;
  options.slack = 60s;
  HostEngine host(options);
  host.run();
  host.engine->poll();
  EXPECT_EQ(host.engine->next_wake(), (Instant{kNever, kNever}));
  const TaskId id = host.schedule(after(options.max_delay));
  host.engine->poll();
  EXPECT_GT(host.engine->next_wake().boot_ns, nanoseconds(24h).count());
  EXPECT_EQ(host.engine->next_wake().wall_ns, kNever);
  EXPECT_TRUE(host.engine->cancel(id));
  host.engine->poll();
}

TEST(Traps, T10_BackPressureComesBeforeTheQueueIsFullAndSparesWhatEndsTasks) {
  HostEngine host;
  std::vector<Delivery> kept;
  ASSERT_TRUE(host.engine->on("test", [&](Delivery d) { kept.push_back(std::move(d)); }).ok());
  ASSERT_TRUE(host.engine->start().ok());
  for (int i = 0; i < 100; ++i) {
    host.schedule(after(0s));
  }
  host.engine->poll();
  ASSERT_EQ(kept.size(), 100U);
  // Nobody commits: the queue fills until calls are refused, before they take any lock.
  std::size_t accepted = 0;
  Code refused = Code::kOk;
  while (refused == Code::kOk && accepted < 2'000'000) {
    refused = host.engine->submit({.type = "test", .deadline = after(1h)}).code();
    accepted += refused == Code::kOk ? 1 : 0;
  }
  EXPECT_EQ(refused, Code::kOverloaded);
  EXPECT_LE(accepted, std::size_t{1} << 20);  // LSNs handed out stay below the logged ceiling
  EXPECT_EQ(host.engine->submit_cancel(kept[0].id()).status.code(), Code::kOverloaded);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE((i % 2 == 0 ? kept[i].done() : kept[i].retry(1h)).ok());
  }
  kept.clear();
  ASSERT_TRUE(host.engine->flush().ok());
  EXPECT_TRUE(host.engine->submit({.type = "test", .deadline = after(1h)}).ok());
  EXPECT_EQ(host.engine->stats().done, 50U);
  EXPECT_EQ(host.engine->check_invariants(), "");
}

TEST(Traps, T12_ADueEntryOfAnEarlierTenantStartsNobody) {
  GatedExecutor gate;
  HostEngine host({}, &gate);
  host.run();
  const TaskId old_tenant = host.schedule(after(1s));
  EXPECT_EQ(host.advance(1s), 1U);
  EXPECT_TRUE(host.engine->cancel(old_tenant));
  const TaskId new_tenant = host.schedule(after(1h));
  ASSERT_EQ(new_tenant.index(), old_tenant.index());
  gate.open();
  EXPECT_TRUE(host.started.empty());
  EXPECT_EQ(host.engine->stats().skipped, 1U);
  host.advance(1h);
  gate.open();
  ASSERT_EQ(host.started.size(), 1U);
  EXPECT_EQ(host.started[0].id, new_tenant);
  EXPECT_EQ(host.started[0].lateness, 0ns);
}

TEST(Traps, T12_ADueEntryOfAnEarlierDeadlineStartsNobody) {
  // Away and back to scheduled: the state alone is the same as when it was handed over.
  GatedExecutor gate;
  HostEngine host({}, &gate);
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(1h);
  int starts = 0;
  ASSERT_TRUE(host.engine
                  ->on(
                      "fails",
                      [&](Delivery d) {
                        ++starts;
                        EXPECT_TRUE(d.fail("no").ok());
                      },
                      policy)
                  .ok());
  ASSERT_TRUE(host.engine->start().ok());
  const Result<TaskId> id = host.engine->schedule({.type = "fails", .deadline = after(1s)});
  EXPECT_EQ(host.advance(1s), 1U);
  EXPECT_TRUE(host.engine->reschedule(*id, after(0s)));
  EXPECT_EQ(host.engine->poll(), 1U);  // handed over twice, in two versions
  gate.open();
  EXPECT_EQ(starts, 1);
  host.engine->poll();
  gate.open();
  EXPECT_EQ(starts, 1);
  EXPECT_EQ(host.engine->find(*id)->failures, 1U);
}

TEST(Traps, T12_TheBytesOfARunningTaskStayWhereTheyAre) {
  HostEngine host;
  std::vector<Delivery> kept;
  ASSERT_TRUE(host.engine->on("test", [&](Delivery d) { kept.push_back(std::move(d)); }).ok());
  ASSERT_TRUE(host.engine->start().ok());
  const std::string payload(500, 'p');
  const TaskId id = host.schedule(after(0s), "K", payload);
  host.engine->poll();
  ASSERT_EQ(kept.size(), 1U);
  const std::string_view seen = kept[0].payload();
  EXPECT_EQ(host.engine->cancel(id).status.code(), Code::kTooLate);
  TaskSpec upsert{.type = "other", .deadline = after(1h), .key = "K", .payload = "new"};
  upsert.key_policy = KeyPolicy::kReplace;
  ASSERT_TRUE(host.engine->schedule(upsert).ok());
  for (int i = 0; i < 1000; ++i) {
    const TaskId other = host.schedule(after(1h), {}, std::string(500, 'q'));
    EXPECT_NE(other.index(), id.index());
    EXPECT_TRUE(host.engine->cancel(other));
  }
  EXPECT_EQ(seen, payload);
  EXPECT_EQ(kept[0].key(), "K");
  EXPECT_TRUE(kept[0].done().ok());
}

TEST(Traps, T15_OneInstantIsInTheOrderOfTheLsnsHoweverTheTasksGotThere) {
  HostEngine host;
  host.run();
  const WallTime start(nanoseconds(host.clock.now().wall_ns));
  const WallTime instant = start + 2h;
  std::vector<std::string> expected;
  const auto add = [&](const char* when) {
    for (int i = 0; i < 20; ++i) {
      const std::string key = std::string(when) + std::to_string(i);
      host.schedule(at(instant), key);
      expected.push_back(key);
    }
  };
  const auto advance_to = [&](nanoseconds at_ns) {
    host.advance(at_ns - nanoseconds(host.clock.now().boot_ns));
  };
  add("two hours ahead ");  // on the level of hours, drained early
  advance_to(1h + 30min);
  add("half an hour ahead ");
  advance_to(2h - 500ms);
  add("in the same second ");
  host.engine->poll();
  advance_to(2h - 5ms);
  add("in the open slot ");
  host.engine->poll();
  EXPECT_TRUE(host.engine->reschedule(expected.front(), at(instant)));
  expected.push_back(expected.front());
  expected.erase(expected.begin());
  advance_to(2h - 1ns);
  add("in the last nanosecond ");
  EXPECT_TRUE(host.started.empty());
  advance_to(2h);
  std::vector<std::string> keys;
  for (const Started& task : host.started) {
    keys.push_back(task.key);
  }
  EXPECT_EQ(keys, expected);
}

TEST(Traps, T16_ADueTaskFoundDeadIsNeitherStartedNorLost) {
  GatedExecutor gate;
  HostEngine host({}, &gate);
  host.run();
  std::vector<TaskId> ids;
  for (int i = 0; i < 400; ++i) {
    ids.push_back(host.schedule(after(1s)));
  }
  EXPECT_EQ(host.advance(1s), 400U);
  for (std::size_t i = 0; i < ids.size(); i += 2) {
    EXPECT_TRUE(host.engine->cancel(ids[i]));
  }
  gate.open();
  host.engine->poll();
  const Stats stats = host.engine->stats();
  EXPECT_EQ(stats.handed_over, 400U);
  EXPECT_EQ(stats.skipped, 200U);
  EXPECT_EQ(stats.started, 200U);
  EXPECT_EQ(stats.done, 200U);
  EXPECT_EQ(stats.cancelled, 200U);
  EXPECT_EQ(stats.pending, 0U);
  EXPECT_EQ(stats.backlog, 0U);
}

}  // namespace
}  // namespace countwheel
