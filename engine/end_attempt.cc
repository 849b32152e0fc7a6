// How an attempt ends: state and record in one step under the shard lock (SEMANTICS 3). Setting
// the state first and enqueueing later loses or repeats a task when another call comes between.
#include <algorithm>

#include <boost/container/static_vector.hpp>

#include <countwheel/assert.h>

#include "dispatcher.h"

namespace countwheel::detail {
namespace {

constexpr std::size_t kErrorBytes = 512;
constexpr std::size_t kGroupMax = 64;

// Errors are shown to people: no control characters, 512 bytes at most.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kErrorBytes)) {
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return out;
}

// The key is free, unless it has gone to the task behind this one.
void leave_key(Shard& shard, const Node& node, std::uint32_t slot) {
  if (node.key_bytes != 0 && !node.has(kFlagKeyLost)) {
    shard.keys.erase(slot);
  }
}

}  // namespace

// What most attempts end in, of tasks of one shard: queued together, counted together.
struct Dispatcher::PlainEnds {
  boost::container::static_vector<Op, kGroupMax> ops;
  std::uint64_t bytes = 0;

  // Under the lock of the shard.
  void queue(DispatchParts& parts) {
    if (!ops.empty()) {
      parts.limits.give(ops.size(), bytes);
      parts.commit.enqueue_run(ops);
      ops.clear();
      bytes = 0;
    }
  }
};

// Done, and there is nothing to do or to say beyond that.
bool Dispatcher::is_plain(const Shard& shard,
                          const InFlight* in_flight,
                          const Outcome& outcome) noexcept {
  return outcome.kind == Outcome::Kind::kDone && outcome.reason.empty() &&
         shard.successors.empty() && !in_flight->node->has(kFlagAttributes);
}

Op Dispatcher::end_plain(Shard& shard, InFlight* in_flight) {
  Node& node = *in_flight->node;
  COUNTWHEEL_ASSERT(node.load() == in_flight->running);
  Op op = record(OpKind::kDone, in_flight);
  op.releases = true;
  ++shard.counts.done;
  leave_key(shard, node, slot_of(in_flight->id.index()));
  node.store(in_flight->running.with(State::kDone));
  return op;
}

// One lock for a run of tasks of one shard: those of one herd mostly are.
void Dispatcher::end_attempts(std::span<const std::pair<InFlight*, Outcome>> ended) {
  std::vector<MailItem> mail;
  const Shard* held = nullptr;
  PlainEnds plain;
  bool kept = false;
  bool waited_for = false;
  std::unique_lock<std::mutex> lock;
  for (const auto& [in_flight, outcome] : ended) {
    Shard& shard = parts_.table.shard_for(in_flight->id);
    if (&shard != held) {
      plain.queue(parts_);
      lock = {};
      lock = std::unique_lock(shard.mutex);
      held = &shard;
    }
    // Once its record is queued the place of the delivery may be another's.
    TaskType& type = *in_flight->type;
    if (is_plain(shard, in_flight, outcome)) {
      plain.bytes += in_flight->node->data_bytes();
      plain.ops.push_back(end_plain(shard, in_flight));
      if (plain.ops.size() == plain.ops.capacity()) {
        plain.queue(parts_);
      }
      type.leave();
      waited_for |= type.limited() && type.ring.size() != 0;
      continue;
    }
    const Node& ended_node = *in_flight->node;
    const Word dead = in_flight->running.with(State::kDead);
    const std::optional<std::uint32_t> freed = end_attempt(shard, in_flight, outcome);
    kept |= ended_node.load() == dead || ended_node.has(kFlagAttributes);
    type.leave();
    waited_for |= type.limited() && type.ring.size() != 0;
    if (freed) {
      // Its schedule may have been dropped by a wheel while it was blocked.
      mail.push_back(mail_of(parts_.table.node(*freed), *freed));
    }
  }
  plain.queue(parts_);
  lock = {};
  if (waited_for) {
    parts_.wake_ticker();  // Nobody may be there to start the next of its type.
  }
  if (!mail.empty() && parts_.mailbox.put(mail, 0)) {
    parts_.wake_ticker();
  }
  if (kept) {
    parts_.trim_ended();
  }
}

