// The cleaner's side of the log: it stays bounded, what lives is carried on, what is dead leaves
// the disk as whole files and leaves no tombstone behind. Sizes are scaled down by options.
#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include <gtest/gtest.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>

#include "testing/directory.h"
#include "wal/log_writer.h"

namespace countwheel {
namespace {

using testing::BatchBuilder;
using testing::LogContent;
using testing::LogWriter;
using testing::small_options;
using testing::TempDirectory;

// A task table as small as can be: schedules, ends, and carries on what the log asks for.
class Table {
 public:
  explicit Table(LogWriter& writer) : writer_(writer) {}

  // One commit: ends all but the newest `keep` tasks, schedules `count`, and lets the log be
  // cleaned as an engine does.
  void turn(std::size_t count, std::size_t payload_bytes, std::size_t keep) {
    BatchBuilder builder(writer_.next_lsn());
    while (order_.size() > keep) {
      builder.add(OpKind::kDone, order_.front());
      forget(order_.front());
      order_.pop_front();
    }
    for (std::size_t i = 0; i < count; ++i) {
      order_.push_back(add(builder, payload_bytes));
    }
    commit(builder, false);
    clean();
  }

  TaskId add(BatchBuilder& builder, std::size_t payload_bytes) {
    const TaskId id = writer_.next_id();
    builder.schedule(id, {}, std::string(payload_bytes, 'p'));
    live_[id.value] = payload_bytes;
    live_bytes_ += payload_bytes + kTaskBytes;
    return id;
  }

  void commit(const BatchBuilder& builder, bool carried) {
    const std::uint64_t before = writer_.journal().stats().bytes;
    ASSERT_EQ(writer_.commit(builder, true, low_water_).text(), "ok");
    low_water_ = 0;
    (carried ? carried_bytes_ : user_bytes_) += writer_.journal().stats().bytes - before;
  }

  void clean() {
    CleanRequest request;
    if (!writer_.journal().next_to_clean(live_bytes_, &request)) {
      return;
    }
    BatchBuilder builder(writer_.next_lsn());
    for (const TaskId id : request.ids) {
      if (const auto task = live_.find(id.value); task != live_.end()) {
        builder.schedule(id, {}, std::string(task->second, 'p'));
      }
    }
    low_water_ = request.low_water;
    commit(builder, true);
  }

  const std::map<std::uint64_t, std::size_t>& live() const { return live_; }
  std::uint64_t live_bytes() const { return live_bytes_; }
  double write_amplification() const {
    return static_cast<double>(user_bytes_ + carried_bytes_) / static_cast<double>(user_bytes_);
  }

 private:
  static constexpr std::uint64_t kTaskBytes = 21;

  void forget(TaskId id) {
    live_bytes_ -= live_[id.value] + kTaskBytes;
    live_.erase(id.value);
  }

  LogWriter& writer_;
  std::map<std::uint64_t, std::size_t> live_;
  std::deque<TaskId> order_;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t low_water_ = 0;
  std::uint64_t user_bytes_ = 0;
  std::uint64_t carried_bytes_ = 0;
};

// What a reader of the whole log ends up with.
Status live_in(const std::string& directory, std::map<std::uint64_t, std::size_t>* live) {
  Result<std::unique_ptr<Log>> log = Log::open(directory, small_options());
  if (!log.ok()) {
    return log.status();
  }
  return (*log)->read([live](const BlobHeader&, std::span<const Op> ops) {
    for (const Op& op : ops) {
      if (op.kind == OpKind::kSchedule) {
        (*live)[op.id.value] = op.payload_bytes;
      } else {
        live->erase(op.id.value);
      }
    }
    return Status();
  });
}

TEST(Cleaner, AnIdleLogIsLeftAloneWhileItIsSmall) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  CleanRequest request;
  EXPECT_FALSE(writer.journal().next_to_clean(0, &request));
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(writer.commit(100, 1000).text(), "ok");  // 3 MB of the 4 that are allowed
  }
  EXPECT_FALSE(writer.journal().next_to_clean(0, &request));
  EXPECT_GT(writer.journal().stats().log_bytes, 3'000'000U);
}

