// The audit finds every kind of broken promise in hand-made bad histories.
#include <gtest/gtest.h>

#include "history.h"

namespace countwheel::drill {
namespace {

struct Expected {
  std::uint64_t lost = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t early = 0;
  std::uint64_t inconsistent = 0;
  std::uint64_t revived = 0;
};

void expect_found(const Verdict& verdict, const Expected& expected) {
  EXPECT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.lost, expected.lost);
  EXPECT_EQ(verdict.duplicated, expected.duplicated);
  EXPECT_EQ(verdict.early, expected.early);
  EXPECT_EQ(verdict.inconsistent, expected.inconsistent);
  EXPECT_EQ(verdict.revived, expected.revived);
  EXPECT_FALSE(verdict.problems.empty());
}

TEST(AuditFinds, AnAcknowledgedOrderThatNeverStarted) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10);
  expect_found(history.verdict(), {.lost = 1});
}

TEST(AuditFinds, AnAcknowledgedOrderOfWhichACancelFindsNothing) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).cancelled(0, 20, Code::kNotFound);
  history.in_book(0, OrderState::kCancelled);
  expect_found(history.verdict(), {.lost = 1});
}

TEST(AuditFinds, AnOrderLostByAKillAlthoughAnsweredAtOs) {
  HistoryBuilder history(Durability::kOs);
  history.absolute(0, 100).scheduled(0, 10).killed(20, 30);
  expect_found(history.verdict(), {.lost = 1});
}

TEST(AuditFinds, AKilledHandlerThatIsNeverDeliveredAgain) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).killed(102, 110);
  expect_found(history.verdict(), {.lost = 1});
}

TEST(AuditFinds, AKilledHandlerOfAnUnansweredScheduleThatIsNeverDeliveredAgain) {
  HistoryBuilder history;
  history.absolute(0, 100).begins(0, 10).starts(0, 101).killed(102, 110);
  expect_found(history.verdict(), {.lost = 1});
}

TEST(AuditFinds, ASecondStartWithoutAKill) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).ends(0, 102).done(0, 103);
  history.starts(0, 104, 2).ends(0, 105).in_book(0, OrderState::kExpired);
  expect_found(history.verdict(), {.duplicated = 1});
}

TEST(AuditFinds, AStartAfterADurableCompletionAndAKill) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).ends(0, 102).done(0, 103);
  history.killed(110, 120).starts(0, 121, 2).ends(0, 122).in_book(0, OrderState::kExpired);
  expect_found(history.verdict(), {.duplicated = 1});
}

TEST(AuditFinds, ThreeStartsOverOneKill) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).killed(102, 110);
  history.starts(0, 111, 2).ends(0, 112).starts(0, 113, 3).ends(0, 114);
  history.in_book(0, OrderState::kExpired);
  expect_found(history.verdict(), {.duplicated = 1});
}

TEST(AuditFinds, AStartOneNanosecondBeforeItsInstant) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 99).ends(0, 110).done(0, 111);
  history.in_book(0, OrderState::kExpired);
  expect_found(history.verdict(), {.early = 1});
}

TEST(AuditFinds, AStartOneNanosecondBeforeItsDelayHasPassed) {
  HistoryBuilder history;
  history.relative(0, 100).scheduled(0, 10).starts(0, 109).ends(0, 110).done(0, 111);
  history.in_book(0, OrderState::kExpired);
  expect_found(history.verdict(), {.early = 1});
}

TEST(AuditFinds, AnEarlyStartOfAnOrderThatHadToBeScheduledAnew) {
  HistoryBuilder history;
  history.relative(0, 100).begins(0, 10).killed(20, 30).scheduled(0, 31);
  history.starts(0, 115).ends(0, 116).done(0, 117).in_book(0, OrderState::kExpired);
  expect_found(history.verdict(), {.early = 1});
}

TEST(AuditFinds, AnEarlyRedelivery) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).killed(102, 103);
  history.starts(0, 99, 2).ends(0, 105).done(0, 106).in_book(0, OrderState::kExpired);
  expect_found(history.verdict(), {.early = 1});
}

