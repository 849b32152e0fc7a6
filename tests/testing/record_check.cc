#include "testing/record_check.h"

#include <algorithm>
#include <limits>

namespace countwheel::testing {
namespace {

bool is_write(const Call& call) {
  return call.kind == CallKind::kSchedule || call.kind == CallKind::kReschedule ||
         call.kind == CallKind::kRequeue;
}

}  // namespace

std::vector<std::string> check(const Record& record) {
  return RecordChecker(record).run();
}

RecordChecker::RecordChecker(const Record& record) : record_(record) {
  refusals_ = record.refusals;
  last_life_ = static_cast<int>(record.crashes.size());
  for (const Call& call : record.calls) {
    const bool refused = call.settled == Settled::kRefused;
    if (call.end == kOpen && has_content(call)) {
      unanswered_[call.payload] = &call;
    }
    if (call.kind == CallKind::kCancelGroup) {
      if (may_have_happened(call) || refused) {
        group_cancels_.push_back(&call);
      }
      continue;
    }
    if (call.end == kOpen && !call.id && !has_content(call)) {
      unanswered_by_key_.push_back(&call);
    }
    if (call.id && may_have_happened(call) && is_write(call)) {
      tasks_[call.id.value].writes.push_back(&call);
    }
    if (call.id && refused && is_write(call)) {
      tasks_[call.id.value].refused.push_back(&call);
    }
    if (call.id && call.kind == CallKind::kCancel) {
      tasks_[call.id.value].cancels.push_back(&call);
    }
    if (call.kind == CallKind::kPurge && (may_have_happened(call) || refused)) {
      tasks_[call.id.value].ends.push_back(&call);
    }
    if (call.kind == CallKind::kRequeue && (may_have_happened(call) || refused)) {
      tasks_[call.letter.value].ends.push_back(&call);
    }
  }
  for (const Attempt& attempt : record.attempts) {
    tasks_[attempt.id.value].attempts.push_back(&attempt);
    if (attempt.leased) {
      leased_types_.insert(attempt.type);
    }
  }
  for (const Look& look : record.looks) {
    tasks_[look.id.value].looks.push_back(&look);
  }
  for (const Look& letter : record.letters) {
    tasks_[letter.id.value].letter = &letter;
  }
  for (auto& [id, task] : tasks_) {
    task.id = id;
    // An attempt whose lease was over may come to note its start after the next one has.
    if (std::any_of(task.attempts.begin(), task.attempts.end(), [](const Attempt* attempt) {
          return attempt->leased;
        })) {
      std::stable_sort(
          task.attempts.begin(), task.attempts.end(), [](const Attempt* a, const Attempt* b) {
            return std::pair(a->epoch, a->attempt) < std::pair(b->epoch, b->attempt);
          });
    }
  }
}

std::vector<std::string> RecordChecker::run() {
  for (const auto& [id, task] : tasks_) {
    check_task(task);
  }
  check_keys();
  check_dedup();
  check_order();
  check_stop();
  check_stats();
  return std::move(broken_);
}

void RecordChecker::report(const char* invariant, std::uint64_t id, const std::string& what) {
  broken_.push_back(std::string(invariant) + " task " + std::to_string(id) + ": " + what);
}

// A thread may be held up between the start of an attempt and the note of it: if the lease of the
// attempt was over by then, anything may have happened to the task.
bool RecordChecker::may_be_noted_late(const Attempt& attempt) const {
  return attempt.leased && attempt.accepted() == nullptr && record_.polls.empty();
}

// If the process ended before such a thread came to it, there is no note at all.
bool RecordChecker::may_lack_notes(const Task& task, const Attempt& attempt) const {
  const auto leased = [&](const Call* write) {
    return has_content(*write) && write->begin < attempt.start &&
           leased_types_.contains(write->type);
  };
  return record_.polls.empty() && static_cast<std::size_t>(attempt.life) < record_.crashes.size() &&
         std::any_of(task.writes.begin(), task.writes.end(), leased);
}

// It took place and was not taken back.
bool RecordChecker::holds(const Call& call) const {
  return call.succeeded() &&
         (!refusals_ || call.settled == Settled::kHeld || call.durability == Durability::kMemory);
}

// It took place, and the crash that ended its life cannot have taken it back.
bool RecordChecker::durable(const Call& call) const {
  if (static_cast<std::size_t>(call.life) >= record_.crashes.size()) {
    return holds(call);
  }
  const Crash& crash = record_.crashes[static_cast<std::size_t>(call.life)];
  return holds(call) && call.settled == Settled::kHeld && call.settled_at < crash.begin &&
         (call.durability == Durability::kDisk ||
          (call.durability == Durability::kOs && !crash.power));
}

bool RecordChecker::binds(const Call& call, int life) const {
  return call.life == life ? holds(call) : call.life < life && durable(call);
}

bool RecordChecker::superseded(const Task& task,
                               const Call& call,
                               const Attempt& by,
                               bool content_only) const {
  return std::any_of(task.writes.begin(), task.writes.end(), [&](const Call* other) {
    return (has_content(*other) || !content_only) && other->begin > call.end &&
           other->end < by.start && binds(*other, by.life);
  });
}

// The schedules whose key and payload an attempt may carry.
std::vector<const Call*> RecordChecker::contents(const Task& task, const Attempt& attempt) const {
  std::vector<const Call*> found;
  for (const Call* write : task.writes) {
    if (has_content(*write) && write->begin < attempt.start &&
        !superseded(task, *write, attempt, true)) {
      found.push_back(write);
    }
  }
  if (const auto call = unanswered_.find(attempt.payload); call != unanswered_.end()) {
    found.push_back(call->second);
  }
  return found;
}

std::vector<RecordChecker::Due> RecordChecker::candidates(const Task& task,
                                                          std::size_t position) const {
  const Attempt& attempt = *task.attempts[position];
  const Attempt* const before = position > 0 ? task.attempts[position - 1] : nullptr;
  const bool same_life = before != nullptr && before->life == attempt.life;
  std::vector<Due> found;
  const auto add = [&](const Call& write) {
    found.push_back({&write, write.clock, write.deadline_ns});
  };
  for (const Call* write : task.writes) {
    const bool used = same_life && write->end < before->start;
    if (write->begin < attempt.start && !used && !superseded(task, *write, attempt, false)) {
      add(*write);
    }
  }
  if (const auto call = unanswered_.find(attempt.payload); call != unanswered_.end()) {
    add(*call->second);
  }
  for (const Call* call : unanswered_by_key_) {
    if (call->kind == CallKind::kReschedule && call->key == attempt.key) {
      add(*call);
    }
  }
  if (before == nullptr) {
    return found;
  }
  const Answer* const answer = before->accepted();
  if (answer == nullptr && !same_life && !before->leased) {
    return found;  // delivered again, as it was due before
  }
  if (answer == nullptr) {  // its lease was over, nobody knows when
    found.push_back({nullptr, ClockKind::kBoot, std::numeric_limits<std::int64_t>::min()});
    return found;
  }
  std::int64_t delay_ns = answer->delay_ns;
  if (answer->kind != AnswerKind::kRetry) {
    delay_ns = std::numeric_limits<std::int64_t>::max();
    for (const Call* content : contents(task, *before)) {
      delay_ns = std::min(delay_ns, content->backoff_ns);
    }
  }
  const bool moved = std::any_of(task.writes.begin(), task.writes.end(), [&](const Call* write) {
    return !before->in_handler && write->begin > answer->end && write->end < attempt.start &&
           binds(*write, attempt.life);
  });
  if (!moved) {
    found.push_back({nullptr, ClockKind::kBoot, answer->at.boot_ns + delay_ns});
  }
  return found;
}

void RecordChecker::check_task(const Task& task) {
  for (std::size_t i = 0; i < task.attempts.size(); ++i) {
    check_attempt(task, i);
  }
  check_cancels(task);
  check_answers(task);
  check_count(task);
  check_ends(task);
  check_letter(task);
  check_looks(task);
}

void RecordChecker::check_attempt(const Task& task, std::size_t position) {
  const Attempt& attempt = *task.attempts[position];
  if (position > 0) {
    check_restart(task, *task.attempts[position - 1], attempt);
  } else if (attempt.life == 0 && attempt.attempt != 1 && !may_lack_notes(task, attempt)) {
    report("I7", task.id, "its first attempt is " + std::to_string(attempt.attempt));
  }
  if (may_be_noted_late(attempt)) {
    return;
  }
  check_content(task, attempt);
  const std::vector<Due> due = candidates(task, position);
  const auto early = [&](const Due& one) { return attempt.at.on(one.clock) < one.not_before_ns; };
  if (!due.empty() && std::all_of(due.begin(), due.end(), early)) {
    const bool retried = due.size() == 1 && due[0].call == nullptr;
    const bool moved = due.size() == 1 && !retried && due[0].call->kind == CallKind::kReschedule;
    report(retried ? "I18" : (moved ? "I11" : "I5"),
           task.id,
           "attempt " + std::to_string(attempt.attempt) + " started " +
               std::to_string(due[0].not_before_ns - attempt.at.on(due[0].clock)) + " ns early");
  }
  if (due.size() != 1) {
    return;
  }
  check_late(task, attempt, due[0]);
  check_backoff(task, position, due[0]);
  const Call* const call = due[0].call;
  if (call != nullptr && call->life == attempt.life && call->end < attempt.start &&
      call->durability != Durability::kMemory && binds(*call, attempt.life) &&
      attempt.durable_lsn[static_cast<std::size_t>(call->durability)] < call->lsn) {
    report("I3", task.id, "started before its LSN " + std::to_string(call->lsn) + " was durable");
  }
}

// Attempts of one task, one after the other.
void RecordChecker::check_restart(const Task& task, const Attempt& before, const Attempt& attempt) {
  const Answer* const answer = before.accepted();
  const bool done = answer != nullptr && answer->kind == AnswerKind::kDone;
  if (before.life == attempt.life) {
    if (done) {
      report("I8", task.id, "started again after it was done");
    } else if (answer == nullptr && !before.leased && before.unheard_since() > attempt.start) {
      report("I10", task.id, "started again while it ran");
    } else if (answer != nullptr && answer->begin > attempt.start) {
      report("I9", task.id, "an answer was accepted after the next attempt had started");
    }
  } else if (done && end_is_durable(before)) {
    report("I8", task.id, "started again after a durable done");
  }
  const std::pair token_before(before.epoch, before.attempt);
  const std::pair token(attempt.epoch, attempt.attempt);
  bool power = false;
  bool marked = true;  // its attempt cell is in the image for certain
  for (int life = before.life; life < attempt.life; ++life) {
    const Crash& crash = record_.crashes[static_cast<std::size_t>(life)];
    power |= crash.power;
    marked &= before.start < crash.begin;
  }
  if (token <= token_before || (!power && marked && attempt.attempt <= before.attempt)) {
    report(
        "I7",
        task.id,
        "attempt " + std::to_string(attempt.attempt) + " after " + std::to_string(before.attempt));
  }
}

void RecordChecker::check_content(const Task& task, const Attempt& attempt) {
  const std::vector<const Call*> found = contents(task, attempt);
  const bool equal = std::any_of(found.begin(), found.end(), [&](const Call* call) {
    return call->key == attempt.key && call->payload == attempt.payload &&
           call->type == attempt.type;
  });
  if (!equal) {
    report("I4",
           task.id,
           found.empty() ? "started, but was never scheduled"
                         : "started with the contents of another task");
  }
}

void RecordChecker::check_answers(const Task& task) {
  for (const Attempt* attempt : task.attempts) {
    const auto accepted = std::count_if(attempt->answers.begin(),
                                        attempt->answers.end(),
                                        [](const Answer& one) { return one.code == Code::kOk; });
    if (accepted > 1) {
      report("I9", task.id, "two answers of one attempt were accepted");
    }
  }
}

void RecordChecker::check_count(const Task& task) {
  std::uint64_t allowed = 0;
  for (const Call* write : task.writes) {
    allowed += has_content(*write) ? write->max_attempts : 0;
  }
  // A crash while there is no space takes failures with it that could not be written.
  const std::size_t crashes = record_.crashes.size();
  allowed *= refusals_ ? 1 + crashes : 1;
  // What started while the image of a crash was taken may not have happened.
  const auto starts =
      std::count_if(task.attempts.begin(), task.attempts.end(), [&](const Attempt* attempt) {
        const auto life = static_cast<std::size_t>(attempt->life);
        return life >= crashes || attempt->start < record_.crashes[life].begin;
      });
  if (allowed != 0 && static_cast<std::uint64_t>(starts) > allowed + crashes) {
    report("I7",
           task.id,
           "started " + std::to_string(starts) + " times, allowed " + std::to_string(allowed) +
               " and one for each crash");
  }
}

}  // namespace countwheel::testing
