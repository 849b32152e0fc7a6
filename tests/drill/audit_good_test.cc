// The audit accepts every history that a promise allows.
#include <gtest/gtest.h>

#include "history.h"

namespace countwheel::drill {
namespace {

void expect_accepted(const Verdict& verdict) {
  EXPECT_TRUE(verdict.ok());
  for (const std::string& problem : verdict.problems) {
    ADD_FAILURE() << problem;
  }
}

TEST(AuditAccepts, AnOrderThatExpires) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 100).ends(0, 110).done(0, 120);
  history.in_book(0, OrderState::kExpired);
  const Verdict verdict = history.verdict();
  expect_accepted(verdict);
  EXPECT_EQ(verdict.scheduled, 1U);
  EXPECT_EQ(verdict.expired, 1U);
  EXPECT_EQ(verdict.redelivered, 0U);
  EXPECT_EQ(verdict.lateness_us.count, 1U);
}

TEST(AuditAccepts, OneOfEachEndAndTheSumsFit) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).ends(0, 102).done(0, 103);
  history.absolute(1, 100).scheduled(1, 10).cancelled(1, 20);
  history.relative(2, 100).scheduled(2, 10).cancelled(2, 30);
  history.absolute(3, 100).begins(3, 10);
  history.in_book(0, OrderState::kExpired).in_book(1, OrderState::kFilled);
  history.in_book(2, OrderState::kCancelled).in_book(3, OrderState::kCancelled);
  const Verdict verdict = history.verdict();
  expect_accepted(verdict);
  EXPECT_EQ(verdict.scheduled, 4U);
  EXPECT_EQ(verdict.expired + verdict.filled + verdict.cancelled + verdict.unknown, 4U);
  EXPECT_EQ(verdict.unknown, 1U);
}

TEST(AuditAccepts, AnUnansweredScheduleThatExpiresAllTheSame) {
  HistoryBuilder history;
  history.absolute(0, 100).begins(0, 10).killed(20, 30);
  history.starts(0, 100).ends(0, 110).done(0, 120).in_book(0, OrderState::kExpired);
  const Verdict verdict = history.verdict();
  expect_accepted(verdict);
  EXPECT_EQ(verdict.unknown, 0U);
}

TEST(AuditAccepts, AnUnansweredScheduleThatWasSentAgain) {
  HistoryBuilder history;
  history.relative(0, 100).begins(0, 10).killed(20, 30).scheduled(0, 31);
  // Answered ok: the first call did not survive, so the delay counts from the second.
  history.starts(0, 131).ends(0, 132).done(0, 133).in_book(0, OrderState::kExpired);
  expect_accepted(history.verdict());
}

TEST(AuditAccepts, AnExistingTaskThatIsDueByItsFirstCall) {
  HistoryBuilder history;
  history.relative(0, 100).begins(0, 10).killed(20, 30).scheduled(0, 31, Code::kExists);
  history.starts(0, 110).ends(0, 112).done(0, 113).in_book(0, OrderState::kExpired);
  expect_accepted(history.verdict());
}

TEST(AuditAccepts, ARedeliveryAfterAKillInTheHandler) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).killed(102, 110);
  history.starts(0, 111, 2).ends(0, 112).done(0, 113).in_book(0, OrderState::kExpired);
  const Verdict verdict = history.verdict();
  expect_accepted(verdict);
  EXPECT_EQ(verdict.redelivered, 1U);
}

TEST(AuditAccepts, ARedeliveryAfterAKillBetweenTheEndAndItsRecord) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).ends(0, 102).killed(103, 110);
  history.starts(0, 111, 2).ends(0, 112).done(0, 113).in_book(0, OrderState::kExpired);
  expect_accepted(history.verdict());
}

TEST(AuditAccepts, NoRedeliveryWhenTheRecordWasThereAndItsStampWasNot) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).ends(0, 102).killed(103, 110);
  history.in_book(0, OrderState::kExpired);
  expect_accepted(history.verdict());
}