TEST(AuditFinds, AStartAfterACancelThatWorked) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).cancelled(0, 20);
  history.starts(0, 101).ends(0, 102).done(0, 103).in_book(0, OrderState::kCancelled);
  expect_found(history.verdict(), {.inconsistent = 1, .revived = 1});
}

TEST(AuditFinds, AStartInTheNextLifeAfterACancelThatWorked) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).cancelled(0, 20).killed(30, 40);
  history.starts(0, 101).ends(0, 102).done(0, 103).in_book(0, OrderState::kCancelled);
  expect_found(history.verdict(), {.inconsistent = 1, .revived = 1});
}

TEST(AuditFinds, ACancelThatWorkedAfterTheStart) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).cancelled(0, 102).ends(0, 104);
  history.in_book(0, OrderState::kCancelled);
  expect_found(history.verdict(), {.inconsistent = 1});
}

TEST(AuditFinds, AnExpiryInTheBookThatNoHandlerCanHaveMade) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).cancelled(0, 20).in_book(0, OrderState::kExpired);
  expect_found(history.verdict(), {.inconsistent = 1});
}

TEST(AuditFinds, AnAttemptThatIsCountedAsTheFirstAgain) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).killed(102, 110);
  history.starts(0, 111, 1).ends(0, 112).done(0, 113).in_book(0, OrderState::kExpired);
  expect_found(history.verdict(), {.inconsistent = 1});
}

TEST(AuditFinds, APayloadThatIsNotTheOneScheduled) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101, 1, Code::kCorrupt);
  history.ends(0, 102).done(0, 103).in_book(0, OrderState::kExpired);
  expect_found(history.verdict(), {.inconsistent = 1});
}

TEST(AuditFinds, AScheduleThatWasRefused) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10, Code::kOverloaded);
  history.in_book(0, OrderState::kCancelled);
  expect_found(history.verdict(), {.inconsistent = 1});
}

TEST(AuditFinds, AnOrderStillOpenAlthoughItsHandlerEnded) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).ends(0, 102).done(0, 103);
  Verdict verdict = history.verdict();
  EXPECT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.lost, 0U);
  EXPECT_EQ(verdict.inconsistent, 2U);  // The order, and the sum.
}

TEST(AuditFinds, StampsThatMakeNoSequence) {
  HistoryBuilder ended;
  ended.absolute(0, 100).scheduled(0, 10).ends(0, 102).cancelled(0, 103);
  ended.in_book(0, OrderState::kCancelled);
  expect_found(ended.verdict(), {.inconsistent = 1});
  HistoryBuilder returned;
  returned.absolute(0, 100).scheduled(0, 10).answered(0, 12).cancelled(0, 20);
  returned.in_book(0, OrderState::kCancelled);
  expect_found(returned.verdict(), {.inconsistent = 1});
  HistoryBuilder started;
  started.absolute(0, 100).starts(0, 101).in_book(0, OrderState::kExpired);
  expect_found(started.verdict(), {.inconsistent = 1});
}

TEST(AuditFinds, AStampOfAnOrderThatDoesNotExist) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).cancelled(0, 20).starts(1, 30);
  history.in_book(0, OrderState::kCancelled);
  expect_found(history.verdict(), {.inconsistent = 1});
}

TEST(AuditFinds, OneBadOrderAmongManyGoodOnes) {
  HistoryBuilder history;
  for (std::uint32_t i = 0; i < 1000; ++i) {
    history.absolute(i, 5'000).scheduled(i, 10 + i);
    if (i != 617) {
      history.starts(i, 5'000 + i).ends(i, 6'000 + i).done(i, 7'000 + i);
      history.in_book(i, OrderState::kExpired);
    }
  }
  const Verdict verdict = history.verdict();
  expect_found(verdict, {.lost = 1});
  EXPECT_NE(verdict.problems.front().find("order 617"), std::string::npos);
}

}  // namespace
}  // namespace countwheel::drill