Status Dispatcher::extend_lease(InFlight* in_flight, std::chrono::nanoseconds by) {
  Lease* const lease = in_flight->lease;
  if (lease == nullptr || leases_.extend(lease, parts_.now_on(ClockKind::kBoot) + by.count())) {
    return {};
  }
  return Status(Code::kStaleLease, "the lease was over");
}

// Their tasks are due at once: a handler that hangs has cost them time enough.
void Dispatcher::sweep_leases(std::int64_t boot_now_ns, bool watching) {
  if (watching) {
    leases_.look(boot_now_ns);
  }
  if (boot_now_ns < leases_.next()) {
    return;
  }
  for (InFlight& over : leases_.take_over(boot_now_ns)) {
    const std::pair<InFlight*, Outcome> ended(&over,
                                              {Outcome::Kind::kRetry, 0, "lease_expired", {}});
    end_attempts({&ended, 1});
  }
  parts_.commit.nudge();
}

// Answers the task that waited for this one to end, if there is one.
std::optional<std::uint32_t> Dispatcher::end_attempt(Shard& shard,
                                                     InFlight* in_flight,
                                                     const Outcome& outcome) {
  COUNTWHEEL_ASSERT(in_flight->node->load() == in_flight->running);
  const std::optional<std::uint32_t> freed =
      parts_.table.unblock_successor(shard, in_flight->id.index());
  switch (outcome.kind) {
    case Outcome::Kind::kDone:
      if (freed || !end_repeat(shard, in_flight, true, outcome.reason)) {
        end_done(shard, in_flight, outcome.reason);
      }
      break;
    case Outcome::Kind::kCrashed:
      end_dead(shard, in_flight, DeadReason::kCrash, "crash: its process ended too often");
      break;
    case Outcome::Kind::kLate:
      if (freed || !end_repeat(shard, in_flight, false)) {
        end_dead(shard, in_flight, DeadReason::kLate, "expired_late");
      }
      break;
    case Outcome::Kind::kLeftOut:
      if (freed || !end_repeat(shard, in_flight, false)) {
        end_done(shard, in_flight, {});
      }
      break;
    case Outcome::Kind::kMissed:
      end_dead(shard, in_flight, DeadReason::kMissed, "missed");
      break;
    case Outcome::Kind::kMissedDropped:
      end_dropped(shard, in_flight, false);
      break;
    case Outcome::Kind::kKept:
      if (freed) {
        parts_.table.node(*freed).flags.fetch_or(kFlagNeeded);
      }
      if (cancel_requested(shard, in_flight) || freed) {
        end_dropped(shard, in_flight, freed.has_value());
      } else {
        end_kept(shard, in_flight, outcome);
      }
      break;
    case Outcome::Kind::kFailed:
    case Outcome::Kind::kRetry:
      ++shard.counts.failed_attempts;
      if (freed) {
        parts_.table.node(*freed).flags.fetch_or(kFlagNeeded);
      }
      if (cancel_requested(shard, in_flight) || freed) {
        end_dropped(shard, in_flight, freed.has_value());
      } else {
        end_failed(shard, in_flight, outcome);
      }
      break;
  }
  return freed;
}

// By its id or key, or with its group, of which the tick thread may not have told the node yet.
bool Dispatcher::cancel_requested(const Shard& shard, const InFlight* in_flight) const {
  const Node& node = *in_flight->node;
  return node.has(kFlagCancelRequested) ||
         (node.has(kFlagAttributes) &&
          parts_.table.fate_of(shard, slot_of(in_flight->id.index())).cancelled);
}

