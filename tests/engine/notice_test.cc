// notify_durable(): a caller that waits without a thread is told once, whatever becomes of its
// operation, and makes the commit happen that it waits for.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"
#include "testing/fault_journal.h"
#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::FaultJournal;
using testing::Faults;
using testing::HostEngine;
using testing::ThreadedEngine;

// Remembers what it was told. Must outlive the wait.
class Ear {
 public:
  Notice notice() {
    return {[](void* self, const Status& status) noexcept {
              auto& ear = *static_cast<Ear*>(self);
              const std::lock_guard lock(ear.mutex_);
              ear.last_ = status.code();
              ++ear.count_;
            },
            this};
  }
  int count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  std::optional<Code> heard() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Code> last_;  // guarded by mutex_
  int count_ = 0;             // guarded by mutex_
};

TaskSpec in_an_hour(Durability durability) {
  return {.type = "test", .deadline = after(1h), .durability = durability};
}

// On threads, with a journal whose appends the test holds or fails.
class NoticeOnThreads : public ::testing::Test {
 protected:
  explicit NoticeOnThreads(EngineOptions options = {})
      : host_(options, std::make_unique<FaultJournal>(&faults_)) {
    host_.run();
  }

  Lsn submit(Durability durability = Durability::kDisk) {
    const Result<Submitted> submitted = engine().submit(in_an_hour(durability));
    EXPECT_TRUE(submitted.ok()) << submitted.status().text();
    return submitted.ok() ? submitted->lsn : Lsn{};
  }
  Engine& engine() { return *host_.engine; }

  Faults faults_;
  ThreadedEngine host_;
};

TEST_F(NoticeOnThreads, WhatIsDurableIsToldAtOnce) {
  const Lsn lsn = submit();
  ASSERT_TRUE(engine().wait_durable(lsn).ok());
  Ear ear;
  engine().notify_durable(lsn, Durability::kDisk, ear.notice());
  EXPECT_EQ(ear.heard(), Code::kOk);
  EXPECT_FALSE(engine().withdraw_notice(lsn, Durability::kDisk, ear.notice()));
}

TEST_F(NoticeOnThreads, NothingIsDurableBeforeTheFirstLsn) {
  Ear ear;
  engine().notify_durable({}, Durability::kDisk, ear.notice());
  EXPECT_EQ(ear.heard(), Code::kOk);
}

TEST_F(NoticeOnThreads, MemoryIsReachedAtOnce) {
  faults_.hold();
  const Lsn lsn = submit();
  Ear ear;
  engine().notify_durable(lsn, Durability::kMemory, ear.notice());
  EXPECT_EQ(ear.heard(), Code::kOk);
  EXPECT_FALSE(engine().withdraw_notice(lsn, Durability::kMemory, ear.notice()));
  faults_.release();
}

TEST_F(NoticeOnThreads, LsnNobodyHasIsRefused) {
  Ear ear;
  engine().notify_durable({1'000'000}, Durability::kDisk, ear.notice());
  EXPECT_EQ(ear.heard(), Code::kOutOfRange);
}

TEST_F(NoticeOnThreads, WaiterHearsOfItsBatchOnceAndNotBefore) {
  faults_.hold();
  const Lsn lsn = submit();
  Ear disk;
  Ear os;
  engine().notify_durable(lsn, Durability::kDisk, disk.notice());
  engine().notify_durable(lsn, Durability::kOs, os.notice());
  ASSERT_TRUE(eventually([&] { return faults_.waiting(); }));
  EXPECT_EQ(disk.count(), 0);
  faults_.release();
  ASSERT_TRUE(eventually([&] { return disk.count() == 1 && os.count() == 1; }));
  EXPECT_EQ(disk.heard(), Code::kOk);
  EXPECT_EQ(os.heard(), Code::kOk);
  EXPECT_GE(engine().durable_lsn(), lsn);
}

TEST_F(NoticeOnThreads, WithdrawnNoticeIsNotCalled) {
  faults_.hold();
  const Lsn lsn = submit();
  Ear ear;
  Ear other;
  engine().notify_durable(lsn, Durability::kDisk, ear.notice());
  engine().notify_durable(lsn, Durability::kDisk, other.notice());
  EXPECT_FALSE(engine().withdraw_notice(lsn, Durability::kOs, ear.notice()));
  EXPECT_TRUE(engine().withdraw_notice(lsn, Durability::kDisk, ear.notice()));
  EXPECT_FALSE(engine().withdraw_notice(lsn, Durability::kDisk, ear.notice()));
  faults_.release();
  ASSERT_TRUE(eventually([&] { return other.count() == 1; }));
  EXPECT_EQ(ear.count(), 0);
}

