// Notes: a record made by hand, one line a moment.
//
//   Notes notes;
//   notes.schedules(1).starts(1, 1, 10 * kMs).ends();
//   EXPECT_EQ(check(notes.record), std::vector<std::string>{});
//
// Tasks are numbers; their payload is "p" and the number. What is not said is in the members.
#ifndef COUNTWHEEL_TESTS_ENGINE_RECORD_NOTES_H_
#define COUNTWHEEL_TESTS_ENGINE_RECORD_NOTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "testing/record_check.h"

namespace countwheel::testing {

inline constexpr std::int64_t kMs = 1'000'000;

class Notes {
 public:
  Notes() { record.at_rest = true; }

  Call call_of(CallKind kind, std::uint64_t id) const {
    Call call;
    call.kind = kind;
    call.id = TaskId{id};
    call.key = key;
    call.type = type;
    call.group = group;
    call.dedup_window_ns = dedup_window_ns;
    call.after = {now_ns, now_ns};
    call.payload = "p" + std::to_string(id);
    call.deadline_ns = deadline_ns;
    call.durability = durability;
    call.max_attempts = 3;
    call.backoff_ns = 5 * kMs;
    return call;
  }
  Notes& answered(std::optional<std::size_t> index, Code code, Settled settled) {
    record.end(&Record::calls, index, [&](Call& call) {
      call.code = code;
      call.lsn = ++lsn;
      call.settled = settled;
    });
    return *this;
  }
  Notes& schedules(std::uint64_t id, Settled settled = Settled::kHeld) {
    return answered(
        record.begin(call_of(CallKind::kSchedule, id), record.life()), Code::kOk, settled);
  }
  Notes& moves(std::uint64_t id, std::int64_t to_ns) {
    deadline_ns = to_ns;
    return answered(
        record.begin(call_of(CallKind::kReschedule, id), record.life()), Code::kOk, Settled::kHeld);
  }
  Notes& cancels(std::uint64_t id, Code code = Code::kCancelled) {
    return answered(
        record.begin(call_of(CallKind::kCancel, id), record.life()), code, Settled::kHeld);
  }
  Notes& starts(std::uint64_t id, std::uint32_t number, std::int64_t at_ns) {
    Attempt attempt;
    attempt.id = TaskId{id};
    attempt.type = type;
    attempt.key = key;
    attempt.payload = "p" + std::to_string(id);
    attempt.attempt = number;
    attempt.epoch = static_cast<std::uint64_t>(record.life()) + 1;
    attempt.sequence = ++sequence;
    attempt.wall_deadline_ns = deadline_ns;
    attempt.at = {at_ns, at_ns};
    attempt.durable_lsn = {lsn, lsn, durable ? lsn : 0};
    attempt.leased = leased;
    last = record.starts(attempt, record.life());
    return *this;
  }
  Notes& ends(AnswerKind kind = AnswerKind::kDone,
              std::int64_t at_ns = 0,
              Code code = Code::kOk,
              std::optional<std::size_t> attempt = {}) {
    Answer answer;
    answer.kind = kind;
    answer.at = {at_ns, at_ns};
    attempt = attempt ? attempt : last;
    record.answered(attempt, record.answers(attempt, answer), code);
    return *this;
  }
  Notes& polls(std::int64_t at_ns) {
    Poll poll;
    poll.at = {at_ns, at_ns};
    record.end(&Record::polls, record.begin(poll, record.life()), [&](Poll& noted) {
      noted.handed_over = sequence;
    });
    return *this;
  }
  Notes& flushes() {
    record.end(&Record::flushes, record.begin(Flush{}, record.life()), [](Flush&) {});
    return *this;
  }
  Notes& crashes(bool power) {
    record.crash_begins(power);
    record.crash_ends();
    return *this;
  }
  Notes& letter(std::uint64_t id, std::uint32_t attempts, std::uint32_t failures) {
    Look look;
    look.id = TaskId{id};
    look.key = key;
    look.payload = "p" + std::to_string(id);
    look.attempts = attempts;
    look.failures = failures;
    look.last_error = "failed";
    look.reason = DeadReason::kAttempts;
    record.letters.push_back(look);
    return *this;
  }

  Record record;
  std::string key;
  std::string type = "plain";
  std::uint64_t group = 0;
  std::int64_t dedup_window_ns = 0;
  std::int64_t now_ns = 0;  // after a call
  std::int64_t deadline_ns = 10 * kMs;
  Durability durability = Durability::kDisk;
  bool leased = false;
  bool durable = true;
  std::uint64_t lsn = 0;
  std::uint64_t sequence = 0;
  std::optional<std::size_t> last;
};

// The invariants that the check reports as broken.
using Found = std::vector<std::string>;
inline Found found(const Notes& notes) {
  Found invariants;
  for (const std::string& line : check(notes.record)) {
    invariants.push_back(line.substr(0, line.find(' ')));
  }
  return invariants;
}

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_ENGINE_RECORD_NOTES_H_
