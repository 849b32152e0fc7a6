// What a record promises as a whole: that nothing is missing at its end, who ran beside whom, in
// which order, and what the counters say.
#include <algorithm>
#include <array>

#include "testing/record_check.h"

namespace countwheel::testing {

std::uint64_t RecordChecker::queued_at(const Attempt& attempt) const {
  const Answer* const answer = attempt.accepted();
  if (answer == nullptr) {
    return kOpen;
  }
  if (!attempt.in_handler) {
    return answer->end;
  }
  // Workers end finished tasks in groups, at the latest when their claim ends.
  for (const Poll& poll : record_.polls) {
    if (poll.life == attempt.life && poll.begin < attempt.start && attempt.start < poll.end) {
      return poll.end;
    }
  }
  return kOpen;
}

bool RecordChecker::end_is_durable(const Attempt& attempt) const {
  const std::uint64_t queued = queued_at(attempt);
  const std::uint64_t crash = record_.crashes.at(static_cast<std::size_t>(attempt.life)).begin;
  return std::any_of(record_.flushes.begin(), record_.flushes.end(), [&](const Flush& flush) {
    return flush.life == attempt.life && flush.begin > queued && flush.end < crash;
  });
}

bool RecordChecker::cancel_unanswered(const Task& task) const {
  return std::any_of(unanswered_by_key_.begin(), unanswered_by_key_.end(), [&](const Call* cancel) {
    return cancel->kind == CallKind::kCancel &&
           std::any_of(task.writes.begin(), task.writes.end(), [&](const Call* write) {
             return write->key == cancel->key;
           });
  });
}

// Everything that may be the end of a task, calls that were never answered included.
bool RecordChecker::may_have_ended(const Task& task) const {
  if (task.letter != nullptr ||
      std::any_of(task.ends.begin(), task.ends.end(), [](const Call* end) {
        return may_have_happened(*end);
      })) {
    return true;
  }
  for (const Call* cancel : task.cancels) {
    if (cancel->end == kOpen || cancel->succeeded()) {
      return true;
    }
  }
  for (const Attempt* attempt : task.attempts) {
    const Answer* const answer = attempt->accepted();
    if (attempt->unheard_since() != kOpen ||
        (answer != nullptr && answer->kind == AnswerKind::kDone)) {
      return true;
    }
  }
  if (cancel_unanswered(task) || group_cancelled(task, kOpen - 1, kOpen)) {
    return true;
  }
  // One that failed and was not to come back. What its handler noted in a crash is lost.
  const bool too_late = std::any_of(task.cancels.begin(), task.cancels.end(), [](const Call* one) {
    return one->code == Code::kTooLate;
  });
  if (task.attempts.empty()) {
    return too_late && !record_.crashes.empty();
  }
  if (too_late) {
    return true;
  }
  // Likewise when its key has a new task. A thread may see a task run before its handler has noted
  // so.
  const Attempt& first = *task.attempts.front();
  std::uint64_t running_from = first.start;
  if (record_.polls.empty() && !task.writes.empty()) {
    running_from = task.writes.front()->begin;
  }
  return std::any_of(record_.calls.begin(), record_.calls.end(), [&](const Call& call) {
    return call.kind == CallKind::kSchedule && !first.key.empty() && call.key == first.key &&
           call.id.value != task.id && call.end > running_from &&
           (call.end == kOpen || call.succeeded());
  });
}

void RecordChecker::check_ends(const Task& task) {
  if (!record_.at_rest) {
    return;
  }
  const bool owed = std::any_of(task.writes.begin(), task.writes.end(), [&](const Call* write) {
    return write->kind != CallKind::kReschedule && binds(*write, last_life_);
  });
  if (owed && !may_have_ended(task)) {
    report("I2", task.id, "was acknowledged and is missing");
  }
  if (task.letter == nullptr) {
    return;
  }
  for (const Attempt* attempt : task.attempts) {
    const Answer* const answer = attempt->accepted();
    if (answer != nullptr && answer->kind == AnswerKind::kDone && attempt->life == last_life_) {
      report("I2", task.id, "is done and a dead letter");
    }
  }
  for (const Call* cancel : task.cancels) {
    if (cancel->code == Code::kCancelled && binds(*cancel, last_life_)) {
      report("I2", task.id, "is cancelled and a dead letter");
    }
  }
}

void RecordChecker::check_letter(const Task& task) {
  if (task.letter == nullptr) {
    return;
  }
  const Look& letter = *task.letter;
  Attempt as_attempt;
  as_attempt.payload = letter.payload;
  as_attempt.life = last_life_;
  as_attempt.start = kOpen - 1;
  const std::vector<const Call*> found = contents(task, as_attempt);
  const auto same = std::find_if(found.begin(), found.end(), [&](const Call* call) {
    return call->key == letter.key && call->payload == letter.payload;
  });
  if (same == found.end()) {
    report("I17", task.id, "is a dead letter with the contents of another task");
    return;
  }
  if (letter.reason == DeadReason::kAttempts && (*same)->kind == CallKind::kSchedule &&
      letter.failures != (*same)->max_attempts) {
    report("I17",
           task.id,
           "is a dead letter after " + std::to_string(letter.failures) + " failures, allowed " +
               std::to_string((*same)->max_attempts));
  }
  if (letter.reason == DeadReason::kLate && !(*same)->may_expire_late) {
    report("I17", task.id, "expired late without a limit");
  }
  if (letter.reason == DeadReason::kNone || letter.last_error.empty()) {
    report("I17", task.id, "is a dead letter without a reason or an error");
  }
  if (!task.attempts.empty() && task.attempts.back()->life == last_life_ &&
      letter.attempts != task.attempts.back()->attempt) {
    report("I17",
           task.id,
           "is a dead letter after " + std::to_string(letter.attempts) + " attempts, seen were " +
               std::to_string(task.attempts.back()->attempt));
  }
}

// A task that was acknowledged and cannot have ended is found.
void RecordChecker::check_looks(const Task& task) {
  for (const Look* look : task.looks) {
    if (look->code != Code::kNotFound || look->end == kOpen) {
      continue;
    }
    const bool there = std::any_of(task.writes.begin(), task.writes.end(), [&](const Call* write) {
      return write->kind != CallKind::kReschedule && write->end < look->begin &&
             binds(*write, look->life);
    });
    bool touched = cancel_unanswered(task) || group_cancelled(task, look->begin, look->end);
    for (const auto* calls : {&task.cancels, &task.ends}) {
      touched |= std::any_of(calls->begin(), calls->end(), [&](const Call* call) {
        return call->begin < look->end && look->begin < in_force_until(*call);
      });
    }
    if (there && !touched && task.attempts.empty()) {
      report("I2", task.id, "was acknowledged and not found");
    }
  }
}

std::int64_t RecordChecker::step_of(const Attempt& attempt) const {
  std::int64_t step = 0;
  for (const Poll& poll : record_.polls) {
    ++step;
    if (poll.life == attempt.life && poll.handed_over >= attempt.sequence) {
      return step;
    }
  }
  return 0;
}

// Attempts of one key do not overlap. One whose lease is over does not count any more.
void RecordChecker::check_keys() {
  std::map<std::pair<int, std::string>, std::vector<const Attempt*>> by_key;
  for (const Attempt& attempt : record_.attempts) {
    if (attempt.key.empty()) {
      continue;
    }
    std::vector<const Attempt*>& open = by_key[{attempt.life, attempt.key}];
    for (const Attempt* other : open) {
      const Answer* const answer = other->accepted();
      const bool unheard = other->leased || other->unheard_since() < attempt.start;
      const bool runs = answer == nullptr ? !unheard : answer->begin > attempt.start;
      if (runs && other->id != attempt.id) {
        report("I10",
               attempt.id.value,
               "started while task " + std::to_string(other->id.value) + " of the same key ran");
      }
    }
    open.push_back(&attempt);
  }
}

// A host's clock stands still between the answer and the record of the failure, so that a retry is
// due exactly after its backoff.
void RecordChecker::check_backoff(const Task& task, std::size_t position, const Due& due) {
  if (due.call != nullptr || position == 0 || record_.polls.empty()) {
    return;
  }
  const Attempt& before = *task.attempts[position - 1];
  const Attempt& attempt = *task.attempts[position];
  const Answer* const answer = before.accepted();
  if (answer == nullptr || before.life != attempt.life) {
    return;
  }
  std::int64_t backoff_ns = due.not_before_ns - answer->at.on(due.clock);
  if (answer->kind != AnswerKind::kRetry) {
    for (const Call* call : contents(task, attempt)) {
      backoff_ns = std::max({backoff_ns, call->backoff_ns, call->backoff_max_ns});
    }
  }
  if (attempt.wall_deadline_ns > answer->at.wall_ns + backoff_ns) {
    report("I18",
           task.id,
           "is tried again " +
               std::to_string(attempt.wall_deadline_ns - answer->at.wall_ns - backoff_ns) +
               " ns later than its backoff");
  }
}

// Equal deadlines start in the order of their latest (re)schedules; within one step of a host all
// deadlines do. Tasks with a key may have waited for another.
void RecordChecker::check_order() {
  if (refusals_) {
    return;
  }
  struct Place {
    std::int64_t wall_ns;
    std::uint64_t lsn;
    std::uint64_t sequence;
    std::uint64_t id;
  };
  std::map<std::array<std::int64_t, 3>, std::vector<Place>> groups;
  for (const auto& [id, task] : tasks_) {
    for (std::size_t i = 0; i < task.attempts.size(); ++i) {
      const Attempt& attempt = *task.attempts[i];
      const std::vector<Due> due = candidates(task, i);
      if (due.size() != 1 || due[0].call == nullptr || due[0].call->end == kOpen ||
          !attempt.key.empty() || attempt.attempt != 1) {
        continue;
      }
      const Place place{
          attempt.wall_deadline_ns, due[0].call->lsn, attempt.sequence, attempt.id.value};
      groups[{attempt.life, static_cast<int>(due[0].clock), attempt.wall_deadline_ns}].push_back(
          place);
      if (const std::int64_t step = step_of(attempt); step != 0) {
        groups[{attempt.life, 2, step}].push_back(place);
      }
    }
  }
  for (auto& [group, places] : groups) {
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
      return std::pair(a.wall_ns, a.lsn) < std::pair(b.wall_ns, b.lsn);
    });
    for (std::size_t i = 1; i < places.size(); ++i) {
      if (places[i].sequence < places[i - 1].sequence) {
        report("I15", places[i].id, "started before task " + std::to_string(places[i - 1].id));
      }
    }
  }
}