TEST_F(NoticeOnThreads, RolledBackOperationReportsItsFailure) {
  faults_.hold();
  const Lsn first = submit();
  ASSERT_TRUE(eventually([&] { return faults_.waiting(); }));
  const Lsn second = submit();
  Ear one;
  Ear two;
  engine().notify_durable(first, Durability::kDisk, one.notice());
  engine().notify_durable(second, Durability::kOs, two.notice());
  faults_.answer(Code::kNoSpace);
  faults_.release();
  ASSERT_TRUE(eventually([&] { return one.count() == 1 && two.count() == 1; }));
  EXPECT_EQ(one.heard(), Code::kNoSpace);
  EXPECT_EQ(two.heard(), Code::kNoSpace);
  EXPECT_EQ(engine().stats().pending, 0U);

  // Whoever asks late hears the same, and service goes on.
  Ear late;
  engine().notify_durable(first, Durability::kDisk, late.notice());
  EXPECT_EQ(late.heard(), Code::kNoSpace);
  faults_.answer(Code::kOk);
  ASSERT_TRUE(eventually([&] { return engine().stats().health == Health::kOk; }));
  Ear again;
  engine().notify_durable(submit(), Durability::kDisk, again.notice());
  ASSERT_TRUE(eventually([&] { return again.count() == 1; }));
  EXPECT_EQ(again.heard(), Code::kOk);
}

TEST_F(NoticeOnThreads, OperationOfUnknownOutcomeReportsTheLog) {
  faults_.hold();
  const Lsn lsn = submit();
  Ear ear;
  engine().notify_durable(lsn, Durability::kDisk, ear.notice());
  faults_.answer(Code::kJournalFailed);
  faults_.release();
  ASSERT_TRUE(eventually([&] { return ear.count() == 1; }));
  EXPECT_EQ(ear.heard(), Code::kJournalFailed);
}

TEST_F(NoticeOnThreads, StopTellsWhoeverStillWaits) {
  // Accepted at `memory`, so a full disk does not roll it back; `disk` is out of reach.
  faults_.answer(Code::kNoSpace);
  const Lsn lsn = submit(Durability::kMemory);
  Ear ear;
  engine().notify_durable(lsn, Durability::kDisk, ear.notice());
  ASSERT_TRUE(eventually([&] { return engine().stats().health == Health::kDegraded; }));
  EXPECT_EQ(ear.count(), 0);
  ASSERT_TRUE(engine().stop().ok());
  EXPECT_EQ(ear.heard(), Code::kStopped);
  EXPECT_EQ(ear.count(), 1);
  Ear late;
  engine().notify_durable(lsn, Durability::kDisk, late.notice());
  EXPECT_EQ(late.heard(), Code::kStopped);
}

TEST_F(NoticeOnThreads, StopCommitsWhatWaits) {
  faults_.hold();
  const Lsn lsn = submit();
  Ear ear;
  engine().notify_durable(lsn, Durability::kDisk, ear.notice());
  std::thread stopping([&] { EXPECT_TRUE(engine().stop().ok()); });
  faults_.release();
  stopping.join();
  EXPECT_EQ(ear.heard(), Code::kOk);
  EXPECT_EQ(ear.count(), 1);
}

// A waiter that is added while its batch passes must not be forgotten: many, with nothing else
// going on that would look for it later.
TEST_F(NoticeOnThreads, WaiterThatMeetsItsBatchIsNotForgotten) {
  for (int i = 0; i < 2000; ++i) {
    const Lsn lsn = submit(i % 2 == 0 ? Durability::kDisk : Durability::kOs);
    for (int spin = 0; spin < i % 64; ++spin) {
      std::this_thread::yield();
    }
    Ear ear;
    engine().notify_durable(lsn, Durability::kDisk, ear.notice());
    ASSERT_TRUE(eventually([&] { return ear.count() == 1; })) << i;
    ASSERT_EQ(ear.heard(), Code::kOk);
  }
}

