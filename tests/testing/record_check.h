// check(): holds a record against what the engine promises, invariant by invariant.
//
// It knows nothing of the engine but its answers, and takes nothing for granted that a call which
// overlaps another, was never answered, was refused or was not yet durable at a crash may or may
// not have done: whatever it reports is a broken promise. What it knows of one task:
//
//   writes     calls that gave the task a deadline: schedule, upsert, reschedule, requeue
//   binds      a write that took place for certain, also behind the crash in between
//   candidates writes that an attempt may have been started by: begun before it, and no write that
//              binds lies wholly between
#ifndef COUNTWHEEL_TESTS_TESTING_RECORD_CHECK_H_
#define COUNTWHEEL_TESTS_TESTING_RECORD_CHECK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "testing/record.h"

namespace countwheel::testing {

// One line for each broken promise, "I5 task 7: ..."; empty when all is well.
std::vector<std::string> check(const Record& record);

// It gives a task its key and payload.
inline bool has_content(const Call& call) {
  return call.kind == CallKind::kSchedule || call.kind == CallKind::kRequeue;
}

// Not a failure of the call, and not known to have been rolled back.
inline bool may_have_happened(const Call& call) {
  return call.end == kOpen || call.succeeded();
}

// When what a call did was no more: it was in force until its refusal was heard of.
inline std::uint64_t in_force_until(const Call& call) {
  return call.settled == Settled::kRefused ? call.settled_at : kOpen;
}

class RecordChecker {
 public:
  explicit RecordChecker(const Record& record);
  std::vector<std::string> run();

 private:
  struct Task {
    std::uint64_t id = 0;
    std::vector<const Call*> writes;
    std::vector<const Call*> refused;  // writes that were taken back
    std::vector<const Call*> cancels;
    std::vector<const Call*> ends;  // purges, and requeues of it as a letter; refused ones too
    std::vector<const Attempt*> attempts;
    std::vector<const Look*> looks;
    const Look* letter = nullptr;  // at the end
  };
  // What may have made an attempt due.
  struct Due {
    const Call* call = nullptr;  // null: the attempt before failed
    ClockKind clock = ClockKind::kBoot;
    std::int64_t not_before_ns = 0;
  };

  // record_check.cc: one task.
  void check_task(const Task& task);
  void check_attempt(const Task& task, std::size_t position);
  void check_restart(const Task& task, const Attempt& before, const Attempt& attempt);
  void check_content(const Task& task, const Attempt& attempt);
  void check_answers(const Task& task);
  void check_count(const Task& task);

  // record_check_cancels.cc.
  void check_cancels(const Task& task);
  void check_cancelled(const Task& task, const Call& cancel);
  void check_requested(const Task& task, const Call& cancel);
  void check_cancelled_with_group(const Task& task);

  // record_check_whole.cc: the record as a whole.
  void check_ends(const Task& task);
  void check_letter(const Task& task);
  void check_looks(const Task& task);
  void check_keys();
  void check_backoff(const Task& task, std::size_t position, const Due& due);

  // record_check_dedup.cc.
  void check_dedup();
  void check_accepted(const Task& task, const Call& call);
  bool keeps_key(const Task& task, const Attempt& last, std::uint64_t queued) const;

  void check_order();
  void check_late(const Task& task, const Attempt& attempt, const Due& due);
  void check_stop();
  void check_stats();

  void report(const char* invariant, std::uint64_t id, const std::string& what);
  bool may_be_noted_late(const Attempt& attempt) const;
  bool holds(const Call& call) const;
  bool durable(const Call& call) const;
  bool binds(const Call& call, int life) const;
  // Whether a write that binds lies wholly between the end of `call` and `before`.
  bool superseded(const Task& task, const Call& call, const Attempt& by, bool content_only) const;
  std::vector<Due> candidates(const Task& task, std::size_t position) const;
  std::vector<const Call*> contents(const Task& task, const Attempt& attempt) const;
  // The step of a host that handed it over, from 1; 0: a thread did.
  std::int64_t step_of(const Attempt& attempt) const;
  // From which number on the record of an accepted answer is queued for certain.
  std::uint64_t queued_at(const Attempt& attempt) const;
  bool end_is_durable(const Attempt& attempt) const;
  // Whether a cancel of its key was never answered.
  bool cancel_unanswered(const Task& task) const;
  // Whether an upsert that was never answered may have changed it before `before`: all of them, or
  // those into a group.
  bool may_be_upserted(const Task& task,
                       std::uint64_t before,
                       std::optional<std::uint64_t> into_group = {}) const;
  // Whether it may have been in the group when that was cancelled, by what was in force at `from`.
  bool may_be_member(const Task& task, const Call& cancel, std::uint64_t from) const;
  // Whether a cancel of a group it was in may have been in force at some moment in between.
  bool group_cancelled(const Task& task, std::uint64_t from, std::uint64_t to) const;
  // Whether attempts before this one may be missing in the record.
  bool may_lack_notes(const Task& task, const Attempt& attempt) const;
  bool may_have_ended(const Task& task) const;

  const Record& record_;
  bool refusals_ = false;  // some calls were taken back for want of space
  int last_life_ = 0;
  std::map<std::uint64_t, Task> tasks_;
  std::map<std::string, const Call*> unanswered_;  // schedules, by payload
  std::vector<const Call*> unanswered_by_key_;     // cancels and reschedules
  std::vector<const Call*> group_cancels_;         // refused ones too
  std::set<std::string> leased_types_;
  std::vector<std::string> broken_;
};

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_RECORD_CHECK_H_
