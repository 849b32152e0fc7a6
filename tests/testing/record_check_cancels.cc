// What is cancelled does not start, and what was too late to be cancelled does not come back.
#include <algorithm>

#include "testing/record_check.h"

namespace countwheel::testing {

void RecordChecker::check_cancels(const Task& task) {
  check_cancelled_with_group(task);
  for (const Call* cancel : task.cancels) {
    if (cancel->code == Code::kCancelled && holds(*cancel)) {
      check_cancelled(task, *cancel);
    } else if (cancel->code == Code::kTooLate && cancel->end != kOpen) {
      check_requested(task, *cancel);
    }
  }
}

// No attempt runs when cancel() says `cancelled`, and none starts later.
void RecordChecker::check_cancelled(const Task& task, const Call& cancel) {
  for (const Attempt* attempt : task.attempts) {
    if (attempt->start > cancel.end) {
      if (binds(cancel, attempt->life) && !may_be_noted_late(*attempt)) {
        report("I1", task.id, "was cancelled and started");
      }
      continue;
    }
    const Answer* const answer = attempt->accepted();
    const bool ended = answer != nullptr && answer->begin < cancel.end;
    const bool unknown = attempt->leased || attempt->unheard_since() < cancel.end;
    if (!ended && !unknown && attempt->life == cancel.life) {
      report("I1", task.id, "was cancelled while it ran");
    }
    if (ended && answer->kind == AnswerKind::kDone && attempt->life == cancel.life) {
      report("I1", task.id, "was cancelled after it was done");
    }
  }
}

// A task whose cancel came too late is not tried again.
void RecordChecker::check_requested(const Task& task, const Call& cancel) {
  const Attempt* running = nullptr;
  for (const Attempt* attempt : task.attempts) {
    if (attempt->start < cancel.begin && attempt->life == cancel.life) {
      running = attempt;
    }
  }
  if (running == nullptr || running->leased || running->unheard_since() < cancel.end) {
    return;
  }
  const Answer* const answer = running->accepted();
  const bool settled = !refusals_ || cancel.settled == Settled::kHeld;
  if ((answer != nullptr && answer->begin < cancel.end) || !settled) {
    return;
  }
  for (const Attempt* attempt : task.attempts) {
    if (attempt->start > cancel.end && attempt->life == cancel.life) {
      report("I1", task.id, "was tried again although a cancel came while it ran");
    }
  }
}

// An upsert whose answer a crash has swallowed leaves the task with its id.
bool RecordChecker::may_be_upserted(const Task& task,
                                    std::uint64_t before,
                                    std::optional<std::uint64_t> into_group) const {
  return std::any_of(unanswered_.begin(), unanswered_.end(), [&](const auto& unanswered) {
    const Call& call = *unanswered.second;
    return call.may_replace && !call.key.empty() && call.begin < before &&
           call.group == into_group.value_or(call.group) &&
           std::any_of(task.writes.begin(), task.writes.end(), [&](const Call* write) {
             return write->key == call.key && write->life <= call.life;
           });
  });
}

bool RecordChecker::may_be_member(const Task& task, const Call& cancel, std::uint64_t from) const {
  const auto enters = [&](const Call* write) {
    return write->group == cancel.group && write->begin < cancel.end &&
           from < in_force_until(*write);
  };
  return may_be_upserted(task, cancel.end, cancel.group) ||
         std::any_of(task.writes.begin(), task.writes.end(), enters) ||
         std::any_of(task.refused.begin(), task.refused.end(), enters);
}

bool RecordChecker::group_cancelled(const Task& task, std::uint64_t from, std::uint64_t to) const {
  return std::any_of(group_cancels_.begin(), group_cancels_.end(), [&](const Call* cancel) {
    return cancel->begin < to && from < in_force_until(*cancel) &&
           may_be_member(task, *cancel, from);
  });
}

// No member starts after its group was cancelled, one that ran at the time not again.
void RecordChecker::check_cancelled_with_group(const Task& task) {
  for (const Call* cancel : group_cancels_) {
    const bool member = cancel->end != kOpen && !may_be_upserted(task, cancel->end) &&
                        std::any_of(task.writes.begin(),
                                    task.writes.end(),
                                    [](const Call* write) { return has_content(*write); }) &&
                        std::all_of(task.writes.begin(), task.writes.end(), [&](const Call* write) {
                          return !has_content(*write) ||
                                 (write->group == cancel->group && write->end < cancel->begin);
                        });
    const auto later =
        std::count_if(task.attempts.begin(), task.attempts.end(), [&](const Attempt* attempt) {
          return attempt->start > cancel->end && binds(*cancel, attempt->life);
        });
    // A thread may note the start of one that ran already.
    if (member && later > (record_.polls.empty() ? 1 : 0)) {
      report("I1", task.id, "was cancelled with its group and started");
    }
  }
}

}  // namespace countwheel::testing
