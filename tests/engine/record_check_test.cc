// The check finds every kind of broken promise in hand-made records, and nothing in good ones: each
// bad record stands beside one that differs from it by what makes it bad.
#include "testing/record_check.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "record_notes.h"

namespace countwheel::testing {
namespace {

TEST(RecordCheck, FindsNothingInAnEmptyRecord) {
  EXPECT_EQ(found(Notes()), Found{});
}

TEST(RecordCheck, I1_ATaskThatStartsAfterItsCancel) {
  Notes good;
  good.schedules(1).cancels(1);
  EXPECT_EQ(found(good), Found{});
  Notes bad;
  bad.schedules(1).cancels(1).starts(1, 1, 10 * kMs).ends();
  EXPECT_EQ(found(bad), Found{"I1"});
}

TEST(RecordCheck, I1_ACancelThatOverlapsTheStartMayHaveComeFirst) {
  Notes notes;
  notes.schedules(1);
  const auto cancel = notes.record.begin(notes.call_of(CallKind::kCancel, 1), 0);
  notes.starts(1, 1, 10 * kMs).ends();
  notes.answered(cancel, Code::kTooLate, Settled::kHeld);
  EXPECT_EQ(found(notes), Found{});
}

TEST(RecordCheck, I1_ATaskThatIsCancelledWhileItRuns) {
  Notes bad;
  bad.schedules(1).starts(1, 1, 10 * kMs).cancels(1).ends(AnswerKind::kFail, 10 * kMs);
  EXPECT_EQ(found(bad), Found{"I1"});
}

TEST(RecordCheck, I1_ATaskThatIsTriedAgainAlthoughACancelCameWhileItRan) {
  Notes good;
  good.schedules(1).starts(1, 1, 10 * kMs).cancels(1, Code::kTooLate);
  good.ends(AnswerKind::kFail, 10 * kMs);
  EXPECT_EQ(found(good), Found{});
  good.starts(1, 2, 20 * kMs).ends();
  EXPECT_EQ(found(good), Found{"I1"});
}

TEST(RecordCheck, I1_ACancelAtDiskHoldsOverAPowerFailureAndOneAtOsDoesNot) {
  for (const Durability durability : {Durability::kDisk, Durability::kOs}) {
    Notes notes;
    notes.schedules(1);
    notes.durability = durability;
    notes.cancels(1).crashes(true).starts(1, 1, 10 * kMs).ends();
    EXPECT_EQ(found(notes), durability == Durability::kDisk ? Found{"I1"} : Found{});
  }
}

TEST(RecordCheck, I1_ATaskThatStartsAfterItsGroupWasCancelled) {
  for (const std::uint64_t other : {1U, 0U}) {
    Notes notes;
    notes.group = 1;
    notes.polls(0).schedules(1);
    notes.group = 1 + other;
    Call cancel = notes.call_of(CallKind::kCancelGroup, 0);
    notes.answered(notes.record.begin(cancel, 0), Code::kOk, Settled::kHeld);
    notes.starts(1, 1, 10 * kMs).ends();
    EXPECT_EQ(found(notes), other == 1 ? Found{} : Found{"I1"});
  }
}

TEST(RecordCheck, I2_ATaskThatIsMissingAtTheEnd) {
  Notes bad;
  bad.schedules(1);
  EXPECT_EQ(found(bad), Found{"I2"});
  bad.starts(1, 1, 10 * kMs).ends();
  EXPECT_EQ(found(bad), Found{});
}

TEST(RecordCheck, I2_ATaskThatAPowerFailureTookAlthoughItWasOnDisk) {
  for (const Durability durability : {Durability::kDisk, Durability::kOs}) {
    Notes notes;
    notes.durability = durability;
    notes.schedules(1).crashes(true);
    EXPECT_EQ(found(notes), durability == Durability::kDisk ? Found{"I2"} : Found{});
  }
}

TEST(RecordCheck, I2_ATaskThatIsNotFound) {
  Notes notes;
  const auto look = [&notes] {
    const auto index = notes.record.begin(Look{TaskId{1}}, 0);
    notes.record.end(&Record::looks, index, [](Look& noted) { noted.code = Code::kNotFound; });
  };
  look();
  notes.schedules(1);
  EXPECT_EQ(found(notes), Found{"I2"});  // missing at the end, but not when it was looked for
  look();
  EXPECT_EQ(found(notes), (Found{"I2", "I2"}));
}

TEST(RecordCheck, I2_ATaskThatEndsTwice) {
  Notes bad;
  bad.schedules(1).starts(1, 1, 10 * kMs).ends().letter(1, 1, 3);
  EXPECT_EQ(found(bad), Found{"I2"});
}

TEST(RecordCheck, I3_AStartBeforeItsScheduleIsDurable) {
  for (const Durability durability : {Durability::kDisk, Durability::kOs}) {
    Notes notes;
    notes.durable = false;
    notes.durability = durability;
    notes.schedules(1).starts(1, 1, 10 * kMs).ends();
    EXPECT_EQ(found(notes), durability == Durability::kDisk ? Found{"I3"} : Found{});
  }
}

TEST(RecordCheck, I4_AStartOfWhatNobodyScheduled) {
  Notes bad;
  bad.starts(1, 1, 10 * kMs).ends();
  EXPECT_EQ(found(bad), Found{"I4"});
}

TEST(RecordCheck, I4_AStartWithTheContentsOfAnother) {
  Notes bad;
  bad.key = "a";
  bad.schedules(1);
  bad.key = "b";
  bad.starts(1, 1, 10 * kMs).ends();
  EXPECT_EQ(found(bad), Found{"I4"});
}

TEST(RecordCheck, I4_AScheduleThatWasNeverAnsweredMayStart) {
  Notes notes;
  notes.record.begin(notes.call_of(CallKind::kSchedule, 0), 0);
  notes.crashes(false);
  notes.starts(0, 1, 10 * kMs).ends();
  EXPECT_EQ(found(notes), Found{});
}

TEST(RecordCheck, I5_AStartOneNanosecondEarly) {
  for (const std::int64_t early_ns : {0, 1}) {
    Notes notes;
    notes.schedules(1).starts(1, 1, 10 * kMs - early_ns).ends();
    EXPECT_EQ(found(notes), early_ns == 0 ? Found{} : Found{"I5"});
  }
}

TEST(RecordCheck, I6_AStartInALaterStepThanItWasDue) {
  for (const std::int64_t step_ns : {9 * kMs, 10 * kMs}) {
    Notes notes;
    notes.schedules(1).polls(step_ns).starts(1, 1, 11 * kMs).ends();
    EXPECT_EQ(found(notes), step_ns == 9 * kMs ? Found{} : Found{"I6"});
  }
}

TEST(RecordCheck, I7_AnAttemptThatIsNotGreaterThanTheOneBefore) {
  for (const std::uint32_t second : {2U, 1U}) {
    Notes notes;
    notes.schedules(1).starts(1, 1, 10 * kMs).ends(AnswerKind::kFail, 10 * kMs);
    notes.starts(1, second, 15 * kMs).ends();
    EXPECT_EQ(found(notes), second == 2 ? Found{} : Found{"I7"});
  }
}

TEST(RecordCheck, I7_MoreAttemptsThanAreAllowed) {
  Notes notes;
  notes.schedules(1);
  for (std::uint32_t attempt = 1; attempt <= 4; ++attempt) {
    notes.starts(1, attempt, attempt * 10 * kMs).ends(AnswerKind::kFail, attempt * 10 * kMs);
  }
  notes.letter(1, 4, 3);
  EXPECT_EQ(found(notes), Found{"I7"});
}

TEST(RecordCheck, I8_AStartAfterDone) {
  Notes bad;
  bad.schedules(1).starts(1, 1, 10 * kMs).ends().starts(1, 2, 20 * kMs).ends();
  EXPECT_EQ(found(bad), Found{"I8"});
}

TEST(RecordCheck, I8_AStartAfterACrashOfWhatWasDoneAndFlushed) {
  for (const bool flushed : {false, true}) {
    Notes notes;
    notes.schedules(1).starts(1, 1, 10 * kMs);
    notes.record.kept(notes.last);
    notes.ends();
    if (flushed) {
      notes.flushes();
    }
    notes.crashes(true).starts(1, 2, 20 * kMs).ends();
    EXPECT_EQ(found(notes), flushed ? Found{"I8"} : Found{});
  }
}

TEST(RecordCheck, I9_TwoAnswersOfOneAttemptThatAreAccepted) {
  for (const Code second : {Code::kStaleLease, Code::kOk}) {
    Notes notes;
    notes.schedules(1).starts(1, 1, 10 * kMs).ends().ends(AnswerKind::kDone, 0, second);
    EXPECT_EQ(found(notes), second == Code::kOk ? Found{"I9"} : Found{});
  }
}

TEST(RecordCheck, I9_AnAnswerThatIsAcceptedAfterItsLeaseWasOver) {
  for (const Code late : {Code::kStaleLease, Code::kOk}) {
    Notes notes;
    notes.leased = true;
    notes.schedules(1).starts(1, 1, 10 * kMs);
    const auto first = notes.last;
    notes.starts(1, 2, 50 * kMs);
    const auto second = notes.last;
    notes.ends(AnswerKind::kFail, 50 * kMs, late, first);
    notes.ends(AnswerKind::kDone, 50 * kMs, Code::kOk, second);
    // An early start too: the answer says when it may be tried again.
    EXPECT_EQ(found(notes), late == Code::kOk ? (Found{"I9", "I18"}) : Found{});
  }
}

TEST(RecordCheck, I10_TwoTasksOfOneKeyAtATime) {
  for (const bool overlap : {false, true}) {
    Notes notes;
    notes.key = "k";
    notes.schedules(1).starts(1, 1, 10 * kMs);
    const auto first = notes.last;
    if (!overlap) {
      notes.ends();
    }
    notes.schedules(2).starts(2, 1, 10 * kMs).ends();
    if (overlap) {
      notes.ends(AnswerKind::kDone, 0, Code::kOk, first);
    }
    EXPECT_EQ(found(notes), overlap ? Found{"I10"} : Found{});
  }
}

TEST(RecordCheck, I10_OneTaskTwiceAtATime) {
  Notes bad;
  bad.schedules(1).starts(1, 1, 10 * kMs).starts(1, 2, 11 * kMs).ends();
  EXPECT_EQ(found(bad), Found{"I10"});
}

TEST(RecordCheck, I11_AStartAtTheDeadlineItHadBeforeItWasMoved) {
  for (const std::int64_t at_ns : {20 * kMs, 10 * kMs}) {
    Notes notes;
    notes.schedules(1).moves(1, 20 * kMs).starts(1, 1, at_ns).ends();
    EXPECT_EQ(found(notes), at_ns == 20 * kMs ? Found{} : Found{"I11"});
  }
}

TEST(RecordCheck, I15_EqualDeadlinesOutOfOrder) {
  for (const bool swapped : {false, true}) {
    Notes notes;
    notes.schedules(1).schedules(2);
    notes.starts(swapped ? 2 : 1, 1, 10 * kMs).ends();
    notes.starts(swapped ? 1 : 2, 1, 10 * kMs).ends();
    EXPECT_EQ(found(notes), swapped ? Found{"I15"} : Found{});
  }
}

TEST(RecordCheck, I17_ADeadLetterThatForgotSomething) {
  const auto with_letter = [](std::uint32_t attempts, std::uint32_t failures) {
    Notes notes;
    notes.schedules(1);
    for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) {
      notes.starts(1, attempt, attempt * 10 * kMs).ends(AnswerKind::kFail, attempt * 10 * kMs);
    }
    notes.letter(1, attempts, failures);
    return found(notes);
  };
  EXPECT_EQ(with_letter(3, 3), Found{});
  EXPECT_EQ(with_letter(2, 3), Found{"I17"});
  EXPECT_EQ(with_letter(3, 2), Found{"I17"});
}

TEST(RecordCheck, I17_ADeadLetterWithTheContentsOfAnother) {
  Notes bad;
  bad.schedules(1).starts(1, 1, 10 * kMs).ends(AnswerKind::kFail, 10 * kMs);
  bad.key = "another";
  bad.letter(1, 1, 3);
  EXPECT_EQ(found(bad), Found{"I17"});
}

TEST(RecordCheck, I18_ARetryBeforeItsBackoff) {
  for (const std::int64_t wait_ns : {5 * kMs, 5 * kMs - 1}) {
    Notes notes;
    notes.schedules(1).starts(1, 1, 10 * kMs).ends(AnswerKind::kFail, 10 * kMs);
    notes.starts(1, 2, 10 * kMs + wait_ns).ends();
    EXPECT_EQ(found(notes), wait_ns == 5 * kMs ? Found{} : Found{"I18"});
  }
}

TEST(RecordCheck, I20_AStartAfterStop) {
  Notes bad;
  bad.schedules(1);
  bad.record.stopped(0);
  bad.starts(1, 1, 10 * kMs).ends();
  EXPECT_EQ(found(bad), Found{"I20"});
}

TEST(RecordCheck, I21_ACallThatDidNotComeBack) {
  Notes bad;
  bad.record.hung("a call");
  EXPECT_EQ(found(bad), Found{"I21"});
}

TEST(RecordCheck, I30_CountersThatDoNotAddUp) {
  Stats stats;
  stats.scheduled = 2;
  stats.pending = 2;
  Notes notes;
  notes.record.counted(stats, 0);
  EXPECT_EQ(found(notes), Found{});
  stats.pending = 1;
  notes.record.counted(stats, 0);
  EXPECT_EQ(found(notes), Found{"I30"});
}

TEST(RecordCheck, I30_ACounterBelowZero) {
  Stats stats;
  stats.running = static_cast<std::uint64_t>(-1);
  Notes notes;
  notes.record.counted(stats, 0);
  EXPECT_EQ(found(notes), Found{"I30"});
}

TEST(RecordCheck, I30_ATotalThatIsNotWhatWasSeen) {
  for (const std::uint64_t done : {1U, 2U}) {
    Notes notes;
    notes.schedules(1).starts(1, 1, 10 * kMs).ends();
    Stats stats;
    stats.scheduled = done;
    stats.done = done;
    notes.record.final_stats = stats;
    EXPECT_EQ(found(notes), done == 1 ? Found{} : Found{"I30"});
  }
}

// The thread that answered was held up until the crash.
TEST(RecordCheck, AnAnswerThatNeverCameBackMayHaveBeenAccepted) {
  for (const bool began : {false, true}) {
    Notes notes;
    notes.schedules(1).starts(1, 1, 10 * kMs);
    if (began) {
      Answer answer;
      answer.kind = AnswerKind::kFail;
      answer.code = Code::kTimedOut;
      notes.record.answers(notes.last, answer);
    }
    notes.cancels(1).crashes(false);
    EXPECT_EQ(found(notes), began ? Found{} : Found{"I1"});
  }
}

// What was refused has not happened.
TEST(RecordCheck, ARefusedCancelCancelsNothing) {
  Notes notes;
  notes.record.write_refused();
  notes.schedules(1);
  notes.answered(notes.record.begin(notes.call_of(CallKind::kCancel, 1), 0),
                 Code::kCancelled,
                 Settled::kRefused);
  EXPECT_EQ(found(notes), Found{"I2"});
  notes.starts(1, 1, 10 * kMs).ends();
  EXPECT_EQ(found(notes), Found{});
}

TEST(RecordCheck, ItsStoryNamesEveryNote) {
  Notes notes;
  notes.schedules(1).starts(1, 1, 10 * kMs).ends().crashes(false).cancels(1, Code::kNotFound);
  const std::string story = story_of(notes.record, TaskId{1});
  for (const char* word : {"schedule", "attempt 1", "answer done", "kill -9", "not_found"}) {
    EXPECT_NE(story.find(word), std::string::npos) << word << "\n" << story;
  }
}

}  // namespace
}  // namespace countwheel::testing
