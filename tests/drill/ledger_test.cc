// The gateway's account of what is under way, and of what must be live after a kill.
#include "tools/drill/ledger.h"

#include <gtest/gtest.h>

#include <countwheel/status.h>

namespace countwheel::drill {
namespace {

constexpr std::uint8_t kCancelledCode = static_cast<std::uint8_t>(Code::kCancelled);
constexpr std::uint8_t kTooLateCode = static_cast<std::uint8_t>(Code::kTooLate);
constexpr std::uint8_t kNotFoundCode = static_cast<std::uint8_t>(Code::kNotFound);

void read(Ledger& ledger,
          StampKind kind,
          std::uint32_t order,
          std::uint8_t code = 0,
          std::uint64_t lsn = 0) {
  ledger.read({.detail = lsn, .order = order, .kind = kind, .code = code});
}

void expect_pending(const Ledger& ledger,
                    std::uint64_t certain,
                    std::uint64_t uncertain,
                    std::uint64_t written_lsn = 1'000) {
  const Ledger::Pending pending = ledger.pending(written_lsn);
  EXPECT_EQ(pending.certain, certain);
  EXPECT_EQ(pending.uncertain, uncertain);
}

TEST(Ledger, CallsAndHandlersUnderWayAreCounted) {
  Ledger ledger(3, Durability::kDisk);
  read(ledger, StampKind::kScheduleBegin, 0);
  read(ledger, StampKind::kScheduleBegin, 1);
  EXPECT_EQ(ledger.unacked_count(), 2U);
  read(ledger, StampKind::kScheduleReturn, 0);
  read(ledger, StampKind::kStart, 0);
  EXPECT_EQ(ledger.unacked_count(), 1U);
  EXPECT_EQ(ledger.running_count(), 1U);
  ledger.end_life();
  EXPECT_EQ(ledger.unacked_count(), 0U);
  EXPECT_EQ(ledger.running_count(), 0U);
}

TEST(Ledger, AnAnsweredScheduleIsCertainAndAnOpenOneIsNot) {
  Ledger ledger(3, Durability::kDisk);
  read(ledger, StampKind::kScheduleBegin, 0);
  expect_pending(ledger, 0, 1);
  read(ledger, StampKind::kScheduleReturn, 0);
  expect_pending(ledger, 1, 0);
  read(ledger, StampKind::kCancelBegin, 0);
  expect_pending(ledger, 0, 1);
  read(ledger, StampKind::kCancelReturn, 0, kCancelledCode);
  expect_pending(ledger, 0, 0);
}

TEST(Ledger, ARunningTaskIsLiveAnEndedOnePerhapsADurablyDoneOneIsNot) {
  Ledger ledger(1, Durability::kDisk);
  read(ledger, StampKind::kScheduleBegin, 0);
  read(ledger, StampKind::kScheduleReturn, 0);
  read(ledger, StampKind::kStart, 0);
  expect_pending(ledger, 1, 0);
  read(ledger, StampKind::kEnd, 0);
  expect_pending(ledger, 0, 1);
  read(ledger, StampKind::kDoneDurable, 0);
  expect_pending(ledger, 0, 0);
}

TEST(Ledger, AKilledHandlerIsLiveUntilItHasRunAgain) {
  Ledger ledger(1, Durability::kDisk);
  read(ledger, StampKind::kScheduleBegin, 0);
  read(ledger, StampKind::kStart, 0);
  ledger.end_life();
  expect_pending(ledger, 1, 0);
  EXPECT_FALSE(ledger.all_settled());
  read(ledger, StampKind::kStart, 0);
  read(ledger, StampKind::kEnd, 0);
  EXPECT_FALSE(ledger.all_settled());
  read(ledger, StampKind::kDoneDurable, 0);
  EXPECT_TRUE(ledger.all_settled());
}

TEST(Ledger, AHandlerThatEndedBeforeAKillIsSettledEitherWay) {
  Ledger ledger(1, Durability::kDisk);
  read(ledger, StampKind::kScheduleBegin, 0);
  read(ledger, StampKind::kStart, 0);
  read(ledger, StampKind::kEnd, 0);
  ledger.end_life();
  expect_pending(ledger, 0, 1);
  EXPECT_TRUE(ledger.all_settled());
}

TEST(Ledger, ACancelThatCameTooLateLeavesItToTheHandler) {
  Ledger ledger(1, Durability::kDisk);
  read(ledger, StampKind::kScheduleBegin, 0);
  read(ledger, StampKind::kScheduleReturn, 0);
  read(ledger, StampKind::kCancelBegin, 0);
  read(ledger, StampKind::kCancelReturn, 0, kTooLateCode);
  expect_pending(ledger, 0, 1);
  EXPECT_FALSE(ledger.all_settled());
  EXPECT_TRUE(ledger.cancel_answered(0));
}

TEST(Ledger, ACancelThatMetARunningHandlerKeepsItFromBeingDeliveredAgain) {
  Ledger ledger(1, Durability::kDisk);
  read(ledger, StampKind::kScheduleBegin, 0);
  read(ledger, StampKind::kScheduleReturn, 0);
  read(ledger, StampKind::kStart, 0);
  read(ledger, StampKind::kCancelBegin, 0);
  expect_pending(ledger, 0, 1);
  read(ledger, StampKind::kCancelReturn, 0, kTooLateCode);
  expect_pending(ledger, 0, 1);
  EXPECT_FALSE(ledger.all_settled());
  ledger.end_life();
  expect_pending(ledger, 0, 1);
  EXPECT_TRUE(ledger.all_settled());
}

TEST(Ledger, ACancelThatFoundNothingIsTheEnd) {
  Ledger ledger(1, Durability::kDisk);
  read(ledger, StampKind::kScheduleBegin, 0);
  read(ledger, StampKind::kCancelBegin, 0);
  read(ledger, StampKind::kCancelReturn, 0, kNotFoundCode);
  expect_pending(ledger, 0, 0);
  EXPECT_TRUE(ledger.all_settled());
}

TEST(Ledger, AnAnswerInMemoryIsCertainOnlyUpToWhatIsWritten) {
  Ledger ledger(2, Durability::kMemory);
  read(ledger, StampKind::kScheduleBegin, 0);
  read(ledger, StampKind::kScheduleReturn, 0, 0, 10);
  read(ledger, StampKind::kScheduleBegin, 1);
  read(ledger, StampKind::kScheduleReturn, 1, 0, 20);
  expect_pending(ledger, 1, 1, 15);
}

TEST(Ledger, AnswersAboveTheSyncedMarkAreUnsynced) {
  Ledger os(2, Durability::kOs);
  Ledger disk(2, Durability::kDisk);
  for (Ledger* ledger : {&os, &disk}) {
    read(*ledger, StampKind::kScheduleBegin, 0);
    read(*ledger, StampKind::kScheduleReturn, 0, 0, 10);
    read(*ledger, StampKind::kScheduleBegin, 1);
    read(*ledger, StampKind::kScheduleReturn, 1, 0, 20);
  }
  EXPECT_EQ(os.unsynced_count(15), 1U);
  EXPECT_EQ(os.unsynced_count(0), 2U);
  EXPECT_EQ(disk.unsynced_count(15), 0U);  // The answer waited for the disk.
}

}  // namespace
}  // namespace countwheel::drill