TEST(Cleaner, NamesTheOldestTasksAndTypesOnceUntilTheyAreCarriedOn) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  BatchBuilder type(writer.next_lsn());
  type.set_data(&type.add(OpKind::kType, TaskId{9}), {}, "order.expire", {});
  ASSERT_EQ(writer.commit(type, true).text(), "ok");
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(writer.commit(100, 1000).text(), "ok");
  }
  CleanRequest request;
  ASSERT_TRUE(writer.journal().next_to_clean(0, &request));
  EXPECT_EQ(request.types, std::vector<std::uint16_t>{9});
  EXPECT_GE(request.ids.size(), 1000U);  // at least 1 MiB at a time
  EXPECT_LE(request.ids.size(), 3000U);
  EXPECT_EQ(request.ids.front(), writer.acknowledged().front());
  const std::uint64_t low_water = request.low_water;
  EXPECT_GT(low_water, 10U);
  EXPECT_FALSE(writer.journal().next_to_clean(0, &request)) << "asked twice";
  ASSERT_EQ(writer.commit(BatchBuilder(writer.next_lsn()), true, low_water).text(), "ok");
  EXPECT_FALSE(writer.journal().next_to_clean(0, &request)) << "small enough again";
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(writer.commit(100, 1000).text(), "ok");
  }
  ASSERT_TRUE(writer.journal().next_to_clean(0, &request));
  EXPECT_GT(request.low_water, low_water);
  EXPECT_TRUE(request.types.empty());
  // A restart begins at the mark, whatever is still in the files.
  writer.close();
  LogContent content;
  LogFacts facts;
  ASSERT_EQ(testing::restart(temp / "log", &content, &facts).text(), "ok");
  EXPECT_EQ(facts.first_sequence, low_water);
  EXPECT_EQ(content.blobs.front().sequence, low_water);
}

