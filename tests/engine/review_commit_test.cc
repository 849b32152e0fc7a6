// What the group commit writes when nobody asks it to, and who is woken when all cells are taken.
#include <chrono>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "engine/cell_pool.h"
#include "testing/engine_fixture.h"
#include "testing/memory_log.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::HostEngine;
using testing::MemoryLog;

EngineOptions quick_sync() {
  EngineOptions options;
  options.os_sync_bound = 1ms;
  return options;
}

class Chores : public ::testing::Test {
 protected:
  Chores() : host_(quick_sync(), nullptr, log_.journal()) { host_.run(); }

  // Polls until nothing is written any more; answers what was.
  std::vector<Batch> settle() {
    const std::size_t before = log_.size();
    std::size_t size = before;
    auto since = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - since < 300ms) {
      host_.engine->poll();
      if (log_.size() != size) {
        size = log_.size();
        since = std::chrono::steady_clock::now();
      }
    }
    std::vector<Batch> written;
    for (const MemoryLog::StoredBatch& batch : log_.batches()) {
      written.push_back(batch.header);
    }
    written.erase(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(before));
    return written;
  }

  MemoryLog log_;
  HostEngine host_;
};

TEST_F(Chores, OneWatermarkFollowsWhatIsSynced) {
  settle();
  host_.schedule(after(1h));
  const std::vector<Batch> written = settle();
  ASSERT_EQ(written.size(), 1U);
  EXPECT_EQ(written[0].op_count, 0U);
  EXPECT_FALSE(written[0].sync) << "it says that something is synced, and needs no sync itself";
}

TEST_F(Chores, WhatWasOnlyWrittenIsSyncedAndThenMarked) {
  settle();
  const Result<TaskId> task = host_.engine->schedule(
      {.type = "test", .deadline = after(1h), .durability = Durability::kOs});
  ASSERT_TRUE(task.ok());
  const std::vector<Batch> written = settle();
  ASSERT_EQ(written.size(), 2U);
  EXPECT_TRUE(written[0].sync);
  EXPECT_FALSE(written[1].sync);
  EXPECT_EQ(host_.engine->durable_lsn(Durability::kDisk),
            host_.engine->durable_lsn(Durability::kMemory));
}

TEST(Cells, WhoFoundNoneIsWokenByWhoeverGivesSomeBack) {
  std::vector<AttemptCell> memory(2);
  detail::CellPool pool(memory);
  std::array<std::uint32_t, 2> first{};
  std::array<std::uint32_t, 2> second{};
  ASSERT_EQ(pool.take(2, first.data()), 2U);
  ASSERT_EQ(pool.take(2, second.data()), 0U);
  EXPECT_TRUE(pool.give(std::span(first).first(1)));
  EXPECT_FALSE(pool.give(std::span(first).last(1)));
}

TEST(Cells, OfAttemptsWhoseEndIsNotWrittenAreUsedLastAndKeepTheirMarks) {
  std::vector<AttemptCell> memory(3);
  detail::CellPool pool(memory);
  std::array<std::uint32_t, 3> cells{};
  ASSERT_EQ(pool.take(1, cells.data()), 1U);
  const std::uint32_t marked = cells[0];
  pool.cell(marked).id = 7;
  EXPECT_FALSE(pool.give_marked(std::span(cells).first(1)));
  ASSERT_EQ(pool.take(3, cells.data()), 3U);
  EXPECT_EQ(cells[2], marked);
  EXPECT_EQ(pool.cell(marked).id, 7U);
}

}  // namespace
}  // namespace countwheel
