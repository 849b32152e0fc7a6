// Record: what was asked of an engine, what it answered, and what its handlers saw, in order.
//
// Callers and handlers of any number of threads note what they do: a call before and after it, an
// attempt at its start and at its answer. Each note has a number from one counter: a note with a
// greater number came later. What a call did took place between its two numbers, so two calls that
// overlap may have taken place in either order. check() in history.h holds a record against what
// the engine promises.
//
// A life is the time from one start of the engine to its crash. What an engine does after the image
// of its crash was taken has not happened: notes of a past life are dropped.
//
// Thread contract: all methods are safe for concurrent use; read the vectors when nobody writes.
#ifndef COUNTWHEEL_TESTS_TESTING_RECORD_H_
#define COUNTWHEEL_TESTS_TESTING_RECORD_H_

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <countwheel/clock.h>
#include <countwheel/engine.h>

namespace countwheel::testing {

// Later than anything: what is not over yet.
inline constexpr std::uint64_t kOpen = std::numeric_limits<std::uint64_t>::max();

enum class CallKind : std::uint8_t {
  kSchedule,
  kCancel,
  kReschedule,
  kRequeue,
  kPurge,
  kCancelGroup,  // of all tasks of `group`
};

// What became of a call that was answered ok (or cancelled).
enum class Settled : std::uint8_t {
  kUnknown,  // Nobody has waited for it, or the wait did not say.
  kHeld,     // It has reached its durability.
  kRefused,  // It was rolled back.
};

struct Call {
  // What was asked.
  CallKind kind = CallKind::kSchedule;
  TaskId id;  // of the task it concerns; 0 while nobody knows
  std::string type;
  std::string key;
  std::string payload;  // unique among the schedules of a record
  ClockKind clock = ClockKind::kBoot;
  std::int64_t deadline_ns = 0;  // on that clock, computed from the clock before the call
  std::int64_t slack_ns = 0;
  Durability durability = Durability::kDisk;
  std::uint32_t max_attempts = 0;
  std::int64_t backoff_ns = 0;      // after each failure
  std::int64_t backoff_max_ns = 0;  // if it may be more
  bool may_expire_late = false;
  bool may_replace = false;  // kSchedule: the live task of its key, which stays in place
  std::uint64_t group = 0;
  std::int64_t dedup_window_ns = 0;
  TaskId letter;                         // kRequeue: the dead letter
  std::optional<std::int64_t> expected;  // reschedule_if

  // What was answered.
  Code code = Code::kOk;
  std::uint64_t lsn = 0;
  bool replaced = false;
  bool kept = false;
  std::int64_t deadline_before_ns = 0;
  Instant after;  // kSchedule: after the call
  Settled settled = Settled::kUnknown;
  std::uint64_t settled_at = kOpen;  // number of the note that says so

  int life = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = kOpen;

  bool succeeded() const {
    return end != kOpen && !kept && settled != Settled::kRefused &&
           (code == Code::kOk || code == Code::kCancelled);
  }
};

enum class AnswerKind : std::uint8_t { kDone, kFail, kRetry, kDrop, kThrow };

struct Answer {
  AnswerKind kind = AnswerKind::kDone;
  Code code = Code::kOk;
  Instant at;                 // before the answer
  std::int64_t delay_ns = 0;  // kRetry
  std::uint64_t begin = 0;
  std::uint64_t end = kOpen;
};

struct Attempt {
  TaskId id;
  std::string type;
  std::string key;
  std::string payload;
  std::uint32_t attempt = 0;
  std::uint64_t epoch = 0;
  std::uint64_t sequence = 0;
  std::int64_t wall_deadline_ns = 0;
  Instant at;
  std::array<std::uint64_t, 3> durable_lsn = {};  // at the start, by Durability
  bool leased = false;
  bool in_handler = true;  // the answer came from the handler itself

  int life = 0;
  std::uint64_t start = 0;
  std::vector<Answer> answers;

