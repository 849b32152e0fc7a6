// How an attempt starts: from an entry that a worker has claimed to the call of the handler.
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "dispatcher.h"

namespace countwheel::detail {
namespace {

// Finished tasks are ended in groups, but no handler starts this long after the first of a group.
constexpr std::int64_t kGroupNs = 1'000'000;

}  // namespace

// The place of a delivery that starts, in one of the worker's cells.
InFlight* Dispatcher::place(Worker& worker,
                            TaskType& type,
                            const DueEntry& entry,
                            std::int64_t now_ns) {
  Node& node = parts_.table.node(entry.index);
  const std::uint32_t cell = worker.cells.back();
  worker.cells.pop_back();
  InFlight* const in_flight = places_.take(worker.places);
  *in_flight = InFlight();
  in_flight->id = TaskId::of(entry.index, entry.word.generation());
  in_flight->node = &node;
  in_flight->type = &type;
  in_flight->running = entry.word.with(State::kRunning);
  in_flight->lateness_ns = now_ns - entry.deadline_ns;
  in_flight->sequence = entry.sequence;
  in_flight->cell = cell;
  in_flight->overdue = node.has(kFlagOverdue);
  in_flight->wall_ns = node.wall_ns.load(std::memory_order_relaxed);
  return in_flight;
}

// False when it did not: the task was cancelled or moved, is not due after all, or the engine
// stops.
bool Dispatcher::begin(Worker& worker, TaskType& type, const DueEntry& entry, InFlight** begun) {
  const std::int64_t now_ns = parts_.now_on(entry.clock);
  if (!worker.finished.empty() &&
      (entry.clock != worker.group_clock || now_ns - worker.group_started_ns > kGroupNs)) {
    flush(worker);
  }
  if (closed_.load()) {
    return false;  // Still scheduled; it runs after the next start.
  }
  Node& node = parts_.table.node(entry.index);
  if (now_ns < entry.deadline_ns) {
    // The wall was set back since the hand-over: never early.
    std::vector<MailItem> mail = {{entry.deadline_ns,
                                   entry.index,
                                   node.slack_us.load(std::memory_order_relaxed),
                                   entry.clock}};
    if (parts_.mailbox.put(mail, 0)) {
      parts_.wake_ticker();
    }
    return false;
  }
  if (!make_running(node, entry)) {
    skipped_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (worker.finished.empty()) {
    worker.group_started_ns = now_ns;
    worker.group_clock = entry.clock;
  }
  InFlight* in_flight = place(worker, type, entry, now_ns);
  if (const auto refused = not_to_start(in_flight)) {
    in_flight->attempt = node.attempts.load(std::memory_order_relaxed);
    worker.finished.emplace_back(in_flight, Outcome{*refused, 0, {}, {}});
    return true;
  }
  in_flight->attempt =
      static_cast<std::uint16_t>(node.attempts.load(std::memory_order_relaxed) + 1);
  node.attempts.store(in_flight->attempt, std::memory_order_relaxed);
  AttemptCell& mark = parts_.cells.cell(in_flight->cell);
  mark.id.store(0, std::memory_order_release);  // No moment with one task's id and another's mark.
  mark.mark.store(mark_of(in_flight->run, in_flight->attempt, false), std::memory_order_release);
  mark.id.store(in_flight->id.value, std::memory_order_release);
  // All of it before the lease is known: the tick thread copies it when the lease is over.
  in_flight->worker = &worker;
  in_flight->call = worker.call + 1;
  in_flight->exceptions = std::uncaught_exceptions();
  if (type.policy.lease.count() != 0) {
    auto lease = std::make_unique<Lease>(*in_flight);
    places_.give(worker.places, in_flight);
    in_flight = &lease->in_flight;
    if (leases_.begin(
            lease.release(), parts_.now_on(ClockKind::kBoot), type.policy.lease.count())) {
      parts_.wake_ticker();
    }
  }
  *begun = in_flight;
  return true;
}

// It fell due while no process had the log.
bool Dispatcher::missed(const Node& node) const noexcept {
  return node.has(kFlagOverdue) && node.lsn.load(std::memory_order_relaxed) <= restored_lsn_;
}

// The CAS is "the handler starts": it fails if the task was cancelled, moved or replaced. A member
// of a group, and what was touched, start under the shard lock: every change comes before or after.
bool Dispatcher::make_running(Node& node, const DueEntry& entry) {
  const Word running = entry.word.with(State::kRunning);
  if (node.load() != entry.word) {
    return false;
  }
  if (!node.has(kFlagAttributes | kFlagTouched)) {
    return node.transition(entry.word, running);
  }
  const std::uint32_t slot = slot_of(entry.index);
  Shard& shard = parts_.table.shard(shard_of(entry.index));
  const std::lock_guard lock(shard.mutex);
  const Fate fate = parts_.table.fate_of(shard, slot);
  if (node.load() == entry.word && put_off(shard, entry)) {
    return false;
  }
  // The tick thread files it again when it is due.
  const bool held = fate.paused || (fate.move != nullptr && !fate.move->is_where(node));
  if (fate.cancelled || held || !node.transition(entry.word, running)) {
    return false;
  }
  TaskTable::forget_touch(shard, slot);
  return true;
}

// Touched while it waited in the pool: it is due later.
bool Dispatcher::put_off(Shard& shard, const DueEntry& entry) {
  const auto later = parts_.table.put_off(shard, slot_of(entry.index), parts_.now_on(entry.clock));
  if (!later) {
    return false;
  }
  const Node& node = parts_.table.node(entry.index);
  std::vector<MailItem> mail = {{later->deadline_ns,
                                 entry.index,
                                 node.slack_us.load(std::memory_order_relaxed),
                                 later->clock}};
  if (parts_.mailbox.put(mail, 0)) {
    parts_.wake_ticker();
  }
  return true;
}

// How a due task ends whose handler must not be called; nothing for the others.
std::optional<Outcome::Kind> Dispatcher::not_to_start(InFlight* in_flight) {
  const Node& node = *in_flight->node;
  const TypePolicy& policy = in_flight->type->policy;
  bool left_out = false;
  bool recurs = false;
  std::uint32_t max_crashes = policy.retry.max_crashes;
  std::int64_t max_lateness_ns = policy.max_lateness.count();
  if (node.has(kFlagAttributes)) {
    Shard& shard = parts_.table.shard_for(in_flight->id);
    const std::lock_guard lock(shard.mutex);
    const Attributes attributes = parts_.table.attributes_of(shard, slot_of(in_flight->id.index()));
    in_flight->run = attributes.run;
    if (const auto& recurrence = attributes.recurrence) {
      recurs = true;
      left_out = recurrence->kind == Recurrence::Kind::kRate && !attributes.run_due &&
                 recurrence->catch_up == Recurrence::CatchUp::kSkip &&
                 in_flight->lateness_ns >= recurrence->period.count();
    }
    max_crashes = attributes.retry ? attributes.retry->max_crashes : max_crashes;
    max_lateness_ns = attributes.max_lateness_ns.value_or(max_lateness_ns);
  }
  if (node.crashes >= max_crashes || node.attempts.load(std::memory_order_relaxed) == kAttemptMax) {
    return Outcome::Kind::kCrashed;
  }
  if (left_out) {
    return Outcome::Kind::kLeftOut;
  }
  const MisfirePolicy& misfire = policy.misfire;
  const bool drops = misfire.kind == MisfirePolicy::Kind::kDrop;
  if ((drops || misfire.kind == MisfirePolicy::Kind::kBury) && !recurs &&
      in_flight->lateness_ns > misfire.span.count() && missed(node)) {
    return drops ? Outcome::Kind::kMissedDropped : Outcome::Kind::kMissed;
  }
  if (max_lateness_ns != 0 && in_flight->lateness_ns > max_lateness_ns) {
    return Outcome::Kind::kLate;
  }
  return std::nullopt;
}

// Calls a handler for these tasks; answers the text of what it threw, if it did.
template <class Call>
std::string Dispatcher::call(Worker& worker, std::span<const TaskId> ids, Call&& handler) {
  const auto outer = std::exchange(Worker::current_ids, ids);
  std::optional<std::string> text;
  try {
    handler();
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
    text = "an exception that is no std::exception";
  }
  if (!worker.thrown.empty()) [[unlikely]] {
    // A handler that gave its delivery away has no say in how the attempt ends.
    const std::string& why = text.value_or("dropped by an exception that its handler caught");
    for (InFlight* const thrown : std::exchange(worker.thrown, {})) {
      (void)answer(thrown, {Outcome::Kind::kFailed, 0, why, {}});
    }
  }
  Worker::current_ids = outer;
  return text.value_or(std::string());
}

void Dispatcher::run_handler(Worker& worker, TaskType& type, InFlight* in_flight) {
  const TaskId id = in_flight->id;
  ++worker.call;
  (void)call(worker, {&id, 1}, [&] { type.handler(Delivery(this, in_flight)); });
}

// What the handler has not moved away when it returns, or throws, is answered here.
void Dispatcher::run_batch(Worker& worker, TaskType& type) {
  std::vector<TaskId> ids;
  std::vector<Delivery> deliveries;
  ids.reserve(worker.begun.size());
  deliveries.reserve(worker.begun.size());
  ++worker.call;
  for (InFlight* const in_flight : worker.begun) {
    ids.push_back(in_flight->id);
    deliveries.push_back(Delivery(this, in_flight));
  }
  bool returned = false;
  const std::string text = call(worker, ids, [&] {
    type.batch_handler(deliveries);
    returned = true;
  });
  for (Delivery& delivery : deliveries) {
    if (!delivery.answered()) {
      (void)delivery.fail(returned ? "dropped without an answer" : text);
    }
  }
}

}  // namespace countwheel::detail