// A host that polls starts whatever was due, beyond its slack, in an earlier poll.
void RecordChecker::check_late(const Task& task, const Attempt& attempt, const Due& due) {
  if (!attempt.key.empty() || refusals_ || due.call == nullptr) {
    return;
  }
  std::int64_t slack_ns = 0;
  for (const Call* write : task.writes) {
    slack_ns = std::max(slack_ns, write->slack_ns);
  }
  for (const Poll& poll : record_.polls) {
    const bool paused =
        poll.all_paused ||
        std::find(poll.paused.begin(), poll.paused.end(), attempt.type) != poll.paused.end();
    if (poll.life == attempt.life && poll.end < attempt.start && due.call->end < poll.begin &&
        !paused && poll.at.on(due.clock) >= due.not_before_ns + slack_ns) {
      report("I6", attempt.id.value, "was due in an earlier step");
      return;
    }
  }
}

void RecordChecker::check_stop() {
  for (const Attempt& attempt : record_.attempts) {
    if (attempt.start > record_.stopped_at) {
      report("I20", attempt.id.value, "started after stop()");
    }
  }
  for (const std::string& who : record_.hangs) {
    broken_.push_back("I21 " + who);
  }
}

void RecordChecker::check_stats() {
  constexpr std::uint64_t kBelowZero = std::uint64_t{1} << 40;
  const auto conserved = [this](const Stats& stats) {
    const std::array<std::uint64_t, 8> terms = {stats.done,
                                                stats.cancelled,
                                                stats.dead,
                                                stats.replaced,
                                                stats.pending,
                                                stats.running,
                                                stats.backlog,
                                                stats.pending_bytes};
    for (const std::uint64_t term : terms) {
      if (term >= kBelowZero) {
        broken_.push_back("I30 a counter is negative");
      }
    }
    if (stats.scheduled != terms[0] + terms[1] + terms[2] + terms[3] + terms[4]) {
      broken_.push_back("I30 scheduled is not done + cancelled + dead + replaced + pending");
    }
  };
  for (const Counted& counted : record_.counts) {
    conserved(counted.stats);
  }
  if (!record_.final_stats) {
    return;
  }
  const Stats& stats = *record_.final_stats;
  conserved(stats);
  std::uint64_t done = 0;
  for (const Attempt& attempt : record_.attempts) {
    const Answer* const answer = attempt.accepted();
    done += attempt.life == last_life_ && answer != nullptr && answer->kind == AnswerKind::kDone;
  }
  if (stats.done != done) {
    broken_.push_back("I30 done is " + std::to_string(stats.done) + ", accepted were " +
                      std::to_string(done));
  }
  if (stats.dead != record_.letters.size()) {
    broken_.push_back("I30 dead is " + std::to_string(stats.dead) + ", dead letters are " +
                      std::to_string(record_.letters.size()));
  }
  if (record_.at_rest && (stats.pending != 0 || stats.running != 0 || stats.pending_bytes != 0)) {
    broken_.push_back("I30 something is pending at rest");
  }
}

}  // namespace countwheel::testing