Op Dispatcher::record(OpKind kind, const InFlight* in_flight) const {
  Op op;
  op.kind = kind;
  op.durability = durability_;
  op.id = in_flight->id;
  op.base_lsn = in_flight->node->lsn.load(std::memory_order_relaxed);
  op.cell = in_flight->cell + 1;
  return op;
}

// The task lives no more.
void Dispatcher::leave(Shard& shard, InFlight* in_flight) {
  const Node& node = *in_flight->node;
  leave_key(shard, node, slot_of(in_flight->id.index()));
  leave_group(shard, node, in_flight->id.index());
  parts_.limits.give(1, node.data_bytes());
}

void Dispatcher::end_done(Shard& shard, InFlight* in_flight, std::string_view writes) {
  Node& node = *in_flight->node;
  Op op = record(OpKind::kDone, in_flight);
  ++shard.counts.done;
  const std::uint32_t slot = slot_of(in_flight->id.index());
  const std::int64_t window_ns =
      node.has(kFlagAttributes) ? attributes_of(shard, in_flight).dedup_window_ns : 0;
  const bool keeps_key = window_ns != 0 && !node.has(kFlagKeyLost);
  const bool left_log = keeps_key && cancel_requested(shard, in_flight);
  leave(shard, in_flight);
  if (!keeps_key) {
    node.store(in_flight->running.with(State::kDone));
    op.releases = true;
    parts_.commit.enqueue(op, {.writes = writes});
    return;
  }
  // It stays with its key until the window is over, and has no payload any more.
  Attributes kept;
  kept.done_until_wall_ns = plus(parts_.now_on(ClockKind::kWall), window_ns);
  const std::string encoded = encode(kept);
  TaskTable::drop_payload(node);
  shard.keys.insert(slot);
  parts_.table.done_tasks.add(in_flight->id, kept.done_until_wall_ns);
  parts_.table.set_attributes(shard, slot, std::move(kept));
  node.store(in_flight->running.with(State::kDone));
  if (left_log) {
    log_again(in_flight, encoded);
  }
  parts_.commit.enqueue(op, {.attributes = encoded, .writes = writes});
}

// The record of a cancel that came too late has taken the task out of the log, and its end would
// mean nothing there. Like the cleaner's records this one says all there is to know.
void Dispatcher::log_again(const InFlight* in_flight, std::string_view attributes) {
  const Node& node = *in_flight->node;
  const NodeContent content = content_of(node);
  Op op = record(OpKind::kSchedule, in_flight);
  op.cell = 0;  // given back with the end
  op.clock = node.clock();
  op.wall_deadline_ns = content.wall_ns;
  op.boot_deadline_ns = content.deadline_ns;
  op.slack_us = content.slack_us;
  op.type = content.type;
  op.failures = content.failures;
  op.attempts = content.attempts;
  op.crashes = content.crashes;
  parts_.commit.enqueue(op, {.key = node.key(), .attributes = attributes});
}

// A failed attempt of a task that must not come back: cancel() was called while it ran, or its key
// has a new task.
void Dispatcher::end_dropped(Shard& shard, InFlight* in_flight, bool replaced) {
  Node& node = *in_flight->node;
  leave(shard, in_flight);
  ++(replaced ? shard.counts.replaced : shard.counts.cancelled);
  node.store(in_flight->running.with(State::kCancelled));
  Op op = record(OpKind::kDone, in_flight);
  op.upsert = replaced;
  op.releases = true;
  parts_.commit.enqueue(op);
}

