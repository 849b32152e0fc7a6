// The check of records with calls that a crash left without an answer, that were refused after they
// had been answered, and with starts that nobody came to note: what may have been is no breach.
#include <cstddef>
#include <cstdint>
#include <optional>

#include <gtest/gtest.h>

#include "record_notes.h"
#include "testing/record_check.h"

namespace countwheel::testing {
namespace {

std::optional<std::size_t> begin_cancel_of_group(Notes& notes, std::uint64_t group) {
  notes.group = group;
  return notes.record.begin(notes.call_of(CallKind::kCancelGroup, 0), notes.record.life());
}

void cancel_group(Notes& notes, std::uint64_t group) {
  notes.answered(begin_cancel_of_group(notes, group), Code::kOk, Settled::kHeld);
}

// An upsert of the key into a group that the crash leaves without an answer.
void upsert_unanswered(Notes& notes, std::uint64_t group, bool may_replace = true) {
  notes.group = group;
  Call call = notes.call_of(CallKind::kSchedule, 0);
  call.may_replace = may_replace;
  notes.record.begin(call, 0);
}

void look_for(Notes& notes, std::uint64_t id) {
  const auto index = notes.record.begin(Look{TaskId{id}}, notes.record.life());
  notes.record.end(&Record::looks, index, [](Look& noted) { noted.code = Code::kNotFound; });
}

void settle(Notes& notes, std::optional<std::size_t> call, Settled settled) {
  if (settled == Settled::kRefused) {
    notes.record.write_refused();
  }
  notes.record.settle(*call, settled);
}

TEST(RecordCheck, AnUpsertWithoutAnAnswerMayHaveMovedTheTaskIntoTheCancelledGroup) {
  struct Case {
    std::uint64_t into;
    bool may_replace;
    Found broken;
  };
  for (const Case& one : {Case{1, true, {}}, Case{2, true, {"I2"}}, Case{1, false, {"I2"}}}) {
    Notes notes;
    notes.key = "k";
    notes.schedules(1);
    upsert_unanswered(notes, one.into, one.may_replace);
    notes.crashes(false);
    cancel_group(notes, 1);
    EXPECT_EQ(found(notes), one.broken) << one.into << one.may_replace;
  }
}

TEST(RecordCheck, AnUpsertOfAnotherKeyMovesNothing) {
  Notes notes;
  notes.key = "k";
  notes.schedules(1);
  notes.key = "another";
  upsert_unanswered(notes, 1);
  notes.crashes(false);
  cancel_group(notes, 1);
  EXPECT_EQ(found(notes), Found{"I2"});
}

TEST(RecordCheck, AGroupThatWasCancelledBeforeTheUpsertIsNotTheTasks) {
  for (const bool overlaps : {true, false}) {
    Notes notes;
    notes.key = "k";
    notes.schedules(1);
    const auto cancel = begin_cancel_of_group(notes, 1);
    if (!overlaps) {
      notes.answered(cancel, Code::kOk, Settled::kHeld);
    }
    upsert_unanswered(notes, 1);
    if (overlaps) {
      notes.answered(cancel, Code::kOk, Settled::kHeld);
    }
    notes.crashes(false);
    EXPECT_EQ(found(notes), overlaps ? Found{} : Found{"I2"});
  }
}

TEST(RecordCheck, AnAnsweredUpsertIntoAGroupThatWasCancelledBeforeStays) {
  for (const bool before : {true, false}) {
    Notes notes;
    notes.key = "k";
    notes.schedules(1);
    if (before) {
      cancel_group(notes, 1);
    }
    notes.group = 1;
    notes.schedules(1);
    if (!before) {
      cancel_group(notes, 1);
    }
    EXPECT_EQ(found(notes), before ? Found{"I2"} : Found{});
  }
}

TEST(RecordCheck, AnUpsertWithoutAnAnswerMayHaveMovedTheTaskOutOfTheCancelledGroup) {
  for (const bool upserted : {true, false}) {
    Notes notes;
    notes.polls(0);
    notes.key = "k";
    notes.group = 1;
    notes.schedules(1);
    if (upserted) {
      upsert_unanswered(notes, 2);
    }
    cancel_group(notes, 1);
    notes.crashes(false).starts(1, 1, 10 * kMs).ends();
    EXPECT_EQ(found(notes), upserted ? Found{} : Found{"I1"});
  }
}

TEST(RecordCheck, ATaskIsGoneWithItsGroupUntilTheCancelIsTakenBack) {
  for (const Settled settled : {Settled::kHeld, Settled::kRefused}) {
    Notes notes;
    notes.group = 1;
    notes.schedules(1);
    const auto cancel = begin_cancel_of_group(notes, 1);
    notes.answered(cancel, Code::kOk, Settled::kUnknown);
    look_for(notes, 1);
    settle(notes, cancel, settled);
    notes.record.at_rest = false;
    EXPECT_EQ(found(notes), Found{});
    look_for(notes, 1);
    EXPECT_EQ(found(notes), settled == Settled::kHeld ? Found{} : Found{"I2"});
  }
}

TEST(RecordCheck, ATaskIsGoneWithTheGroupItIsInUntilTheUpsertIsTakenBack) {
  Notes notes;
  notes.key = "k";
  notes.schedules(1);
  notes.group = 1;
  const auto upsert = notes.record.begin(notes.call_of(CallKind::kSchedule, 1), 0);
  notes.answered(upsert, Code::kOk, Settled::kUnknown);
  const auto cancel = begin_cancel_of_group(notes, 1);
  notes.answered(cancel, Code::kOk, Settled::kUnknown);
  look_for(notes, 1);
  settle(notes, upsert, Settled::kRefused);
  settle(notes, cancel, Settled::kRefused);
  notes.record.at_rest = false;
  EXPECT_EQ(found(notes), Found{});
  look_for(notes, 1);
  EXPECT_EQ(found(notes), Found{"I2"});
}

TEST(RecordCheck, ATaskIsGoneUntilItsCancelOrItsPurgeIsTakenBack) {
  for (const CallKind kind : {CallKind::kCancel, CallKind::kPurge}) {
    Notes notes;
    notes.schedules(1);
    const auto call = notes.record.begin(notes.call_of(kind, 1), 0);
    notes.answered(call, Code::kCancelled, Settled::kUnknown);
    look_for(notes, 1);
    settle(notes, call, Settled::kRefused);
    notes.record.at_rest = false;
    EXPECT_EQ(found(notes), Found{});
    look_for(notes, 1);
    EXPECT_EQ(found(notes), Found{"I2"});
  }
}

TEST(RecordCheck, ALetterIsGoneUntilItsRequeueIsTakenBack) {
  Notes notes;
  notes.schedules(1);
  Call call = notes.call_of(CallKind::kRequeue, 2);
  call.letter = TaskId{1};
  const auto requeue = notes.record.begin(call, 0);
  notes.answered(requeue, Code::kOk, Settled::kUnknown);
  look_for(notes, 1);
  settle(notes, requeue, Settled::kRefused);
  notes.record.at_rest = false;
  EXPECT_EQ(found(notes), Found{});
  look_for(notes, 1);
  EXPECT_EQ(found(notes), Found{"I2"});
}

TEST(RecordCheck, APurgeThatWasTakenBackEndsNothing) {
  Notes notes;
  notes.schedules(1);
  const auto call = notes.record.begin(notes.call_of(CallKind::kPurge, 1), 0);
  notes.answered(call, Code::kCancelled, Settled::kUnknown);
  settle(notes, call, Settled::kRefused);
  EXPECT_EQ(found(notes), Found{"I2"});
}

// The thread of the first attempt was held up before it came to note its start; the lease went by,
// then the process.
TEST(RecordCheck, I7_AnAttemptWhoseLeaseWasOverMayGoUnnotedInACrash) {
  struct Case {
    bool leased;
    bool crash;
    bool host;
    bool sound;
  };
  for (const Case& one : {Case{true, true, false, true},
                          Case{false, true, false, false},
                          Case{true, false, false, false},
                          Case{true, true, true, false}}) {
    Notes notes;
    if (one.host) {
      notes.polls(0);
    }
    notes.leased = one.leased;
    notes.schedules(1).starts(1, 2, 10 * kMs).ends();
    if (one.crash) {
      notes.crashes(false);
    }
    EXPECT_EQ(found(notes), one.sound ? Found{} : Found{"I7"});
  }
}

}  // namespace
}  // namespace countwheel::testing
