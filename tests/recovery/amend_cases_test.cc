// An order whose expiry is removed, added, taken back or restored, and the same over a crash.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "recovery/restart_fixture.h"

namespace countwheel::testing {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

class ApiCases : public Restart {
 protected:
  void restart_if(bool crash) {
    if (crash) {
      ASSERT_NO_FATAL_FAILURE(crash_and_open());
    }
  }
  TaskId order(std::string_view key, Deadline deadline) {
    return schedule({.type = "work", .deadline = deadline, .key = key});
  }
};

// (a) to (c), and (d): all three once more with a crash behind the amendment.
TEST_F(ApiCases, B82_AnExpiryThatIsRemovedNeverRuns) {
  open();
  for (const bool crash : {false, true}) {
    order("day", after(hours(1)));
    run_for(minutes(30), minutes(1));
    EXPECT_EQ(engine_->cancel("day").status.code(), Code::kCancelled);
    restart_if(crash);
    run_for(hours(2), minutes(1));
    EXPECT_EQ(runs_.size(), 0U);
    EXPECT_EQ(engine_->stats().pending, 0U);
  }
}

TEST_F(ApiCases, B82_AnExpiryAddedAsOfNowRunsOnceInTheNextTick) {
  open();
  for (const bool crash : {false, true}) {
    runs_.clear();
    order("now", at(WallTime(nanoseconds(wall_ns()))));
    EXPECT_EQ(runs_.size(), 0U);  // not inside the call
    restart_if(crash);
    run_for(milliseconds(10));
    ASSERT_EQ(runs_.size(), 1U);
    EXPECT_LE(runs_[0].lateness_ns, 10'000'000);
    restart_if(crash);
    run_for(hours(1), minutes(1));
    EXPECT_EQ(runs_.size(), 1U);
  }
}

// Filled: the entry goes with the order, and nothing else does.
TEST_F(ApiCases, B82_AnOrderThatIsGoneTakesItsExpiryWithIt) {
  open();
  for (const bool crash : {false, true}) {
    const TaskId id = order("filled", after(seconds(30)));
    run_for(seconds(29), seconds(1));
    EXPECT_EQ(engine_->cancel(id).status.code(), Code::kCancelled);
    EXPECT_EQ(engine_->stats().pending, 0U);
    restart_if(crash);
    EXPECT_EQ(engine_->stats().pending, 0U);
    EXPECT_EQ(engine_->find("filled").code(), Code::kNotFound);
    EXPECT_EQ(engine_->cancel("filled").status.code(), Code::kNotFound);
    run_for(minutes(1), seconds(1));
    EXPECT_EQ(runs_.size(), 0U);
  }
}

// The cancel of an amendment that was refused: the old expiry comes back, to the nanosecond.
TEST_F(ApiCases, B83_AnUndoneCancelRunsAtTheOldDeadline) {
  open();
  for (const bool crash : {false, true}) {
    for (const bool relative : {false, true}) {
      runs_.clear();
      const nanoseconds delay(seconds(10) + nanoseconds(123'456'789));
      const std::int64_t deadline_ns = wall_ns() + delay.count();
      order("gtd", relative ? after(delay) : at(WallTime(nanoseconds(deadline_ns))));
      run_for(seconds(5), seconds(1));
      const Change change = engine_->cancel("gtd");
      ASSERT_EQ(change.status.code(), Code::kCancelled);
      EXPECT_EQ(change.deadline.time_since_epoch().count(), deadline_ns);
      restart_if(crash);
      run_for(seconds(1));
      order("gtd", at(change.deadline));
      restart_if(crash);
      run_for(nanoseconds(deadline_ns - wall_ns() - 1), seconds(1));
      EXPECT_EQ(runs_.size(), 0U);
      run_for(nanoseconds(1));
      ASSERT_EQ(runs_.size(), 1U);
      EXPECT_EQ(runs_[0].wall_ns, deadline_ns);
      EXPECT_EQ(runs_[0].lateness_ns, 0);
      EXPECT_FALSE(runs_[0].overdue);
      run_for(minutes(1), seconds(1));
      EXPECT_EQ(runs_.size(), 1U);  // exactly once
    }
  }
}

TEST_F(ApiCases, B83_AnUndoneCancelOfThePastRunsInTheNextTickAsOverdue) {
  open();
  for (const bool crash : {false, true}) {
    runs_.clear();
    order("gtd", after(seconds(10)));
    run_for(seconds(9), seconds(1));
    const Change change = engine_->cancel("gtd");
    ASSERT_EQ(change.status.code(), Code::kCancelled);
    run_for(seconds(6), seconds(1));
    order("gtd", at(change.deadline));
    EXPECT_EQ(runs_.size(), 0U);
    restart_if(crash);
    run_for(milliseconds(10));
    ASSERT_EQ(runs_.size(), 1U);
    EXPECT_TRUE(runs_[0].overdue);
    EXPECT_GE(runs_[0].lateness_ns, 5'000'000'000);
    EXPECT_LE(runs_[0].lateness_ns, 5'010'000'000);
    run_for(minutes(1), seconds(1));
    EXPECT_EQ(runs_.size(), 1U);
  }
}

}  // namespace
}  // namespace countwheel::testing
