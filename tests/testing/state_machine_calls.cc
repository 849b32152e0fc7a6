// What the callers of a state machine do. Each kind of call is an entry of calls().
#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "testing/state_machine.h"

namespace countwheel::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::int64_t kMs = 1'000'000;

}  // namespace

const std::vector<StateMachine::CallEntry>& StateMachine::calls() {
  static const std::vector<CallEntry> entries = {
      {"schedule", 34, &StateMachine::schedule},
      {"cancel", 8, &StateMachine::cancel},
      {"cancel by key", 4, &StateMachine::cancel_by_key},
      {"reschedule", 7, &StateMachine::reschedule},
      {"reschedule by key", 3, &StateMachine::reschedule_by_key},
      {"reschedule_if", 5, &StateMachine::reschedule_if},
      {"find", 4, &StateMachine::find},
      {"requeue", 3, &StateMachine::requeue},
      {"purge", 1, &StateMachine::purge},
      {"cancel_group", 1, &StateMachine::cancel_group},
      {"pause", 1, &StateMachine::pause},
      {"resume", 3, &StateMachine::resume},
      {"wait_durable", 5, &StateMachine::settle},
      {"answer a kept delivery", 8, &StateMachine::answer_kept},
      {"extend its lease", 3, &StateMachine::extend_kept},
      {"let time pass", 14, &StateMachine::advance},
      {"flush", 1, &StateMachine::flush},
      {"stats", 2, &StateMachine::count},
      {"poll", 14, &StateMachine::poll_if_host},
  };
  return entries;
}

void StateMachine::schedule(Caller& caller) {
  const std::string key = caller.one_in(2) ? some_key(caller) : "";
  schedule_with(*life_, caller, key, static_cast<KeyPolicy>(caller.below(3)));
}

void StateMachine::cancel(Caller& caller) {
  if (const TaskId id = some_id(*life_, caller)) {
    cancel_noted(*life_, caller, id, {});
  }
}

void StateMachine::cancel_by_key(Caller& caller) {
  cancel_noted(*life_, caller, {}, some_key(caller));
}

void StateMachine::reschedule(Caller& caller) {
  if (const TaskId id = some_id(*life_, caller)) {
    move_noted(*life_, caller, id, {}, std::nullopt);
  }
}

void StateMachine::reschedule_by_key(Caller& caller) {
  move_noted(*life_, caller, {}, some_key(caller), std::nullopt);
}

void StateMachine::reschedule_if(Caller& caller) {
  if (const TaskId id = some_id(*life_, caller)) {
    if (const std::optional<TaskInfo> info = look_at(*life_, id)) {
      const nanoseconds off(caller.one_in(3) ? 1 : 0);
      move_noted(*life_, caller, id, {}, info->deadline + off);
    }
  }
}

void StateMachine::find(Caller& caller) {
  if (const TaskId id = some_id(*life_, caller)) {
    (void)look_at(*life_, id);
  }
}

void StateMachine::requeue(Caller& caller) {
  const std::optional<TaskInfo> letter = some_letter(*life_, caller);
  if (!letter) {
    return;
  }
  Call call;
  call.kind = CallKind::kRequeue;
  call.letter = letter->id;
  call.type = letter->type;
  call.key = letter->key;
  call.payload = letter->payload;
  call.group = letter->group;
  call.max_attempts = 3;
  call.backoff_ns = 2 * kMs;
  call.backoff_max_ns = 5 * kMs;
  call.slack_ns = 4 * kMs;  // or less
  call.may_expire_late = true;
  const Deadline deadline = random_deadline(caller, &call);
  const auto index = record_.begin(std::move(call), life_->number);
  const Result<Submitted> submitted = life_->engine->submit_requeue(letter->id, deadline);
  record_.end(&Record::calls, index, [&](Call& noted) {
    noted.code = submitted.code();
    noted.id = submitted.ok() ? submitted->id : TaskId{};
    noted.lsn = submitted.ok() ? submitted->lsn.value : 0;
  });
  if (submitted.ok()) {
    const std::lock_guard lock(life_->mutex);
    life_->ids.push_back(submitted->id);
    settle_later(caller, index);
  }
}

void StateMachine::purge(Caller& caller) {
  const std::optional<TaskInfo> letter = some_letter(*life_, caller);
  if (!letter) {
    return;
  }
  Call call;
  call.kind = CallKind::kPurge;
  call.id = letter->id;
  const auto index = record_.begin(std::move(call), life_->number);
  note_change(caller, index, life_->engine->submit_purge(letter->id), false);
}

void StateMachine::cancel_group(Caller& caller) {
  Call call;
  call.kind = CallKind::kCancelGroup;
  call.group = 1 + caller.below(3);
  const std::uint64_t group = call.group;
  const auto index = record_.begin(std::move(call), life_->number);
  const GroupChange change = life_->engine->submit_cancel_group(group);
  record_.end(&Record::calls, index, [&](Call& noted) {
    noted.code = change.status.code();
    noted.lsn = change.lsn.value;
  });
  if (change.status.ok()) {
    settle_later(caller, index);
  }
}

void StateMachine::pause(Caller& caller) {
  if (caller.one_in(3)) {
    if (life_->engine->pause().ok() && !plan_.threads) {
      all_paused_ = true;
    }
    return;
  }
  const char* type = kTypes[caller.below(std::size(kTypes))];
  if (life_->engine->pause(type).ok() && !plan_.threads) {
    paused_.insert(type);
  }
}

void StateMachine::resume(Caller& caller) {
  if (life_->engine->resume().ok() && !plan_.threads) {
    all_paused_ = false;
  }
  const char* type = kTypes[caller.below(std::size(kTypes))];
  if (life_->engine->resume(type).ok() && !plan_.threads) {
    paused_.erase(type);
  }
}

void StateMachine::settle(Caller& caller) {
  for (const std::size_t index : caller.unsettled) {
    const auto [lsn, durability] = record_.wanted(index);
    const Code code = life_->engine->wait_durable(lsn, durability).code();
    if (code == Code::kOk || code == Code::kNoSpace) {
      record_.settle(index, code == Code::kOk ? Settled::kHeld : Settled::kRefused);
    }
  }
  caller.unsettled.clear();
}

void StateMachine::answer_kept(Caller& caller) {
  std::optional<Kept> kept;
  {
    const std::lock_guard lock(life_->mutex);
    if (life_->kept.empty()) {
      return;
    }
    std::swap(life_->kept[caller.below(life_->kept.size())], life_->kept.back());
    kept.emplace(std::move(life_->kept.back()));
    life_->kept.pop_back();
  }
  const bool succeeds = draining_ || caller.one_in(2);
  answer(*life_, std::move(*kept), succeeds ? AnswerKind::kDone : AnswerKind::kFail, caller);
}

void StateMachine::extend_kept(Caller& caller) {
  const std::lock_guard lock(life_->mutex);
  if (!life_->kept.empty()) {
    (void)life_->kept[caller.below(life_->kept.size())].delivery.extend_lease(milliseconds(10));
  }
}

void StateMachine::advance(Caller& caller) {
  clock_.advance(nanoseconds(caller.below(6 * kMs)));
}

void StateMachine::flush(Caller&) {
  const auto index = record_.begin(Flush{}, life_->number);
  if (life_->engine->flush().ok()) {
    record_.end(&Record::flushes, index, [](Flush&) {});
  }
}

void StateMachine::count(Caller&) {
  record_.counted(life_->engine->stats(), life_->number);
}

void StateMachine::poll_if_host(Caller&) {
  if (!plan_.threads) {
    poll();
  }
}

}  // namespace countwheel::testing