TEST_F(NoticeOnThreads, CalledOrWithdrawnNeverBothNeverNeither) {
  constexpr int kRounds = 500;
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([this] {
      for (int i = 0; i < kRounds; ++i) {
        Ear ear;
        const Lsn lsn = submit();
        engine().notify_durable(lsn, Durability::kDisk, ear.notice());
        std::this_thread::yield();
        const bool withdrawn = engine().withdraw_notice(lsn, Durability::kDisk, ear.notice());
        ASSERT_TRUE(eventually([&] { return ear.count() == (withdrawn ? 0 : 1); }));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

class NoticeBehindOs : public NoticeOnThreads {
 protected:
  static EngineOptions never_synced_by_itself() {
    EngineOptions options;
    options.os_sync_bound = 1h;
    return options;
  }
  NoticeBehindOs() : NoticeOnThreads(never_synced_by_itself()) {}
};

TEST_F(NoticeBehindOs, WaiterForDiskForcesTheSync) {
  ASSERT_TRUE(engine().flush().ok());
  const Lsn lsn = submit(Durability::kOs);
  ASSERT_TRUE(engine().wait_durable(lsn, Durability::kOs).ok());
  EXPECT_LT(engine().durable_lsn(), lsn);
  const std::uint64_t syncs = faults_.syncs();
  Ear ear;
  engine().notify_durable(lsn, Durability::kDisk, ear.notice());
  ASSERT_TRUE(eventually([&] { return ear.count() == 1; }));
  EXPECT_EQ(ear.heard(), Code::kOk);
  EXPECT_EQ(faults_.syncs(), syncs + 1);
}

TEST(NoticeOfAHost, IsCalledByPoll) {
  Faults faults;
  HostEngine host({}, nullptr, std::make_unique<FaultJournal>(&faults));
  host.run();
  const Result<Submitted> submitted = host.engine->submit(in_an_hour(Durability::kDisk));
  ASSERT_TRUE(submitted.ok());
  Ear ear;
  host.engine->notify_durable(submitted->lsn, Durability::kDisk, ear.notice());
  EXPECT_EQ(ear.count(), 0);
  EXPECT_EQ(host.engine->next_wake(), host.clock.now());
  host.engine->poll();
  EXPECT_EQ(ear.heard(), Code::kOk);
}

TEST(NoticeOfAHost, SyncThatSomebodyWaitsForIsWorkForPoll) {
  Faults faults;
  EngineOptions options;
  options.os_sync_bound = 1h;
  HostEngine host(options, nullptr, std::make_unique<FaultJournal>(&faults));
  host.run();
  ASSERT_TRUE(host.engine->flush().ok());
  const Result<Submitted> submitted = host.engine->submit(in_an_hour(Durability::kOs));
  ASSERT_TRUE(submitted.ok());
  host.engine->poll();
  EXPECT_GT(host.engine->next_wake().boot_ns, host.clock.now().boot_ns);
  Ear ear;
  host.engine->notify_durable(submitted->lsn, Durability::kDisk, ear.notice());
  EXPECT_EQ(ear.count(), 0);
  EXPECT_EQ(host.engine->next_wake(), host.clock.now());
  host.engine->poll();
  EXPECT_EQ(ear.heard(), Code::kOk);
}

TEST(NoticeOfAHost, CallerThatWaitsTellsTheOthers) {
  HostEngine host;
  host.run();
  const Result<Submitted> submitted = host.engine->submit(in_an_hour(Durability::kDisk));
  ASSERT_TRUE(submitted.ok());
  Ear ear;
  host.engine->notify_durable(submitted->lsn, Durability::kDisk, ear.notice());
  ASSERT_TRUE(host.engine->flush().ok());
  EXPECT_EQ(ear.heard(), Code::kOk);
}

TEST(NoticeBeforeStart, WaitsForIt) {
  ThreadedEngine host;
  const Result<Submitted> submitted = host.engine->submit(in_an_hour(Durability::kDisk));
  ASSERT_TRUE(submitted.ok());
  Ear ear;
  host.engine->notify_durable(submitted->lsn, Durability::kDisk, ear.notice());
  EXPECT_EQ(ear.count(), 0);
  host.run();
  ASSERT_TRUE(eventually([&] { return ear.count() == 1; }));
  EXPECT_EQ(ear.heard(), Code::kOk);
}

}  // namespace
}  // namespace countwheel
