// touch(): a deadline that is put off again and again, for the price of a hash table.
//
// Neither the node nor the wheel learns of it: the later deadline stands beside the node
// (Shard::touches) and is looked up when the entry in the wheel falls due, which files the task
// anew. The log is told a deadline one interval ahead, so that it need not be told again before
// that: after a crash the task is late by at most the interval and never early.
#include <utility>

#include "engine_core.h"

namespace countwheel::detail {

Change EngineCore::touch(TaskId id, const Deadline& deadline, Durability durability) {
  return decide_on(id, deadline, [&](Shard& shard, const ResolvedDeadline& resolved) {
    return touch_locked(shard, id, resolved, durability);
  });
}

Change EngineCore::touch(std::string_view key, const Deadline& deadline, Durability durability) {
  const std::optional<TaskId> id = holder_of(key);
  return id ? touch(*id, deadline, durability) : Change{Status(Code::kNotFound), {}, {}, {}};
}

Change EngineCore::touch_locked(Shard& shard,
                                TaskId id,
                                const ResolvedDeadline& deadline,
                                Durability durability) {
  Node* const node = table.find(shard, id);
  const std::uint32_t slot = slot_of(id.index());
  if (node == nullptr || gone_with_group(shard, *node, id)) {
    return {Status(Code::kNotFound), id, {}, {}};
  }
  const DueTime due = table.due_of(shard, slot);
  const WallTime before(std::chrono::nanoseconds(due.wall_ns));
  const Word word = node->load();
  if (word.state() == State::kCancelled || word.state() == State::kDone) {
    return {Status(Code::kNotFound), id, {}, {}};
  }
  if (word.state() != State::kScheduled) {
    return {Status(Code::kTooLate), id, {}, before};
  }
  if (deadline.clock != due.clock) {
    return {refuse(Status(Code::kInvalidArgument,
                          "the task's deadline is on the other clock: at() and after() differ")),
            id,
            {},
            before};
  }
  Touch* touch = node->has(kFlagTouched) ? &shard.touches[slot] : nullptr;
  if (deadline.on_clock() <= due.deadline_ns) {
    return {Status(), id, {touch != nullptr ? touch->lsn : 0}, before};
  }
  // A change of its group that is on its way goes by the LSN of its latest reschedule.
  if (table.fate_of(shard, slot).lsn != 0 || options.touch_interval.count() == 0) {
    return reschedule_locked(shard, id, deadline, durability, std::nullopt);
  }
  if (touch != nullptr && deadline.on_clock() <= touch->logged_ns) {
    touch->deadline_ns = deadline.on_clock();
    touch->wall_ns = deadline.wall_ns;
    return {Status(), id, {touch->lsn}, before};
  }
  return touch_logged(shard, id, deadline, durability);
}

// The first touch, or the first beyond what the log knows.
Change EngineCore::touch_logged(Shard& shard,
                                TaskId id,
                                const ResolvedDeadline& deadline,
                                Durability durability) {
  Node& node = table.node(id.index());
  const std::uint32_t slot = slot_of(id.index());
  const DueTime due = table.due_of(shard, slot);
  const WallTime before(std::chrono::nanoseconds(due.wall_ns));
  // What waits in the pool must not start, so its word changes.
  const Word word = node.load();
  if (word.state() != State::kScheduled || !node.transition(word, word.with(State::kMoving))) {
    return {Status(Code::kTooLate), id, {}, before};
  }
  Undo undo;
  undo.before = content_of(node);
  if (node.has(kFlagTouched)) {
    undo.touch = shard.touches[slot];
  }
  Touch touch;
  touch.deadline_ns = deadline.on_clock();
  touch.wall_ns = deadline.wall_ns;
  touch.logged_ns = plus(touch.deadline_ns, options.touch_interval.count());
  touch.logged_wall_ns = plus(touch.wall_ns, options.touch_interval.count());
  NodeContent content = undo.before;
  content.flags = static_cast<std::uint8_t>((content.flags | kFlagTouched) & ~kFlagOverdue);
  // Its entry may have left the wheel already.
  const bool due_already = now_on(due.clock) >= content.deadline_ns;
  if (due_already) {
    content.deadline_ns = touch.deadline_ns;
    content.wall_ns = touch.wall_ns;
  }
  write_content(node, content);
  node.store(word.bumped(State::kScheduled));
  Op op;
  op.kind = OpKind::kReschedule;
  op.durability = durability;
  op.touch = true;
  op.id = id;
  op.slack_us = content.slack_us;
  op.base_lsn = content.lsn;
  op.clock = due.clock;
  op.wall_deadline_ns = touch.logged_wall_ns;
  op.boot_deadline_ns = touch.logged_ns;
  touch.lsn = commit.enqueue(op, {}, nullptr, std::move(undo));
  shard.touches[slot] = touch;
  if (due_already) {
    std::vector<MailItem> mail = {
        {content.deadline_ns, id.index(), content.slack_us, node.clock()}};
    if (mailbox.put(mail, 0)) {
      ticker.wake();
    }
  }
  return {Status(), id, {touch.lsn}, before};
}

}  // namespace countwheel::detail

namespace countwheel {

Change Engine::submit_touch(TaskId id, Deadline deadline) {
  return core_->touch(id, deadline, core_->options.durability);
}
Change Engine::submit_touch(std::string_view key, Deadline deadline) {
  return core_->touch(key, deadline, core_->options.durability);
}
Change Engine::touch(TaskId id, Deadline deadline) {
  return detail::acknowledged(submit_touch(id, deadline), *core_, core_->options.durability);
}
Change Engine::touch(std::string_view key, Deadline deadline) {
  return detail::acknowledged(submit_touch(key, deadline), *core_, core_->options.durability);
}

}  // namespace countwheel
