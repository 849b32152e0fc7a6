// Crashes at random changes of files, of the machine and of the process alone, while an application
// writes its own tables with its tasks: what is left must be one prefix of what happened, the same
// in both, and hold everything that was acknowledged. COUNTWHEEL_CRASHES sets how many,
// COUNTWHEEL_SEED and COUNTWHEEL_PART which.
//
// One thread drives the engine on a clock of its own, so that the order of what happens is known.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <rocksdb/env.h>

#include <countwheel/recovery.h>
#include <countwheel/rocksdb.h>

#include "testing/directory.h"
#include "testing/power_cut_fs.h"

namespace countwheel::testing {
namespace {

namespace fs = std::filesystem;

using std::chrono::milliseconds;

// A row of the table `states`, under the number of its task: which event wrote it and what it said.
// The payload of a task that waits is the number of that event.
enum class State : char { kWaiting = 'w', kCancelled = 'c', kDone = 'd' };
struct Row {
  std::uint64_t event = 0;
  State state = State::kWaiting;
  bool operator==(const Row&) const = default;

  std::string text() const { return std::to_string(event) + static_cast<char>(state); }
  static Row of(const std::string& text) {
    return {std::strtoull(text.c_str(), nullptr, 10), static_cast<State>(text.back())};
  }
};
using Rows = std::map<std::string, Row>;  // by key

// What has happened since a start, in the order of the log, and how much of it was acknowledged.
struct History {
  PowerCutFs::End end = PowerCutFs::End::kProcess;  // how it ended
  Rows before;                                      // found at the start
  std::uint64_t done_before = 0;
  std::vector<std::pair<std::string, Row>> events;
  std::size_t at_os = 0;
  std::size_t at_disk = 0;
  // The application's own writes, without a task: ascending numbers.
  std::uint64_t own = 0;
  std::uint64_t own_at_os = 0;
  std::uint64_t own_at_disk = 0;

