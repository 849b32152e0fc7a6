// The end of an engine: whom stop() waits for, whom it names, what is left behind; forks, and many
// engines in one process.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <dirent.h>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"
#include "testing/memory_log.h"
#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using testing::eventually;
using testing::HostEngine;
using testing::MemoryLog;
using testing::ThreadedEngine;

std::size_t entries_in(const char* directory) {
  std::size_t count = 0;
  DIR* opened = opendir(directory);
  if (opened != nullptr) {
    while (readdir(opened) != nullptr) {
      ++count;
    }
    closedir(opened);
  }
  return count;
}
std::size_t thread_count() {
  return entries_in("/proc/self/task");
}
std::size_t descriptor_count() {
  return entries_in("/proc/self/fd");
}

// An engine whose one task does not end before open().
class StuckHandler {
 public:
  explicit StuckHandler(std::unique_ptr<Journal> journal = nullptr)
      : threaded_(std::make_unique<ThreadedEngine>(EngineOptions{}, std::move(journal))) {
    EXPECT_TRUE(threaded_->engine
                    ->on("test",
                         [this](Delivery d) {
                           entered_ = true;
                           EXPECT_TRUE(eventually([&] { return open_.load(); }));
                           for (int i = 0; i < 1000; ++i) {
                             std::this_thread::yield();
                           }
                           answer_ = d.done().code();
                           ended_ = true;
                         })
                    .ok());
    EXPECT_TRUE(threaded_->engine->start().ok());
    id_ = threaded_->schedule(after(0s));
    EXPECT_TRUE(eventually([&] { return entered_.load(); }));
  }

  Engine& engine() { return *threaded_->engine; }
  void destroy() { threaded_.reset(); }
  TaskId id() const { return id_; }
  void open() { open_ = true; }
  bool ended() const { return ended_; }
  Code answer() const { return answer_; }

 private:
  std::atomic<bool> entered_{false};
  std::atomic<bool> open_{false};
  std::atomic<bool> ended_{false};
  std::atomic<Code> answer_{Code::kOk};
  TaskId id_;
  std::unique_ptr<ThreadedEngine> threaded_;
};

TEST(Stop, NamesWhatWouldNotEnd) {
  StuckHandler stuck;
  const Status status = stuck.engine().stop(5ms);
  EXPECT_EQ(status.code(), Code::kTimedOut);
  EXPECT_NE(status.text().find(std::to_string(stuck.id().value)), std::string::npos)
      << status.text();
  EXPECT_EQ(stuck.engine().stop(5ms).code(), Code::kTimedOut);  // the same answer again
  EXPECT_EQ(stuck.engine().submit({.type = "test", .deadline = after(0s)}).code(), Code::kStopped);
  stuck.open();
  ASSERT_TRUE(eventually([&] { return stuck.ended(); }));
  EXPECT_EQ(stuck.answer(), Code::kStopped);
}

TEST(Stop, TheDestructorWaitsForHandlersThatAStopGaveUpOn) {
  StuckHandler stuck;
  EXPECT_EQ(stuck.engine().stop(1ms).code(), Code::kTimedOut);
  std::thread opener([&] { stuck.open(); });
  stuck.destroy();
  EXPECT_TRUE(stuck.ended());
  opener.join();
}

TEST(Stop, WaitsForWhatRunsAndMarksTheLogAsClean) {
  MemoryLog log;
  StuckHandler stuck(log.journal());
  std::thread opener([&] { stuck.open(); });
  EXPECT_TRUE(stuck.engine().stop().ok());
  EXPECT_TRUE(stuck.ended());
  EXPECT_EQ(stuck.answer(), Code::kOk);
  opener.join();
  EXPECT_TRUE(log.end().clean_stop);
  EXPECT_EQ(log.synced_size(), log.size());
  stuck.destroy();
  EXPECT_TRUE(log.end().clean_stop);  // nothing follows
}

TEST(Stop, AStopThatGaveUpIsNotClean) {
  MemoryLog log;
  StuckHandler stuck(log.journal());
  EXPECT_EQ(stuck.engine().stop(1ms).code(), Code::kTimedOut);
  EXPECT_FALSE(log.end().clean_stop);
  stuck.open();
  stuck.destroy();
  EXPECT_FALSE(log.end().clean_stop);
}

TEST(Stop, OfAnEngineThatNeverStarted) {
  MemoryLog log;
  {
    HostEngine host({}, nullptr, log.journal());
    host.schedule(after(1h), "K");
    EXPECT_TRUE(host.engine->stop().ok());
    EXPECT_EQ(host.engine->start().code(), Code::kStopped);
    EXPECT_EQ(host.engine->poll(), 0U);
    EXPECT_TRUE(host.engine->find("K").ok());
  }
  EXPECT_TRUE(log.end().clean_stop);
  const ThreadedEngine destroyed_at_once;
}

