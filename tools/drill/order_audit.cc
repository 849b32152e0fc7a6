#include "order_audit.h"

#include <algorithm>
#include <utility>

#include <countwheel/status.h>

namespace countwheel::drill {

namespace {

bool is(std::uint8_t code, Code expected) {
  return static_cast<Code>(code) == expected;
}

}  // namespace

OrderAudit::OrderAudit(Durability durability,
                       std::uint16_t kill_count,
                       std::vector<std::int64_t> serving_ns)
    : durability_(durability), kill_count_(kill_count), serving_ns_(std::move(serving_ns)) {}

OrderVerdict OrderAudit::judge(const OrderTruth& truth, std::span<const Stamp> stamps) {
  verdict_ = {};
  schedules_.clear();
  cancels_.clear();
  starts_.clear();
  done_lives_.clear();
  for (const Stamp& stamp : stamps) {
    read(stamp);
  }
  verdict_.scheduled = !schedules_.empty();
  verdict_.start_count = starts_.size();
  if (!verdict_.scheduled) {
    if (!stamps.empty()) {
      find(&verdict_.inconsistent, "stamped, but never scheduled");
    }
    return verdict_;
  }
  judge_answers();
  judge_starts(truth);
  judge_count();
  judge_cancels();
  judge_end(truth);
  return verdict_;
}

void OrderAudit::find(bool* kind, std::string_view problem) {
  *kind = true;
  if (verdict_.problem.empty()) {
    verdict_.problem = problem;
  }
}

void OrderAudit::begin_call(std::vector<Call>* calls, const Stamp& stamp) {
  calls->push_back({.begin_ns = stamp.boot_ns, .life = stamp.life});
}

void OrderAudit::end_call(std::vector<Call>* calls, const Stamp& stamp) {
  if (calls->empty() || calls->back().answered || calls->back().life != stamp.life) {
    find(&verdict_.inconsistent, "a call returned that had not begun");
    return;
  }
  calls->back().answered = true;
  calls->back().code = stamp.code;
}

void OrderAudit::read(const Stamp& stamp) {
  switch (stamp.kind) {
    case StampKind::kScheduleBegin:
      begin_call(&schedules_, stamp);
      break;
    case StampKind::kScheduleReturn:
      end_call(&schedules_, stamp);
      break;
    case StampKind::kCancelBegin:
      begin_call(&cancels_, stamp);
      break;
    case StampKind::kCancelReturn:
      end_call(&cancels_, stamp);
      break;
    case StampKind::kStart:
      starts_.push_back({.stamp = stamp});
      break;
    case StampKind::kEnd: {
      const auto running = std::find_if(starts_.rbegin(), starts_.rend(), [&](const Start& start) {
        return !start.ended && start.stamp.life == stamp.life;
      });
      if (running == starts_.rend()) {
        find(&verdict_.inconsistent, "a handler ended that had not started");
      } else {
        running->ended = true;
      }
      break;
    }
    case StampKind::kDoneDurable:
      done_lives_.push_back(stamp.life);
      break;
    case StampKind::kNone:
    case StampKind::kServing:
    case StampKind::kKill:
      break;
  }
}

void OrderAudit::judge_answers() {
  bool answered = false;
  for (const Call& call : schedules_) {
    answered = answered || call.answered;
    if (call.answered && !is(call.code, Code::kOk) && !is(call.code, Code::kExists)) {
      find(&verdict_.inconsistent,
           "its schedule was answered " + std::string(to_string(static_cast<Code>(call.code))));
    }
  }
  for (const Call& call : cancels_) {
    if (call.answered && !is(call.code, Code::kCancelled) && !is(call.code, Code::kTooLate) &&
        !is(call.code, Code::kNotFound)) {
      find(&verdict_.inconsistent,
           "its cancel was answered " + std::string(to_string(static_cast<Code>(call.code))));
    }
  }
  verdict_.unknown = !answered && starts_.empty();
}

std::int64_t OrderAudit::effective_begin_ns(std::int64_t start_ns) const {
  // `exists` says that an earlier call stands, `ok` that none did. A call without an answer may
  // have been either; the earlier begin is then the one that accuses nobody wrongly.
  std::int64_t begin_ns = schedules_.front().begin_ns;
  for (const Call& call : schedules_) {
    if (call.begin_ns < start_ns && call.answered && is(call.code, Code::kOk)) {
      begin_ns = call.begin_ns;
    }
  }
  return begin_ns;
}

void OrderAudit::judge_starts(const OrderTruth& truth) {
  std::uint64_t attempt = 0;
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    const Stamp& start = starts_[i].stamp;
    const std::int64_t begin_ns = effective_begin_ns(start.boot_ns);
    const std::int64_t lateness_ns = truth.relative ? start.boot_ns - (begin_ns + truth.deadline_ns)
                                                    : start.wall_ns - truth.deadline_ns;
    if (lateness_ns < 0) {
      find(&verdict_.early, "started " + std::to_string(-lateness_ns) + " ns before its deadline");
    }
    if (i == 0) {
      const std::int64_t due_ns = start.boot_ns - lateness_ns;
      const std::int64_t serving_ns = start.life < serving_ns_.size() ? serving_ns_[start.life] : 0;
      verdict_.lateness_ns = lateness_ns;
      verdict_.overdue = due_ns < serving_ns || due_ns < begin_ns;
    }
    if (start.code != 0) {
      find(&verdict_.inconsistent, "its handler was given another payload than was scheduled");
    }
    // Below kOs a crash may take the task with its count, and the gateway schedules it anew.
    if (durability_ >= Durability::kOs && start.detail <= attempt) {
      find(&verdict_.inconsistent,
           "attempt " + std::to_string(start.detail) + " came after " + std::to_string(attempt));
    }
    attempt = start.detail;
  }
}

