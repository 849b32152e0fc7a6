// What follows a run of a recurring task: the next one, under the same id. One record says both.
#include "dispatcher.h"

namespace countwheel::detail {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// When the run that ends was due by its series. A retry has moved the node.
DueTime due_of_run(const Node& node, const Attributes& attributes) {
  if (attributes.run_due) {
    return *attributes.run_due;
  }
  return {node.clock(), node.deadline_ns.load(kRelaxed), node.wall_ns.load(kRelaxed)};
}

}  // namespace

// False when the task is none, or there is no run after this one.
bool Dispatcher::end_repeat(Shard& shard, InFlight* in_flight, bool ran, std::string_view writes) {
  Node& node = *in_flight->node;
  if (!node.has(kFlagAttributes) || cancel_requested(shard, in_flight)) {
    return false;
  }
  Attributes attributes = attributes_of(shard, in_flight);
  if (!attributes.recurrence) {
    return false;
  }
  const Recurrence& recurrence = *attributes.recurrence;
  attributes.runs += ran ? 1 : 0;
  ++attributes.run;
  if (recurrence.count != 0 && attributes.runs >= recurrence.count) {
    return false;
  }
  const DueTime due = due_of_run(node, attributes);
  const std::int64_t now_ns = parts_.now_on(due.clock);
  const std::optional<std::int64_t> next = next_deadline(recurrence, due.deadline_ns, now_ns);
  if (!next) {
    return false;
  }
  NodeContent content = content_of(node);
  content.lsn = kNoLsnYet;
  content.deadline_ns = *next;
  content.wall_ns = *next;
  if (due.clock == ClockKind::kBoot &&
      (__builtin_sub_overflow(*next, now_ns, &content.wall_ns) ||
       __builtin_add_overflow(
           content.wall_ns, parts_.now_on(ClockKind::kWall), &content.wall_ns))) {
    return false;
  }
  if (recurrence.until && content.wall_ns > recurrence.until->time_since_epoch().count()) {
    return false;
  }
  attributes.run_due.reset();
  attributes.first_due_wall_ns = 0;
  content.attempts = 0;  // The number of the run tells them apart.
  content.failures = 0;
  content.crashes = 0;
  content.flags = static_cast<std::uint8_t>((content.flags & ~(kFlagBoot | kFlagOverdue)) |
                                            (due.clock == ClockKind::kBoot ? kFlagBoot : 0) |
                                            (*next <= now_ns ? kFlagOverdue : 0));
  file_again(shard, in_flight, content, {.writes = writes}, std::move(attributes));
  repeated_.fetch_add(1, kRelaxed);
  return true;
}

// Put back by its handler: no failure.
void Dispatcher::end_kept(Shard& shard, InFlight* in_flight, const Outcome& outcome) {
  NodeContent content = content_of(*in_flight->node);
  Attributes attributes = attributes_of(shard, in_flight);
  if (outcome.until) {
    if (attributes.recurrence && !attributes.run_due) {
      attributes.run_due = due_of_run(*in_flight->node, attributes);
    }
    content.deadline_ns = outcome.until->deadline_ns;
    content.wall_ns = outcome.until->wall_ns;
    const std::uint8_t boot = outcome.until->clock == ClockKind::kBoot ? kFlagBoot : 0;
    content.flags = static_cast<std::uint8_t>((content.flags & ~(kFlagBoot | kFlagOverdue)) | boot);
  }
  content.lsn = kNoLsnYet;
  file_again(shard, in_flight, content, {}, std::move(attributes));
}

// Scheduled once more: by a retry, put back, or as the next run.
void Dispatcher::file_again(Shard& shard,
                            InFlight* in_flight,
                            const NodeContent& content,
                            OpBytes bytes,
                            Attributes attributes) {
  Node& node = *in_flight->node;
  const std::uint32_t index = in_flight->id.index();
  Op op = record(OpKind::kRetry, in_flight);
  const std::string encoded = encode(attributes);
  node.store(in_flight->running.with(State::kMoving));
  parts_.table.set_attributes(shard, slot_of(index), std::move(attributes));
  const std::uint8_t beside = node.flags.load(kRelaxed) & kFlagAttributes;
  NodeContent whole = content;
  whole.flags = static_cast<std::uint8_t>((whole.flags & ~kFlagAttributes) | beside);
  write_content(node, whole);
  op.clock = node.clock();
  op.boot_deadline_ns = content.deadline_ns;
  op.wall_deadline_ns = content.wall_ns;
  op.slack_us = content.slack_us;
  op.failures = content.failures;
  op.attempts = content.attempts;
  op.crashes = content.crashes;
  node.store(in_flight->running.bumped(State::kScheduled));
  bytes.attributes = encoded;
  parts_.commit.enqueue(op, bytes, &node.lsn);
  // The record is queued: the place of the delivery may be another's.
  enter_group(shard, node, index);
}

}  // namespace countwheel::detail
