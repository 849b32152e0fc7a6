// What a deduplication window promises (I19): until it is over its key is refused, and nothing else
// is.
#include <algorithm>

#include "testing/record_check.h"

namespace countwheel::testing {

// Whether its end leaves its key with it: nobody was scheduled for the key while it ran.
bool RecordChecker::keeps_key(const Task& task, const Attempt& last, std::uint64_t queued) const {
  // A thread may see it run before its handler has noted so.
  const std::uint64_t from = record_.polls.empty() ? task.writes.front()->begin : last.start;
  return std::none_of(record_.calls.begin(), record_.calls.end(), [&](const Call& call) {
    return call.kind == CallKind::kSchedule && call.key == last.key && call.id.value != task.id &&
           call.code == Code::kOk && call.begin < queued && call.end > from;
  });
}

void RecordChecker::check_accepted(const Task& task, const Call& call) {
  const Attempt& last = *task.attempts.back();
  const Answer* const answer = last.accepted();
  const std::uint64_t queued = queued_at(last);
  if (answer == nullptr || answer->kind != AnswerKind::kDone || queued >= call.begin ||
      (last.life != call.life && !end_is_durable(last)) || !keeps_key(task, last, queued)) {
    return;
  }
  std::int64_t window_ns = kNever;
  for (const Call* write : contents(task, last)) {
    window_ns = std::min(window_ns, write->dedup_window_ns);
  }
  if (window_ns != kNever && call.after.wall_ns < answer->at.wall_ns + window_ns) {
    report("I19",
           task.id,
           "was done " + std::to_string(call.after.wall_ns - answer->at.wall_ns) +
               " ns before task " + std::to_string(call.id.value) + " was given its key");
  }
}

void RecordChecker::check_dedup() {
  for (const Call& call : record_.calls) {
    if (call.kind != CallKind::kSchedule || call.key.empty() || call.end == kOpen) {
      continue;
    }
    for (const auto& [id, task] : tasks_) {
      const bool same_key = id != call.id.value && !task.attempts.empty() &&
                            std::any_of(task.writes.begin(),
                                        task.writes.end(),
                                        [&](const Call* write) { return write->key == call.key; });
      if (same_key && call.code == Code::kOk && !call.kept && !call.replaced) {
        check_accepted(task, call);
      }
    }
    // Its task may also have been scheduled, and done, while this call was on its way.
    const bool may_be_refused =
        std::any_of(record_.calls.begin(), record_.calls.end(), [&](const Call& other) {
          return other.kind == CallKind::kSchedule && other.key == call.key &&
                 other.dedup_window_ns != 0 && other.begin < call.end && may_have_happened(other);
        });
    if (call.code == Code::kDuplicate && !may_be_refused) {
      report("I19", call.id.value, "was refused as a duplicate of nothing");
    }
  }
}

}  // namespace countwheel::testing