void OrderAudit::judge_count() {
  std::uint64_t allowed = 1;
  for (std::uint16_t kill = 0; kill < kill_count_; ++kill) {
    const bool started = std::any_of(starts_.begin(), starts_.end(), [kill](const Start& start) {
      return start.stamp.life <= kill;
    });
    const bool done = std::any_of(
        done_lives_.begin(), done_lives_.end(), [kill](auto life) { return life <= kill; });
    allowed += started && !done ? 1 : 0;
  }
  if (starts_.size() > allowed) {
    find(&verdict_.duplicated,
         "started " + std::to_string(starts_.size()) + " times, " + std::to_string(allowed) +
             " allowed");
  }
}

void OrderAudit::judge_cancels() {
  for (const Call& cancel : cancels_) {
    if (!cancel.answered || !is(cancel.code, Code::kCancelled)) {
      continue;
    }
    for (const Start& start : starts_) {
      if (start.stamp.boot_ns > cancel.begin_ns) {
        find(&verdict_.revived, "started after a cancel that was answered cancelled");
      } else if (start.stamp.life == cancel.life) {
        find(&verdict_.inconsistent, "cancelled after it had started, without a kill in between");
      }
    }
  }
}

// Nothing is owed any more.
bool OrderAudit::settled() const {
  if (!starts_.empty() && starts_.back().ended) {
    return true;
  }
  bool asked_before = false;  // a cancel that was not answered may have worked
  for (const Call& cancel : cancels_) {
    if (!cancel.answered) {
      asked_before = true;
      continue;
    }
    if (is(cancel.code, Code::kCancelled) || (is(cancel.code, Code::kNotFound) && asked_before)) {
      return true;
    }
    // It ran when it was cancelled: no redelivery is owed after a kill. Its start may have been
    // on the way to the ring.
    if (is(cancel.code, Code::kTooLate) && killed_in(cancel.life)) {
      return true;
    }
  }
  return false;
}

void OrderAudit::judge_end(const OrderTruth& truth) {
  const bool answered = std::any_of(schedules_.begin(), schedules_.end(), [](const Call& call) {
    return call.answered && (is(call.code, Code::kOk) || is(call.code, Code::kExists));
  });
  // What has started was durable before, whether or not its caller lived to hear so.
  const bool owed = durability_ >= Durability::kOs && (answered || !starts_.empty());
  if (owed && !settled()) {
    find(&verdict_.lost,
         starts_.empty() ? "acknowledged, never started and never cancelled"
                         : "started, did not end and was not delivered again");
  }
  if (truth.state == OrderState::kExpired && starts_.empty()) {
    find(&verdict_.inconsistent, "expired in the book, but no handler started");
  }
  if (truth.state == OrderState::kAbsent) {
    find(&verdict_.inconsistent, "scheduled, but never arrived in the book");
  }
  if (truth.state == OrderState::kOpen && !verdict_.lost && !verdict_.unknown) {
    find(&verdict_.inconsistent, "still open in the book when all was over");
  }
}

}  // namespace countwheel::drill