TEST(Stop, OfAHostHandsNothingOverAnyMore) {
  HostEngine host;
  host.run();
  host.schedule(after(1s));
  EXPECT_TRUE(host.engine->stop().ok());
  EXPECT_EQ(host.advance(2s), 0U);
  EXPECT_TRUE(host.started.empty());
  EXPECT_EQ(host.engine->stats().pending, 1U);
  EXPECT_TRUE(host.engine->stop().ok());
}

TEST(Start, TwiceIsOnce) {
  ThreadedEngine threaded;
  const std::size_t before = thread_count();
  threaded.run();
  const std::size_t started = thread_count();
  EXPECT_EQ(started, before + 2);  // tick and commit
  EXPECT_TRUE(threaded.engine->start().ok());
  EXPECT_EQ(thread_count(), started);
}

TEST(Start, WhatWasScheduledBeforeRunsAfter) {
  ThreadedEngine threaded;
  threaded.schedule(after(1s));
  threaded.clock.advance(2s);
  threaded.run();
  ASSERT_TRUE(threaded.wait_starts(1));
  EXPECT_EQ(threaded.starts()[0].lateness, 1s);
}

TEST(ManyEngines, FiftyInOneProcessLeaveNothingBehind) {
  const std::size_t threads = thread_count();
  const std::size_t descriptors = descriptor_count();
  {
    std::vector<std::unique_ptr<Engine>> engines;
    std::atomic<int> runs{0};
    for (int i = 0; i < 50; ++i) {
      EngineOptions options;
      options.workers = 1;
      Result<std::unique_ptr<Engine>> made = Engine::create(options);
      ASSERT_TRUE(made.ok()) << made.status().text();
      ASSERT_TRUE((*made)
                      ->on("test",
                           [&](Delivery d) {
                             ++runs;
                             EXPECT_TRUE(d.done().ok());
                           })
                      .ok());
      ASSERT_TRUE((*made)->start().ok());
      engines.push_back(std::move(*made));
    }
    EXPECT_EQ(thread_count(), threads + 50 * (2 + 1));
    for (const std::unique_ptr<Engine>& engine : engines) {
      ASSERT_TRUE(engine->schedule({.type = "test", .deadline = after(1ms)}).ok());
    }
    EXPECT_TRUE(eventually([&] { return runs == 50; }));
    for (const std::unique_ptr<Engine>& engine : engines) {
      EXPECT_TRUE(engine->stop().ok());
    }
  }
  EXPECT_TRUE(eventually([&] { return thread_count() == threads; }));
  EXPECT_EQ(descriptor_count(), descriptors);
}

// What the calls of a forked child answer; 0 when all say `forked`.
int calls_in_child(std::unique_ptr<Engine> engine, TaskId id, Lsn lsn) {
  const std::array<Code, 9> codes = {
      engine->schedule({.type = "test", .deadline = after(1s)}).code(),
      engine->submit({.type = "test", .deadline = after(1s)}).code(),
      engine->cancel(id).status.code(),
      engine->cancel("K").status.code(),
      engine->reschedule(id, after(1s)).status.code(),
      engine->wait_durable({lsn.value + 1}).code(),
      engine->on("other", [](Delivery) {}).code(),
      engine->start().code(),
      engine->stop().code()};
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] != Code::kForked) {
      return static_cast<int>(i) + 1;
    }
  }
  engine.reset();  // The threads are the parent's: nothing is joined, nothing aborts.
  return 0;
}

TEST(Fork, AChildCannotUseItsParentsEngine) {
  Result<std::unique_ptr<Engine>> made = Engine::create({});
  ASSERT_TRUE(made.ok());
  std::unique_ptr<Engine> engine = std::move(*made);
  std::atomic<int> runs{0};
  ASSERT_TRUE(engine
                  ->on("test",
                       [&](Delivery d) {
                         ++runs;
                         EXPECT_TRUE(d.done().ok());
                       })
                  .ok());
  ASSERT_TRUE(engine->start().ok());
  const Result<TaskId> id = engine->schedule({.type = "test", .deadline = after(1h), .key = "K"});
  ASSERT_TRUE(id.ok());
  const Lsn lsn = engine->durable_lsn();
  const pid_t child = fork();
  if (child == 0) {
    _exit(calls_in_child(std::move(engine), *id, lsn));
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the number of the call that was not refused";
  // The parent goes on.
  EXPECT_EQ(engine->cancel(*id).status.code(), Code::kCancelled);
  ASSERT_TRUE(engine->schedule({.type = "test", .deadline = after(0s)}).ok());
  EXPECT_TRUE(eventually([&] { return runs == 1; }));
}

}  // namespace
}  // namespace countwheel