TEST(AuditAccepts, ThreeStartsOverTwoKills) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).killed(102, 110);
  history.starts(0, 111, 2).killed(112, 120);
  history.starts(0, 121, 3).ends(0, 122).done(0, 123).in_book(0, OrderState::kExpired);
  const Verdict verdict = history.verdict();
  expect_accepted(verdict);
  EXPECT_EQ(verdict.redelivered, 2U);
}

TEST(AuditAccepts, ACancelThatCameTooLate) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101);
  history.cancelled(0, 102, Code::kTooLate).ends(0, 104).done(0, 105);
  history.in_book(0, OrderState::kCancelled);
  expect_accepted(history.verdict());
}

TEST(AuditAccepts, ACancelThatFoundATaskAlreadyDone) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).ends(0, 102);
  history.cancelled(0, 103, Code::kNotFound).done(0, 105).in_book(0, OrderState::kExpired);
  expect_accepted(history.verdict());
}

TEST(AuditAccepts, ACancelAskedTwiceBecauseTheFirstAnswerWasLost) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).cancel_begins(0, 20).killed(21, 30);
  history.cancelled(0, 31, Code::kNotFound).in_book(0, OrderState::kCancelled);
  expect_accepted(history.verdict());
}

TEST(AuditAccepts, ACancelOfAKilledHandlerBeforeItsRedelivery) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).starts(0, 101).killed(102, 110);
  history.cancelled(0, 110).in_book(0, OrderState::kFilled);
  expect_accepted(history.verdict());
}

TEST(AuditAccepts, AnUnansweredCancelThatDidNotWork) {
  HistoryBuilder history;
  history.absolute(0, 100).scheduled(0, 10).cancel_begins(0, 20).killed(21, 30);
  history.starts(0, 101).ends(0, 102).done(0, 103).in_book(0, OrderState::kCancelled);
  expect_accepted(history.verdict());
}

TEST(AuditAccepts, AnAnswerInMemoryThatAKillTookBack) {
  HistoryBuilder history(Durability::kMemory);
  history.absolute(0, 100).scheduled(0, 10).killed(11, 20);
  history.in_book(0, OrderState::kCancelled).cancelled(0, 21, Code::kNotFound);
  expect_accepted(history.verdict());
}

TEST(AuditAccepts, AnOrderThatEndedWhileTheServiceWasAway) {
  HistoryBuilder history;
  history.absolute(0, 100).in_book(0, OrderState::kFilled);
  const Verdict verdict = history.verdict();
  expect_accepted(verdict);
  EXPECT_EQ(verdict.scheduled, 0U);
  EXPECT_EQ(verdict.never_sent, 1U);
}

TEST(AuditAccepts, LatenessOfWhatFellDueWhileTheServiceWasAwayIsKeptApart) {
  HistoryBuilder history;
  history.absolute(0, 5'000).scheduled(0, 10).starts(0, 8'000).ends(0, 8'001).done(0, 8'002);
  history.in_book(0, OrderState::kExpired);
  history.absolute(1, 15'000).scheduled(1, 20).killed(10'000, 90'000);
  history.starts(1, 91'000).ends(1, 91'001).done(1, 91'002).in_book(1, OrderState::kExpired);
  const Verdict verdict = history.verdict();
  expect_accepted(verdict);
  EXPECT_EQ(verdict.lateness_us.count, 1U);
  EXPECT_DOUBLE_EQ(verdict.lateness_us.max, 3.0);
  EXPECT_EQ(verdict.overdue_us.count, 1U);
  EXPECT_DOUBLE_EQ(verdict.overdue_us.max, 76.0);
}

TEST(AuditAccepts, AStampThatAKillLeftHalfWritten) {
  const Stamp hole;
  const OrderTruth order{.state = OrderState::kFilled};
  expect_accepted(audit({.stamps = {&hole, 1}, .orders = {&order, 1}}));
}

}  // namespace
}  // namespace countwheel::drill
