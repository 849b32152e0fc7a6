// The check of backoffs and deduplication windows on records made by hand.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "record_notes.h"
#include "testing/record_check.h"

namespace countwheel::testing {
namespace {

// Task 1 with a window of 60 ms is done at 10 ms in a step of its host; task 2 asks for its key.
Found found_when_asked_at(std::int64_t at_ns, Code code = Code::kOk) {
  Notes notes;
  notes.key = "k";
  notes.dedup_window_ns = 60 * kMs;
  notes.schedules(1);
  const auto poll = notes.record.begin(Poll{.at = {10 * kMs, 10 * kMs}}, 0);
  notes.starts(1, 1, 10 * kMs).ends(AnswerKind::kDone, 10 * kMs);
  notes.record.end(&Record::polls, poll, [](Poll& noted) { noted.handed_over = 1; });
  notes.dedup_window_ns = 0;
  notes.deadline_ns = 200 * kMs;
  notes.now_ns = at_ns;
  notes.answered(
      notes.record.begin(notes.call_of(CallKind::kSchedule, 2), 0), code, Settled::kHeld);
  notes.record.at_rest = false;
  return found(notes);
}

TEST(RecordCheck, I19_AKeyThatIsGivenAwayWithinItsWindow) {
  EXPECT_EQ(found_when_asked_at(70 * kMs), Found{});
  EXPECT_EQ(found_when_asked_at(70 * kMs - 1), Found{"I19"});
  EXPECT_EQ(found_when_asked_at(70 * kMs - 1, Code::kDuplicate), Found{});
}

// Its key is its successor's, also when its thread came to note its start only after that.
TEST(RecordCheck, I19_AKeyThatASuccessorHasTakenOver) {
  for (const bool succeeded : {true, false}) {
    Notes notes;
    notes.key = "k";
    notes.dedup_window_ns = 60 * kMs;
    notes.schedules(1);
    notes.dedup_window_ns = 0;
    if (succeeded) {
      notes.schedules(2);
    }
    notes.starts(1, 1, 10 * kMs);
    notes.record.kept(notes.last);
    notes.ends(AnswerKind::kDone, 10 * kMs);
    notes.now_ns = 20 * kMs;
    notes.schedules(3);
    notes.record.at_rest = false;
    EXPECT_EQ(found(notes), succeeded ? Found{} : Found{"I19"});
  }
}

TEST(RecordCheck, I19_ADuplicateOfNothing) {
  Notes bad;
  bad.key = "k";
  bad.schedules(1).starts(1, 1, 10 * kMs).ends();
  bad.answered(bad.record.begin(bad.call_of(CallKind::kSchedule, 2), 0),
               Code::kDuplicate,
               Settled::kUnknown);
  EXPECT_EQ(found(bad), Found{"I19"});
}

// The task with the window may come and be done while the call for its key is on its way.
TEST(RecordCheck, I19_ADuplicateOfWhatWasScheduledMeanwhile) {
  for (const bool meanwhile : {true, false}) {
    Notes notes;
    notes.key = "k";
    const auto call = notes.record.begin(notes.call_of(CallKind::kSchedule, 0), 0);
    if (!meanwhile) {
      notes.answered(call, Code::kDuplicate, Settled::kUnknown);
    }
    notes.dedup_window_ns = 60 * kMs;
    notes.schedules(1).starts(1, 1, 10 * kMs).ends();
    if (meanwhile) {
      notes.answered(call, Code::kDuplicate, Settled::kUnknown);
    }
    EXPECT_EQ(found(notes), meanwhile ? Found{} : Found{"I19"});
  }
}

TEST(RecordCheck, I19_ADuplicateOfWhatWasRefused) {
  for (const Settled settled : {Settled::kHeld, Settled::kRefused}) {
    Notes notes;
    notes.key = "k";
    notes.dedup_window_ns = 60 * kMs;
    notes.schedules(1, settled);
    notes.dedup_window_ns = 0;
    notes.answered(notes.record.begin(notes.call_of(CallKind::kSchedule, 0), 0),
                   Code::kDuplicate,
                   Settled::kUnknown);
    notes.record.at_rest = false;
    EXPECT_EQ(found(notes), settled == Settled::kHeld ? Found{} : Found{"I19"});
  }
}

// Failed at 10 ms with a backoff of 5 ms, in a step of a host, whose clock stands still meanwhile.
Found found_with_deadline(std::int64_t deadline_ns) {
  Notes notes;
  notes.schedules(1);
  const auto poll = notes.record.begin(Poll{.at = {10 * kMs, 10 * kMs}}, 0);
  notes.starts(1, 1, 10 * kMs).ends(AnswerKind::kFail, 10 * kMs);
  notes.record.end(&Record::polls, poll, [](Poll& noted) { noted.handed_over = 1; });
  notes.deadline_ns = deadline_ns;
  const auto again = notes.record.begin(Poll{.at = {30 * kMs, 30 * kMs}}, 0);
  notes.starts(1, 2, 30 * kMs).ends(AnswerKind::kDone, 30 * kMs);
  notes.record.end(&Record::polls, again, [](Poll& noted) { noted.handed_over = 2; });
  return found(notes);
}

TEST(RecordCheck, I18_ARetryThatIsDueLaterThanItsBackoff) {
  EXPECT_EQ(found_with_deadline(15 * kMs), Found{});
  EXPECT_EQ(found_with_deadline(15 * kMs + 1), Found{"I18"});
}

}  // namespace
}  // namespace countwheel::testing
