// open() itself: what it reports, whom it refuses, what it makes of clocks.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recovery/restart_fixture.h"

namespace countwheel::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class Open : public Restart {};
class RecoveryCases : public Restart {};

TEST_F(Open, ANewDirectoryIsMadeAndEmpty) {
  open();
  EXPECT_EQ(report_.live, 0U);
  EXPECT_EQ(report_.ops, 0U);
  EXPECT_EQ(report_.torn_bytes, 0U);
  EXPECT_THAT(report_.text(), HasSubstr("a new log"));
  EXPECT_EQ(std::filesystem::status(directory_).permissions(), std::filesystem::perms::owner_all);
}

TEST_F(Open, ANonsenseOptionMakesNoDirectory) {
  options_.engine.workers = 0;
  EXPECT_EQ(countwheel::open(directory_, options_).code(), Code::kInvalidArgument);
  options_.engine.workers = 1;
  options_.wal.attempt_cells = 0;
  EXPECT_EQ(countwheel::open(directory_, options_).code(), Code::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(directory_));
}

TEST_F(Open, AMissingDirectoryIsNotMadeWhenNotWanted) {
  options_.wal.create_if_missing = false;
  const Result<Opened> opened = countwheel::open(directory_, options_);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.status().text(), HasSubstr(directory_));
  EXPECT_FALSE(std::filesystem::exists(directory_));
}

TEST_F(Open, TheReportCountsWhatItFound) {
  policy_.retry.max_attempts = 1;
  open();
  for (int i = 0; i < 20; ++i) {
    schedule({.type = "work", .deadline = after(seconds(i < 5 ? 1 : 3600))});
  }
  const TaskId doomed = schedule({.type = "work", .deadline = after(seconds(2)), .key = "doomed"});
  keep_ = true;
  run_for(seconds(1));
  ASSERT_EQ(kept_.size(), 5U);
  keep_ = false;
  fail_with_ = "broken";
  run_for(seconds(1));
  EXPECT_EQ(engine_->find(doomed)->state, State::kDead);
  ASSERT_TRUE(kept_[0].done().ok());
  ASSERT_TRUE(engine_->flush().ok());
  const std::uint64_t epoch = report_.epoch;
  crash();
  clock_.advance(minutes(1));
  open();
  EXPECT_EQ(report_.live, 19U);
  EXPECT_EQ(report_.dead, 1U);
  EXPECT_EQ(report_.overdue, 4U);
  EXPECT_EQ(report_.redelivered, 4U);
  EXPECT_EQ(report_.crashed, 4U);
  EXPECT_GE(report_.ops, 23U);  // 21 schedules, a done, a dead, and a type
  EXPECT_GE(report_.blobs, 3U);
  EXPECT_GT(report_.log_bytes, 0U);
  EXPECT_EQ(report_.epoch, epoch + 1);
  EXPECT_FALSE(report_.clean_stop);
  EXPECT_FALSE(report_.clock_behind);
  EXPECT_TRUE(report_.same_session);
  EXPECT_GT(report_.seconds, 0);
  EXPECT_GE(report_.seconds, report_.open_seconds);
  EXPECT_THAT(report_.text(), HasSubstr("19 live tasks, 4 overdue, 4 redelivered, 1 dead letter"));
  EXPECT_THAT(report_.text(), HasSubstr("ended without a stop"));
}

TEST_F(Open, ACleanStopIsReportedOnce) {
  open();
  schedule({.type = "work", .deadline = after(hours(1))});
  ASSERT_TRUE(engine_->stop().ok());
  engine_.reset();
  open();
  EXPECT_TRUE(report_.clean_stop);
  EXPECT_EQ(report_.live, 1U);
  EXPECT_THAT(report_.text(), HasSubstr("stopped in order"));
  schedule({.type = "work", .deadline = after(hours(1))});
  crash_and_open();
  EXPECT_FALSE(report_.clean_stop);
  EXPECT_EQ(report_.live, 2U);
}

TEST_F(Open, TheFencingTokenOfALaterStartIsGreater) {
  open();
  FencingToken first;
  FencingToken second;
  auto handler = [&](FencingToken* token) {
    return [token](Delivery delivery) { *token = delivery.fencing_token(); };  // dropped: fails
  };
  ASSERT_TRUE(engine_->on("token", handler(&first)).ok());
  schedule({.type = "token", .deadline = {}});
  poll();
  crash();
  open();
  ASSERT_TRUE(engine_->on("token", handler(&second)).ok());
  run_for(minutes(1), seconds(1));
  EXPECT_GT(second, first);
  EXPECT_GT(second.epoch, first.epoch);
}

// -- Clocks --

TEST_F(Open, AWallBehindTheLogIsFlooredByDefault) {
  open();
  schedule({.type = "work", .deadline = at(WallTime(nanoseconds(t0_)) + minutes(10))});
  run_for(minutes(11), minutes(1));  // ran; the log has seen T0 + 11 min
  ASSERT_EQ(runs_.size(), 1U);
  schedule({.type = "work", .deadline = at(WallTime(nanoseconds(t0_)) + minutes(10))});
  crash();
  clock_.reboot();
  clock_.step_wall(-hours(2));
  open();
  EXPECT_TRUE(report_.clock_behind);
  EXPECT_EQ(report_.clock_behind_ns, nanoseconds(hours(2)).count());
  EXPECT_THAT(report_.text(), HasSubstr("behind the log"));
  poll();
  EXPECT_EQ(runs_.size(), 2U);  // it was due already, whatever the wall says now
}

