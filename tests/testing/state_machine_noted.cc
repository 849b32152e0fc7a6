// Calls of a state machine that callers and handlers make alike, each with its note.
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

Durability some_durability(std::uint64_t number) {
  return static_cast<Durability>(number % 3);
}

}  // namespace

// Half of the deadlines share a grid of a millisecond, so that many are equal.
Deadline StateMachine::random_deadline(Caller& caller, Call* call) const {
  const Instant now = clock_.now();
  const std::int64_t delay_ns = (static_cast<std::int64_t>(caller.below(32)) - 2) * kMs;
  if (caller.one_in(2)) {
    call->clock = ClockKind::kWall;
    call->deadline_ns = now.wall_ns / kMs * kMs + delay_ns;
    return at(WallTime(nanoseconds(call->deadline_ns)));
  }
  call->clock = ClockKind::kBoot;
  call->deadline_ns = now.boot_ns + delay_ns;
  return after(nanoseconds(delay_ns));
}

std::string StateMachine::some_key(Caller& caller) {
  return "key" + std::to_string(caller.below(10));
}

// Mostly one of the latest: those are still there.
TaskId StateMachine::some_id(Life& life, Caller& caller) const {
  const std::lock_guard lock(life.mutex);
  if (life.ids.empty()) {
    return {};
  }
  const std::size_t recent = std::min<std::size_t>(life.ids.size(), caller.one_in(8) ? 1000 : 12);
  return life.ids[life.ids.size() - 1 - caller.below(recent)];
}

void StateMachine::settle_later(Caller& caller, std::optional<std::size_t> index) {
  if (index) {
    caller.unsettled.push_back(*index);
  }
}

void StateMachine::schedule_with(Life& life,
                                 Caller& caller,
                                 std::string_view key,
                                 KeyPolicy policy) {
  Call call;
  call.kind = CallKind::kSchedule;
  call.type = kTypes[caller.below(std::size(kTypes))];
  call.key = key;
  call.may_replace = policy == KeyPolicy::kReplace;
  call.payload = "p" + std::to_string(++payloads_) + std::string(caller.below(24), '.');
  call.durability = some_durability(caller.random());
  call.max_attempts = 3;
  call.backoff_ns = 5 * kMs;
  call.may_expire_late = call.type == "late";
  call.slack_ns = call.type == "slack" ? 4 * kMs : 0;
  TaskSpec spec;
  RetryPolicy retry = RetryPolicy::fixed(milliseconds(2));
  if (caller.one_in(5)) {
    retry.max_attempts = 1 + static_cast<std::uint32_t>(caller.below(2));
    spec.retry = &retry;
    call.max_attempts = retry.max_attempts;
    call.backoff_ns = 2 * kMs;
  }
  if (caller.one_in(8)) {
    spec.max_lateness = milliseconds(3);
    call.may_expire_late = true;
  }
  if (caller.one_in(8)) {
    spec.slack = milliseconds(2);
    call.slack_ns = 2 * kMs;
  }
  call.group = caller.one_in(4) ? 1 + caller.below(3) : 0;
  spec.group = call.group;
  spec.dedup_window = milliseconds(!key.empty() && caller.one_in(4) ? 20 : 0);
  call.dedup_window_ns = spec.dedup_window.count();
  spec.deadline = random_deadline(caller, &call);
  const std::string type = call.type;
  const std::string payload = call.payload;
  spec.type = type;
  spec.key = key;
  spec.payload = payload;
  spec.key_policy = policy;
  spec.durability = call.durability;
  const bool waits = caller.one_in(3);  // what the plain form does
  const Durability durability = call.durability;
  const auto index = record_.begin(std::move(call), life.number);
  const Result<Submitted> submitted = life.engine->submit(spec);
  record_.end(&Record::calls, index, [&](Call& noted) {
    noted.code = submitted.code();
    noted.after = clock_.now();
    noted.settled = durability == Durability::kMemory ? Settled::kHeld : Settled::kUnknown;
    if (submitted.ok()) {
      noted.id = submitted->id;
      noted.lsn = submitted->lsn.value;
      noted.replaced = submitted->replaced;
      noted.kept = submitted->kept;
    }
  });
  if (!submitted.ok()) {
    return;
  }
  {
    const std::lock_guard lock(life.mutex);
    life.ids.push_back(submitted->id);
  }
  settle_later(caller, index);
  if (waits) {
    settle(caller);
  }
}

void StateMachine::note_change(Caller& caller,
                               std::optional<std::size_t> index,
                               const Change& change,
                               bool waited) {
  record_.end(&Record::calls, index, [&](Call& noted) {
    noted.id = change.id ? change.id : noted.id;
    noted.code = change.status.code();
    noted.lsn = change.lsn.value;
    noted.deadline_before_ns = change.deadline.time_since_epoch().count();
    noted.settled =
        waited || noted.durability == Durability::kMemory ? Settled::kHeld : Settled::kUnknown;
  });
  if (!waited && change.lsn.value != 0) {
    settle_later(caller, index);
  }
}

void StateMachine::cancel_noted(Life& life, Caller& caller, TaskId id, std::string_view key) {
  Call call;
  call.kind = CallKind::kCancel;
  call.id = id;
  call.key = key;
  call.durability = some_durability(caller.random());
  const Durability durability = call.durability;
  const bool waits = caller.one_in(3);
  const auto index = record_.begin(std::move(call), life.number);
  Engine& engine = *life.engine;
  Change change;
  if (key.empty()) {
    change = waits ? engine.cancel(id, durability) : engine.submit_cancel(id, durability);
  } else {
    change = waits ? engine.cancel(key, durability) : engine.submit_cancel(key, durability);
  }
  note_change(caller, index, change, waits);
}

void StateMachine::move_noted(Life& life,
                              Caller& caller,
                              TaskId id,
                              std::string_view key,
                              std::optional<WallTime> expected) {
  Call call;
  call.kind = CallKind::kReschedule;
  call.id = id;
  call.key = key;
  const Deadline deadline = random_deadline(caller, &call);
  call.durability = expected ? Durability::kDisk : some_durability(caller.random());
  if (expected) {
    call.expected = expected->time_since_epoch().count();
  }
  const Durability durability = call.durability;
  const bool waits = expected.has_value() || caller.one_in(3);
  const auto index = record_.begin(std::move(call), life.number);
  Engine& engine = *life.engine;
  Change change;
  if (expected) {
    change = engine.reschedule_if(id, *expected, deadline);
  } else if (key.empty()) {
    change = waits ? engine.reschedule(id, deadline, durability)
                   : engine.submit_reschedule(id, deadline, durability);
  } else {
    change = waits ? engine.reschedule(key, deadline, durability)
                   : engine.submit_reschedule(key, deadline, durability);
  }
  note_change(caller, index, change, waits);
}

std::optional<TaskInfo> StateMachine::look_at(Life& life, TaskId id) {
  Look look;
  look.id = id;
  const auto index = record_.begin(std::move(look), life.number);
  Result<TaskInfo> info = life.engine->find(id);
  record_.end(&Record::looks, index, [&](Look& noted) { noted.code = info.code(); });
  if (!info.ok()) {
    return std::nullopt;
  }
  return std::move(*info);
}

std::optional<TaskInfo> StateMachine::some_letter(Life& life, Caller& caller) {
  std::vector<TaskInfo> letters = life.engine->dead_letters(TaskId{}, 20);
  if (letters.empty()) {
    return std::nullopt;
  }
  return std::move(letters[caller.below(letters.size())]);
}

}  // namespace countwheel::testing