  const Answer* accepted() const {
    for (const Answer& answer : answers) {
      if (answer.code == Code::kOk) {
        return &answer;
      }
    }
    return nullptr;
  }
  // When an answer began that never came back, which a crash prevents; kOpen if none did.
  std::uint64_t unheard_since() const {
    for (const Answer& answer : answers) {
      if (answer.end == kOpen) {
        return answer.begin;
      }
    }
    return kOpen;
  }
};

// What find() or dead_letters() said.
struct Look {
  TaskId id;
  Code code = Code::kOk;
  State state = State::kFree;
  std::string key;
  std::string payload;
  std::uint32_t attempts = 0;
  std::uint32_t failures = 0;
  std::string last_error;
  DeadReason reason = DeadReason::kNone;
  int life = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = kOpen;
};

// A poll() of a host, to its end.
struct Poll {
  Instant at;
  std::vector<std::string> paused;  // types whose handlers may not start
  bool all_paused = false;
  std::uint64_t handed_over = 0;  // in this life, when it has returned
  int life = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = kOpen;
};

// A flush() at `disk` that answered ok.
struct Flush {
  int life = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = kOpen;
};

struct Counted {
  Stats stats;
  std::uint64_t at = 0;
};

struct Crash {
  bool power = false;       // of the machine; otherwise of the process alone
  std::uint64_t begin = 0;  // before its image was taken
  std::uint64_t end = kOpen;
};

class Record {
 public:
  // Each answers the index of what it noted, or nothing when `life` is past.
  std::optional<std::size_t> begin(Call call, int life) {
    const std::lock_guard lock(mutex_);
    return put(calls, std::move(call), life, &Call::begin);
  }
  std::optional<std::size_t> starts(Attempt attempt, int life) {
    const std::lock_guard lock(mutex_);
    return put(attempts, std::move(attempt), life, &Attempt::start);
  }
  std::optional<std::size_t> begin(Look look, int life) {
    const std::lock_guard lock(mutex_);
    return put(looks, std::move(look), life, &Look::begin);
  }
  std::optional<std::size_t> begin(Poll poll, int life) {
    const std::lock_guard lock(mutex_);
    return put(polls, std::move(poll), life, &Poll::begin);
  }
  std::optional<std::size_t> begin(Flush flush, int life) {
    const std::lock_guard lock(mutex_);
    return put(flushes, std::move(flush), life, &Flush::begin);
  }
  // Changes what is at `index` under the lock and gives it its last number.
  template <class Note, class Change>
  void end(std::deque<Note> Record::*notes, std::optional<std::size_t> index, Change&& change) {
    const std::lock_guard lock(mutex_);
    if (index && (this->*notes)[*index].life == life_) {
      Note& note = (this->*notes)[*index];
      change(note);
      note.end = ++last_;
      if constexpr (std::is_same_v<Note, Call>) {
        note.settled_at = note.settled == Settled::kHeld ? note.end : kOpen;
      }
    }
  }
  std::pair<Lsn, Durability> wanted(std::size_t call) const {
    const std::lock_guard lock(mutex_);
    return {Lsn{calls[call].lsn}, calls[call].durability};
  }
  void settle(std::size_t index, Settled settled) {
    const std::lock_guard lock(mutex_);
    if (calls[index].life == life_) {
      calls[index].settled = settled;
      calls[index].settled_at = ++last_;
    }
  }
  // The index among the answers of this attempt.
  std::optional<std::size_t> answers(std::optional<std::size_t> attempt, Answer answer) {
    const std::lock_guard lock(mutex_);
    if (!attempt || attempts[*attempt].life != life_) {
      return std::nullopt;
    }
    answer.begin = ++last_;
    attempts[*attempt].answers.push_back(answer);
    return attempts[*attempt].answers.size() - 1;
  }
  void answered(std::optional<std::size_t> attempt, std::optional<std::size_t> index, Code code) {
    const std::lock_guard lock(mutex_);
    if (attempt && index && attempts[*attempt].life == life_) {
      attempts[*attempt].answers[*index].code = code;
      attempts[*attempt].answers[*index].end = ++last_;
    }
  }
  void kept(std::optional<std::size_t> attempt) {
    const std::lock_guard lock(mutex_);
    if (attempt) {
      attempts[*attempt].in_handler = false;
    }
  }
  void counted(const Stats& stats, int life) {
    const std::lock_guard lock(mutex_);
    if (life == life_) {
      counts.push_back({stats, ++last_});
    }
  }
  void stopped(int life) {
    const std::lock_guard lock(mutex_);
    if (life == life_) {
      stopped_at = ++last_;
    }
  }
  void write_refused() {
    const std::lock_guard lock(mutex_);
    refusals = true;
  }
  void hung(const std::string& who) {
    const std::lock_guard lock(mutex_);
    hangs.push_back(who);
  }

  void crash_begins(bool power) {
    const std::lock_guard lock(mutex_);
    crashes.push_back({power, ++last_, kOpen});
  }
  // The image is taken: a new life begins.
  void crash_ends() {
    const std::lock_guard lock(mutex_);
    crashes.back().end = ++last_;
    ++life_;
  }
  int life() const {
    const std::lock_guard lock(mutex_);
    return life_;
  }
  std::uint64_t last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

  std::deque<Call> calls;
  std::deque<Attempt> attempts;
  std::deque<Look> looks;
  std::deque<Poll> polls;
  std::deque<Flush> flushes;
  std::vector<Counted> counts;
  std::vector<Crash> crashes;
  std::vector<std::string> hangs;    // callers that did not come back
  std::uint64_t stopped_at = kOpen;  // stop() has returned
  bool refusals = false;             // the log has refused a write for want of space
  bool at_rest = false;              // at the end nothing was pending
  std::vector<Look> letters;         // all dead letters at the end
  std::optional<Stats> final_stats;  // of the last life, at rest

 private:
  template <class Note>
  std::optional<std::size_t> put(std::deque<Note>& notes,
                                 Note note,
                                 int life,
                                 std::uint64_t Note::*number) {
    if (life != life_) {
      return std::nullopt;
    }
    note.life = life;
    note.*number = ++last_;
    notes.push_back(std::move(note));
    return notes.size() - 1;
  }

  mutable std::mutex mutex_;
  std::uint64_t last_ = 0;
  int life_ = 0;
};

// What it says about one task and its key, a line a note, for people (record_story.cc).
std::string story_of(const Record& record, TaskId id);

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_RECORD_H_