void Dispatcher::end_failed(Shard& shard, InFlight* in_flight, const Outcome& outcome) {
  Node& node = *in_flight->node;
  node.failures = static_cast<std::uint16_t>(std::min(node.failures + 1, 65535));
  const Attributes attributes = attributes_of(shard, in_flight);
  const RetryPolicy& retry = attributes.retry ? *attributes.retry : in_flight->type->policy.retry;
  // Behind the last number of an attempt there is none that is greater: no retry without end.
  const bool numbers_left = in_flight->attempt != kAttemptMax;
  if (!numbers_left || (retry.max_attempts != 0 && node.failures >= retry.max_attempts)) {
    end_run_dead(shard, in_flight, DeadReason::kAttempts, outcome.reason);
    return;
  }
  const std::int64_t delay_ns = outcome.kind == Outcome::Kind::kRetry
                                    ? std::max<std::int64_t>(outcome.delay_ns, 0)
                                    : backoff(retry, node.failures, in_flight->id.value).count();
  Attributes next = attributes;
  if (retry.total_timeout.count() != 0) {
    if (next.first_due_wall_ns == 0) {
      next.first_due_wall_ns = in_flight->wall_ns;
    }
    const std::int64_t planned_ns = plus(parts_.now_on(ClockKind::kWall), delay_ns);
    if (planned_ns > plus(next.first_due_wall_ns, retry.total_timeout.count())) {
      end_run_dead(shard, in_flight, DeadReason::kTimeout, outcome.reason);
      return;
    }
  }
  end_retry(shard, in_flight, outcome.reason, delay_ns, std::move(next));
}

// A run of a recurring task that failed for good is followed by the next one all the same.
void Dispatcher::end_run_dead(Shard& shard,
                              InFlight* in_flight,
                              DeadReason reason,
                              std::string_view text) {
  if (in_flight->node->has(kFlagAttributes)) {
    shard.errors[in_flight->id.value] = printable(text);
  }
  if (!end_repeat(shard, in_flight, true)) {
    end_dead(shard, in_flight, reason, text);
  }
}

void Dispatcher::end_dead(Shard& shard,
                          InFlight* in_flight,
                          DeadReason reason,
                          std::string_view text) {
  Node& node = *in_flight->node;
  leave(shard, in_flight);
  ++shard.counts.dead;
  std::string& error = shard.errors[in_flight->id.value];
  error = printable(text);
  Attributes attributes = attributes_of(shard, in_flight);
  attributes.died_wall_ns = parts_.now_on(ClockKind::kWall);
  attributes.reason = reason;
  const std::string encoded = encode(attributes);
  parts_.table.dead_letters.add(in_flight->id, attributes.died_wall_ns);
  parts_.table.set_attributes(shard, slot_of(in_flight->id.index()), std::move(attributes));
  node.store(in_flight->running.with(State::kDead));
  Op op = record(OpKind::kDead, in_flight);
  op.reason = reason;
  op.failures = node.failures;
  op.attempts = node.attempts.load(std::memory_order_relaxed);
  op.crashes = node.crashes;
  parts_.commit.enqueue(op, {.text = error, .attributes = encoded});
}

Attributes Dispatcher::attributes_of(const Shard& shard, const InFlight* in_flight) const {
  return parts_.table.attributes_of(shard, slot_of(in_flight->id.index()));
}

void Dispatcher::end_retry(Shard& shard,
                           InFlight* in_flight,
                           std::string_view reason,
                           std::int64_t delay_ns,
                           Attributes attributes) {
  const Node& node = *in_flight->node;
  NodeContent content = content_of(node);
  if (attributes.recurrence && !attributes.run_due) {
    attributes.run_due = DueTime{node.clock(), content.deadline_ns, content.wall_ns};
  }
  content.lsn = kNoLsnYet;
  content.deadline_ns = plus(parts_.now_on(ClockKind::kBoot), delay_ns);
  content.wall_ns = plus(parts_.now_on(ClockKind::kWall), delay_ns);
  content.flags = static_cast<std::uint8_t>((content.flags | kFlagBoot) & ~kFlagOverdue);
  std::string& error = shard.errors[in_flight->id.value];
  error = printable(reason);
  file_again(shard, in_flight, content, {.text = error}, std::move(attributes));
}

}  // namespace countwheel::detail