  Rows after(std::size_t count) const {
    Rows rows = before;
    for (std::size_t i = 0; i < count; ++i) {
      rows[events[i].first] = events[i].second;
    }
    return rows;
  }
  std::uint64_t done_after(std::size_t count) const {
    std::uint64_t done = done_before;
    for (std::size_t i = 0; i < count; ++i) {
      done += events[i].second.state == State::kDone ? 1U : 0U;
    }
    return done;
  }
};

std::uint64_t number_from_environment(const char* name, std::uint64_t fallback) {
  const char* const text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

class AtomicWrites : public ::testing::Test {
 protected:
  AtomicWrites()
      : random_(seed_from_environment(14) + number_from_environment("COUNTWHEEL_PART", 0)) {}

  // One life of a machine or process, from its start to its end; `directory_` is then what is left.
  void live() {
    ++crashes_;
    const std::string name = std::to_string(crashes_);
    fs_ = std::make_shared<PowerCutFs>(directory_, temp_ / ("shadow" + name));
    env_ = make_env(fs_);
    end_ = random_() % 2 == 0 ? PowerCutFs::End::kMachine : PowerCutFs::End::kProcess;
    const std::string image = temp_ / ("image" + name);
    // Opening makes some forty changes, a table file four.
    fs_->crash_at(
        1 + random_() % (random_() % 4 == 0 ? 40U : 250U), end_, image, random_(), [this] {
          const std::lock_guard lock(mutex_);
          left_ = history_;
          left_.end = begun_ ? end_ : history_.end;
        });
    begun_ = false;
    run();
    if (HasFatalFailure()) {
      return;
    }
    fs_->crash_now();  // in the middle of nothing
    engine_.reset();
    ASSERT_EQ(fs_->unmodelled_count(), 0U);
    ASSERT_EQ(fs_->early_log_count(), 0U);
    env_.reset();
    fs_.reset();
    fs::remove_all(directory_);
    directory_ = image;
    history_ = left_;
    boot_ += end_ == PowerCutFs::End::kMachine ? 1 : 0;
  }

  void run() {
    OpenOptions options;
    options.clock = &clock_;
    options.engine.drive = Drive::kHost;
    options.wal.env = env_.get();
    options.wal.boot_id = std::to_string(boot_);
    options.wal.memtable_bytes = 64 << 10;
    options.wal.min_log_bytes = 64 << 10;
    options.wal.attempt_cells = 16;
    options.wal.app_column_families = {{"states"}, {"own"}};
    Result<Opened> opened = countwheel::open(directory_, options);
    if (fs_->crashed()) {
      ++crashed_in_open_;
      return;
    }
    ASSERT_TRUE(opened.ok()) << "crash " << crashes_ << ": " << opened.status().text();
    engine_ = std::move(opened->engine);
    torn_ += opened->report.torn_bytes > 0 ? 1U : 0U;
    redelivered_ += opened->report.redelivered;
    states_ = engine_->app_database()->family("states");
    own_ = engine_->app_database()->family("own");
    verify();
    if (HasFatalFailure()) {
      return;
    }
    TypePolicy policy;  // nothing becomes a dead letter
    policy.retry = RetryPolicy::fixed(milliseconds(20));
    policy.retry.max_attempts = 0;
    policy.retry.max_crashes = 255;
    ASSERT_TRUE(
        engine_
            ->on(
                "number", [this](Delivery delivery) { handle(std::move(delivery)); }, policy)
            .ok());
    ASSERT_TRUE(engine_->start().ok());
    settle(Durability::kDisk);
    for (int step = 0; step < 300 && !fs_->crashed(); ++step) {
      act();
    }
  }

  rocksdb::DB& db() { return engine_->app_database()->db(); }
  std::string get(rocksdb::ColumnFamilyHandle* table, const std::string& key) {
    std::string value = "0";
    const rocksdb::Status status = db().Get({}, table, key, &value);
    EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
    return value;
  }

  // The tables and the tasks are the same prefix of the history, and not too short a one.
  void verify() {
    Rows rows;
    std::uint64_t newest = 0;
    const std::unique_ptr<rocksdb::Iterator> all(db().NewIterator({}, states_));
    for (all->SeekToFirst(); all->Valid(); all->Next()) {
      const Row row = Row::of(all->value().ToString());
      rows[all->key().ToString()] = row;
      newest = std::max(newest, row.event);
    }
    ASSERT_TRUE(all->status().ok());
    std::size_t kept = 0;
    while (kept < history_.events.size() && history_.events[kept].second.event <= newest) {
      ++kept;
    }
    const bool power = history_.end == PowerCutFs::End::kMachine;
    ASSERT_GE(kept, power ? history_.at_disk : history_.at_os) << what() << "acknowledged and lost";
    ASSERT_EQ(rows, history_.after(kept)) << what() << "the rows are of no prefix";
    Rows waiting;
    for (const TaskInfo& task : engine_->list({}, 100'000)) {
      ASSERT_EQ(task.state, countwheel::State::kScheduled) << what() << task.last_error;
      waiting[task.key] = {std::strtoull(task.payload.c_str(), nullptr, 10), State::kWaiting};
    }
    std::erase_if(rows, [](const auto& entry) { return entry.second.state != State::kWaiting; });
    ASSERT_EQ(waiting, rows) << what() << "tasks and rows differ";
    ASSERT_EQ(std::to_string(history_.done_after(kept)), get(own_, "done"))
        << what() << "an effect was lost or repeated";
    const std::uint64_t own = std::strtoull(get(own_, "own").c_str(), nullptr, 10);
    ASSERT_LE(own, history_.own);
    ASSERT_GE(own, power ? history_.own_at_disk : history_.own_at_os) << what() << "own writes";
    lost_events_ += history_.events.size() - kept;
    done_ = history_.done_after(kept);
    const std::lock_guard lock(mutex_);
    History next;
    next.before = history_.after(kept);
    next.done_before = done_;
    next.own = next.own_at_os = next.own_at_disk = own;
    history_ = std::move(next);
    begun_ = true;
  }
  std::string what() const {
    return "crash " + std::to_string(crashes_) + " of " +
           (history_.end == PowerCutFs::End::kMachine ? "the machine: " : "the process: ");
  }

  // Notes what is about to happen to a task; answers the row that says so.
  Row begin(const std::string& key, State state) {
    const Row row{++next_event_, state};
    const std::lock_guard lock(mutex_);
    history_.events.emplace_back(key, row);
    return row;
  }
  void take_back() {
    const std::lock_guard lock(mutex_);
    history_.events.pop_back();
  }
  // Everything that has happened so far has been acknowledged at `level`.
  void settle(Durability level) {
    if (level == Durability::kMemory) {
      return;
    }
    const std::lock_guard lock(mutex_);
    history_.at_os = history_.events.size();
    if (level == Durability::kDisk) {
      history_.at_disk = history_.events.size();
      history_.own_at_disk = history_.own_at_os;
    }
  }

  void act() {
    switch (random_() % 12) {
      case 0:
      case 1:
      case 2:
      case 3:
        return schedule(KeyPolicy::kReject);
      case 4:
        return schedule(KeyPolicy::kReplace);
      case 5:
      case 6:
      case 7:
        return cancel();
      case 8:
        (void)engine_->submit_reschedule(random_key(), after(milliseconds(random_() % 100)));
        return;
      case 9:
        return write_own();
      default:
        clock_.advance(milliseconds(random_() % 40));
        engine_->poll();
    }
  }

  std::string random_key() { return std::to_string(random_() % 60); }

  void schedule(KeyPolicy policy) {
    const std::string key = random_key();
    const auto level = static_cast<Durability>(random_() % 3);
    const Row row = begin(key, State::kWaiting);
    const std::string payload = std::to_string(row.event);
    TaskSpec spec{.type = "number",
                  .deadline = after(milliseconds(random_() % 200)),
                  .key = key,
                  .payload = payload};
    spec.key_policy = policy;
    spec.durability = level;
    rocksdb::WriteBatch batch;
    ASSERT_TRUE(batch.Put(states_, key, row.text()).ok());
    if (random_() % 4 == 0) {  // fills the memtables
      ASSERT_TRUE(batch.Put(own_, "ballast", std::string(random_() % 20'000, 'b')).ok());
    }
    const Result<TaskId> id = engine_->schedule(spec, writes_of(batch));
    if (id.code() == Code::kExists) {
      return take_back();
    }
    ASSERT_TRUE(id.ok()) << id.status().text();
    settle(level);
  }

  void cancel() {
    const std::string key = random_key();
    const Row row = begin(key, State::kCancelled);
    rocksdb::WriteBatch batch;
    ASSERT_TRUE(batch.Put(states_, key, row.text()).ok());
    const bool waits = random_() % 2 == 0;
    const Change change = waits ? engine_->cancel(key, writes_of(batch))
                                : engine_->submit_cancel(key, writes_of(batch));
    if (!change) {
      ASSERT_EQ(change.status.code(), Code::kNotFound) << change.status.text();
      return take_back();
    }
    if (waits) {
      settle(Durability::kDisk);
    }
  }

  void write_own() {
    rocksdb::WriteOptions options;
    options.sync = random_() % 2 == 0;
    const std::uint64_t number = history_.own + 1;
    {
      const std::lock_guard lock(mutex_);
      history_.own = number;
    }
    ASSERT_TRUE(db().Put(options, own_, "own", std::to_string(number)).ok());
    const std::lock_guard lock(mutex_);
    history_.own_at_os = number;
    history_.own_at_disk = options.sync ? number : history_.own_at_disk;
  }

  // Counts, in a row that says how many there were before: nothing that may happen twice.
  void handle(Delivery delivery) {
    if (random_() % 8 == 0) {
      return (void)delivery.fail("not today");
    }
    const std::string key(delivery.key());
    const Row row = begin(key, State::kDone);
    rocksdb::WriteBatch batch;
    ASSERT_TRUE(batch.Put(states_, key, row.text()).ok());
    ASSERT_TRUE(batch.Put(own_, "done", std::to_string(++done_)).ok());
    ASSERT_TRUE(delivery.done(writes_of(batch)).ok());
  }

  TempDirectory temp_;
  std::mt19937_64 random_;
  std::string directory_ = temp_ / "image0";
  ManualClock clock_;
  std::shared_ptr<PowerCutFs> fs_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<Engine> engine_;
  rocksdb::ColumnFamilyHandle* states_ = nullptr;
  rocksdb::ColumnFamilyHandle* own_ = nullptr;

  std::mutex mutex_;  // guards the next three: a flush of RocksDB's may be where the crash comes
  History history_;
  History left_;  // when the crash came
  bool begun_ = false;
  std::uint64_t next_event_ = 0;
  std::uint64_t done_ = 0;
  int boot_ = 0;
  PowerCutFs::End end_ = PowerCutFs::End::kProcess;  // of this life

  std::uint64_t crashes_ = 0;
  std::uint64_t crashed_in_open_ = 0;
  std::uint64_t torn_ = 0;
  std::uint64_t redelivered_ = 0;
  std::uint64_t lost_events_ = 0;
};

std::uint64_t crashes_wanted() {
  const std::uint64_t crashes = number_from_environment("COUNTWHEEL_CRASHES", 200);
  const std::uint64_t seconds = number_from_environment("COUNTWHEEL_SOAK_SECONDS", 0);
  return std::max(crashes, seconds * 20);
}

TEST_F(AtomicWrites, DivergeFromTheTasksInNoCrash) {
  const std::uint64_t wanted = crashes_wanted();
  while (crashes_ < wanted) {
    live();
    if (HasFailure()) {
      return;
    }
  }
  // It did what it is for.
  EXPECT_GT(crashed_in_open_, 0);
  EXPECT_GT(torn_, 0U);
  EXPECT_GT(redelivered_, 0U);
  EXPECT_GT(lost_events_, 0U);
  std::printf(
      "%llu crashes, %llu of them while opening; %llu torn tails, %llu redelivered, %llu done, "
      "%llu events that nobody was told about\n",
      static_cast<unsigned long long>(crashes_),
      static_cast<unsigned long long>(crashed_in_open_),
      static_cast<unsigned long long>(torn_),
      static_cast<unsigned long long>(redelivered_),
      static_cast<unsigned long long>(done_),
      static_cast<unsigned long long>(lost_events_));
}

}  // namespace
}  // namespace countwheel::testing