TEST(Cleaner, TwiceTheLiveBytesAreAllowed) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(writer.commit(100, 1000).text(), "ok");
  }
  CleanRequest request;
  const std::uint64_t log_bytes = writer.journal().stats().log_bytes;
  EXPECT_GT(log_bytes, 10'000'000U);
  EXPECT_FALSE(writer.journal().next_to_clean(log_bytes / 2 + 200'000, &request));
  EXPECT_TRUE(writer.journal().next_to_clean(log_bytes / 2 - 100'000, &request));
}

TEST(Cleaner, DiskStaysBoundedUnderChurnWithOneTaskFarAhead) {
  // One task due in 30 days among 80 MB of tasks that come and go: disk <= max(min_log_bytes,
  // 2 x live) + three memtables, write amplification <= 2, restart fast. (4 MiB + 3 x 1 MiB here.)
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  Table table(writer);
  BatchBuilder first(writer.next_lsn());
  const TaskId far_ahead = table.add(first, 1000);
  table.commit(first, false);
  std::uint64_t peak_bytes = 0;
  for (int i = 0; i < 3200; ++i) {
    table.turn(25, 1000, 200);
    if (i % 20 == 0) {
      peak_bytes = std::max(peak_bytes, writer.journal().stats().disk_bytes);
    }
  }
  EXPECT_EQ(table.live().count(far_ahead.value), 1U);
  EXPECT_LE(peak_bytes, (4U + 3U) << 20) << "disk";
  EXPECT_LE(table.write_amplification(), 2.0);
  EXPECT_LE(table.write_amplification(), 1.2) << "almost nothing of this lives";
  writer.close();
  std::map<std::uint64_t, std::size_t> live;
  const auto before = std::chrono::steady_clock::now();
  ASSERT_EQ(live_in(temp / "log", &live).text(), "ok");
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(10));
  EXPECT_EQ(live, table.live());
}

TEST(Cleaner, WriteAmplificationStaysBelowTwoWhenMuchLives) {
  // 4,000 of 1 KB always live, ended in the order they came: the log may be 8 MB.
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  Table table(writer);
  std::uint64_t peak_bytes = 0;
  for (int i = 0; i < 1200; ++i) {
    table.turn(25, 1000, 4000);
    peak_bytes = std::max(peak_bytes, writer.journal().stats().disk_bytes);
  }
  EXPECT_LE(table.write_amplification(), 2.0);
  EXPECT_LE(peak_bytes, 2 * table.live_bytes() + (3U << 20));
  writer.close();
  std::map<std::uint64_t, std::size_t> live;
  ASSERT_EQ(live_in(temp / "log", &live).text(), "ok");
  EXPECT_EQ(live, table.live());
}

TEST(Cleaner, LiveTasksThatEndAtRandomAreCarriedOnWithAmplificationBelowTwo) {
  std::mt19937_64 random(testing::seed_from_environment(5));
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  std::map<std::uint64_t, std::size_t> live;
  std::vector<TaskId> ids;
  std::uint64_t user_bytes = 0;
  std::uint64_t low_water = 0;
  for (int turn = 0; turn < 300; ++turn) {
    BatchBuilder builder(writer.next_lsn());
    for (int i = 0; i < 100; ++i) {
      if (ids.size() >= 4000) {
        std::swap(ids[random() % ids.size()], ids.back());
        builder.add(OpKind::kDone, ids.back());
        live.erase(ids.back().value);
        ids.pop_back();
      }
      ids.push_back(writer.next_id());
      builder.schedule(ids.back(), {}, std::string(1000, 'p'));
      live[ids.back().value] = 1000;
    }
    const std::uint64_t before = writer.journal().stats().bytes;
    ASSERT_EQ(writer.commit(builder, true, low_water).text(), "ok");
    user_bytes += writer.journal().stats().bytes - before;
    low_water = 0;
    CleanRequest request;
    if (writer.journal().next_to_clean(live.size() * 1021, &request)) {
      BatchBuilder carried(writer.next_lsn());
      for (const TaskId id : request.ids) {
        if (live.count(id.value) != 0) {
          carried.schedule(id, {}, std::string(1000, 'p'));
        }
      }
      ASSERT_EQ(writer.commit(carried, true).text(), "ok");
      low_water = request.low_water;
    }
  }
  const auto written_bytes = static_cast<double>(writer.journal().stats().bytes);
  const double amplification = written_bytes / static_cast<double>(user_bytes);
  EXPECT_LE(amplification, 2.0);
  EXPECT_GT(amplification, 1.0) << "nothing was carried on, so nothing was tested";
  RecordProperty("write_amplification", std::to_string(amplification));
  writer.close();
  std::map<std::uint64_t, std::size_t> recovered;
  ASSERT_EQ(live_in(temp / "log", &recovered).text(), "ok");
  EXPECT_EQ(recovered, live);
}

TEST(WalCases, B46_ManyDoneTasksInFrontOfAFewLiveOnes) {
  // 200,000 tasks done in deadline order, 10 left: the restart's scan visits <= 1,000 tombstones.
  // There are none: what is dead is dropped as whole files or skipped by the low-water mark.
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  Table table(writer);
  for (int i = 0; i < 400; ++i) {
    table.turn(500, 16, 500);
  }
  table.turn(0, 16, 10);
  EXPECT_EQ(table.live().size(), 10U);
  writer.close();
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  rocksdb::get_perf_context()->Reset();
  std::map<std::uint64_t, std::size_t> live;
  ASSERT_EQ(live_in(temp / "log", &live).text(), "ok");
  EXPECT_EQ(rocksdb::get_perf_context()->internal_delete_skipped_count, 0U);
  EXPECT_EQ(live, table.live());
}

}  // namespace
}  // namespace countwheel