TEST_F(Open, AWallBehindTheLogIsBelievedWhenTrusted) {
  options_.engine.clock_policy = ClockPolicy::kTrust;
  open();
  run_for(minutes(11), minutes(1));
  schedule({.type = "work", .deadline = at(WallTime(nanoseconds(t0_)) + minutes(10))});
  crash();
  clock_.reboot();
  clock_.step_wall(-hours(2));
  open();
  EXPECT_TRUE(report_.clock_behind);
  poll();
  EXPECT_TRUE(runs_.empty());
  run_for(hours(1) + minutes(58), minutes(1));
  EXPECT_TRUE(runs_.empty());
  run_for(minutes(1), seconds(1));
  EXPECT_EQ(runs_.size(), 1U);  // when the wall reads T0 + 10 min again
}

// -- Progress --

TEST_F(Open, ProgressIsToldAtTheStartAndTheEndAndTheEngineAnswersRecovering) {
  open();
  for (int i = 0; i < 100; ++i) {
    schedule({.type = "work", .deadline = after(hours(1))});
  }
  crash();
  std::vector<RecoveryProgress> told;
  options_.progress = [&](const RecoveryProgress& progress) {
    told.push_back(progress);
    ASSERT_NE(progress.engine, nullptr);
    if (told.size() == 1) {
      EXPECT_EQ(progress.engine->schedule({.type = "work", .deadline = {}}).code(),
                Code::kRecovering);
      EXPECT_EQ(progress.engine->cancel("key").status.code(), Code::kRecovering);
      EXPECT_EQ(progress.engine->find("key").code(), Code::kRecovering);
    }
  };
  open();
  ASSERT_GE(told.size(), 2U);
  EXPECT_EQ(told.front().bytes_done, 0U);
  EXPECT_EQ(told.back().bytes_done, told.back().bytes_total);
  EXPECT_GT(told.back().bytes_total, 0U);
  EXPECT_EQ(told.back().ops, report_.ops);
  EXPECT_GE(told.back().seconds, told.front().seconds);
}

// -- Two owners --

TEST_F(RecoveryCases, B63_ASecondOpenerInTheProcessIsRefused) {
  open();
  const TaskId id = schedule({.type = "work", .deadline = after(seconds(1))});
  const Result<Opened> second = countwheel::open(directory_, options_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.code(), Code::kLocked);
  EXPECT_THAT(second.status().text(), HasSubstr(std::to_string(::getpid())));
  const std::string alias = temp_ / "alias";
  std::filesystem::create_directory_symlink(directory_, alias);
  EXPECT_FALSE(countwheel::open(alias, options_).ok());
  EXPECT_FALSE(countwheel::open(directory_ + "/../log/.", options_).ok());
  // The first goes on.
  EXPECT_TRUE(engine_->find(id).ok());
  run_for(seconds(1));
  EXPECT_EQ(runs_.size(), 1U);
}

TEST_F(RecoveryCases, B63_AnotherProcessHoldsTheDirectoryUntilItIsKilled) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    // A program of its own: a fork of one that had a log open may not open another.
    ::execl("/proc/self/exe",
            "open_test",
            "--hold",
            directory_.c_str(),
            std::to_string(ready[1]).c_str(),
            nullptr);
    std::_Exit(127);
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, '1');
  const Result<Opened> refused = countwheel::open(directory_, options_);
  EXPECT_EQ(refused.code(), Code::kLocked);
  EXPECT_THAT(refused.status().text(), HasSubstr(std::to_string(child)));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  open();
  EXPECT_EQ(report_.live, 1U);
  ::close(ready[0]);
  ::close(ready[1]);
}

// A crash at each step of open(): the copies are taken while it reads, after it, and after its
// first step.
TEST_F(Open, DyingThreeTimesInARowWhileOpeningChangesNothing) {
  keep_ = true;
  open();
  schedule({.type = "work", .deadline = {}, .key = "running"});
  schedule({.type = "work", .deadline = after(hours(1)), .key = "waiting"});
  poll();
  ASSERT_EQ(kept_.size(), 1U);
  crash();
  for (int death = 0; death < 3; ++death) {
    const std::string image = temp_ / ("while_opening" + std::to_string(death));
    options_.progress = [&](const RecoveryProgress& progress) {
      if (progress.bytes_done > 0) {
        copy_directory(directory_, image);
      }
    };
    {
      const Result<Opened> opened = countwheel::open(directory_, options_);
      ASSERT_TRUE(opened.ok()) << opened.status().text();
      EXPECT_EQ(opened->report.live, 2U);
      EXPECT_EQ(opened->report.redelivered, 1U);
      EXPECT_EQ(opened->engine->find("running")->crashes, 1U);
      EXPECT_EQ(opened->engine->find("running")->attempts, 1U);
    }
    directory_ = image;
  }
  options_.progress = nullptr;
  open();
  EXPECT_EQ(engine_->find("running")->crashes, 1U);
  poll();
  ASSERT_EQ(kept_.size(), 1U);
  EXPECT_EQ(kept_[0].attempt(), 2U);
}

}  // namespace

// Opens the directory, schedules one task, says so, and holds on until it is killed.
int hold(const std::string& directory, int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Result<Opened> opened = countwheel::open(directory);
  const Status status =
      opened.ok() ? opened->engine->schedule({.type = "work", .deadline = after(hours(1))}).status()
                  : opened.status();
  if (!status.ok()) {
    std::fprintf(stderr, "the first opener: %s\n", status.text().c_str());
  }
  const char answer = status.ok() ? '1' : '0';
  if (::write(ready, &answer, 1) != 1) {
    return 1;
  }
  for (;;) {
    ::pause();
  }
}

}  // namespace countwheel::testing

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--hold") {
    return countwheel::testing::hold(argv[2], std::atoi(argv[3]));
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
