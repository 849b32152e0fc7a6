// The face of the engine. The path of a task, top to bottom:
//   schedule()     submit, then wait until the record is durable        here
//   submit()       decide and enqueue under the shard lock              mutate.cc
//   commit         swap, elide, one write, publish                      commit_batch.cc
//   step()         mailbox, wheels, hand over what is due               ticker.cc
//   drain()        claim, start, handler                                dispatcher.cc
//   end_attempt()  done, retry or dead: state and record                end_attempt.cc
#include <utility>

#include <countwheel/engine.h>

#include "engine_core.h"
#include "tick_thread.h"

namespace countwheel {

using detail::acknowledged;
using detail::EngineCore;

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options, EngineParts parts) {
  if (Status status = validate(options); !status.ok()) {
    return status;
  }
  if (parts.clock == nullptr) {
    parts.clock = &SystemClock::instance();
  }
  if (parts.journal == nullptr) {
    parts.journal = std::make_unique<NullJournal>();
  }
  std::unique_ptr<Executor> pool;
  if (parts.executor == nullptr) {
    if (options.drive == Drive::kHost) {
      pool = std::make_unique<InlineExecutor>();
    } else {
      Result<std::unique_ptr<Executor>> made = make_thread_pool(options.workers);
      if (!made.ok()) {
        return made.status();
      }
      pool = std::move(*made);
    }
  }
  if (parts.executor != nullptr && parts.executor->concurrency() == 0) {
    return Status(Code::kInvalidArgument, "EngineParts::executor has a concurrency of 0");
  }
  std::unique_ptr<Sleeper> sleeper;
  if (options.drive == Drive::kThreads) {
    sleeper = detail::make_tick_sleeper(*parts.clock, options.tick_thread);
    if (sleeper == nullptr) {
      return Status(Code::kResource, "no descriptors left for the tick thread's timers");
    }
  }
  auto core =
      std::make_unique<EngineCore>(options, std::move(parts), std::move(pool), std::move(sleeper));
  if (!core->table.reserve(options.reserve_count)) {
    return Status(Code::kResource,
                  "no memory for reserve_count = " + std::to_string(options.reserve_count));
  }
  return std::unique_ptr<Engine>(new Engine(std::move(core)));
}

Engine::Engine(std::unique_ptr<EngineCore> core) : core_(std::move(core)) {}

Engine::~Engine() {
  // A handler that destroys its own engine would wait for itself.
  COUNTWHEEL_ASSERT(!detail::Dispatcher::in_handler());
  if (core_->forks != detail::fork_count()) {
    // A child has copies of objects whose threads and locks are the parent's: all is left alone.
    (void)core_.release();
  }
}

Status Engine::start() {
  return core_->start();
}

Status Engine::stop(std::chrono::nanoseconds drain) {
  return core_->stop(drain);
}

Result<Scheduled> Engine::schedule(const TaskSpec& spec) {
  return schedule(spec, {});
}

Result<Submitted> Engine::submit(const TaskSpec& spec) {
  return core_->submit(spec);
}

Status Engine::submit_batch(std::span<const TaskSpec> specs, std::span<Submitted> out) {
  COUNTWHEEL_ASSERT(out.size() >= specs.size());
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Result<Submitted> submitted = core_->submit(specs[i]);
    if (!submitted.ok()) {
      return submitted.status();
    }
    out[i] = *submitted;
  }
  return {};
}

Change Engine::submit_cancel(TaskId id) {
  return core_->cancel(id, core_->options.durability);
}
Change Engine::submit_cancel(std::string_view key) {
  return core_->cancel(key, core_->options.durability);
}
Change Engine::submit_reschedule(TaskId id, Deadline deadline) {
  return core_->reschedule(id, deadline, core_->options.durability);
}
Change Engine::submit_reschedule(std::string_view key, Deadline deadline) {
  return core_->reschedule(key, deadline, core_->options.durability);
}

Change Engine::submit_cancel(TaskId id, Durability durability) {
  return core_->cancel(id, durability);
}
Change Engine::submit_cancel(std::string_view key, Durability durability) {
  return core_->cancel(key, durability);
}
Change Engine::submit_reschedule(TaskId id, Deadline deadline, Durability durability) {
  return core_->reschedule(id, deadline, durability);
}
Change Engine::submit_reschedule(std::string_view key, Deadline deadline, Durability durability) {
  return core_->reschedule(key, deadline, durability);
}

Change Engine::cancel(TaskId id, Durability durability) {
  return acknowledged(core_->cancel(id, durability), *core_, durability);
}
Change Engine::cancel(std::string_view key, Durability durability) {
  return acknowledged(core_->cancel(key, durability), *core_, durability);
}
Change Engine::reschedule(TaskId id, Deadline deadline, Durability durability) {
  return acknowledged(core_->reschedule(id, deadline, durability), *core_, durability);
}
Change Engine::reschedule(std::string_view key, Deadline deadline, Durability durability) {
  return acknowledged(core_->reschedule(key, deadline, durability), *core_, durability);
}
Change Engine::cancel(TaskId id) {
  return cancel(id, core_->options.durability);
}
Change Engine::cancel(std::string_view key) {
  return cancel(key, core_->options.durability);
}
Change Engine::reschedule(TaskId id, Deadline deadline) {
  return reschedule(id, deadline, core_->options.durability);
}
Change Engine::reschedule(std::string_view key, Deadline deadline) {
  return reschedule(key, deadline, core_->options.durability);
}

Change Engine::reschedule_if(TaskId id, WallTime expected, Deadline deadline) {
  const Durability level = core_->options.durability;
  return acknowledged(core_->reschedule(id, deadline, level, expected), *core_, level);
}
Change Engine::reschedule_if(std::string_view key, WallTime expected, Deadline deadline) {
  const Durability level = core_->options.durability;
  return acknowledged(core_->reschedule(key, deadline, level, expected), *core_, level);
}

Result<TaskInfo> Engine::find(TaskId id) const {
  return core_->find(id);
}

Result<TaskInfo> Engine::find(std::string_view key) const {
  if (Status status = core_->open_for_reading(); !status.ok()) {
    return status;
  }
  const std::uint32_t number = detail::TaskTable::shard_of_key(key);
  detail::Shard& shard = core_->table.shard(number);
  const std::lock_guard lock(shard.mutex);
  const auto holder = core_->table.find_key(shard, number, key);
  if (!holder) {
    return Status(Code::kNotFound);
  }
  const detail::Node& node = core_->table.node(*holder);
  const TaskId id = TaskId::of(*holder, node.load().generation());
  if (node.load().state() == State::kDone || core_->gone_with_group(shard, node, id)) {
    return Status(Code::kNotFound);
  }
  return core_->info(shard, id, node);
}

std::vector<TaskInfo> Engine::list(TaskId after, std::size_t limit) const {
  return core_->list(after, limit, /*dead_only=*/false);
}

std::vector<TaskInfo> Engine::dead_letters(TaskId after, std::size_t limit) const {
  return core_->list(after, limit, /*dead_only=*/true);
}

Result<TaskId> Engine::requeue(TaskId id, Deadline deadline) {
  const Durability level = core_->options.durability;
  const Result<Submitted> submitted = core_->requeue(id, deadline, level);
  if (!submitted.ok()) {
    return submitted.status();
  }
  if (Status status = wait_durable(submitted->lsn, level); !status.ok()) {
    return status;
  }
  return submitted->id;
}

Result<Submitted> Engine::submit_requeue(TaskId id, Deadline deadline) {
  return core_->requeue(id, deadline, core_->options.durability);
}

Change Engine::purge(TaskId id) {
  const Durability level = core_->options.durability;
  return acknowledged(core_->purge(id, level), *core_, level);
}

Change Engine::submit_purge(TaskId id) {
  return core_->purge(id, core_->options.durability);
}

Result<bool> Engine::is_due(TaskId id) const {
  return core_->is_due(core_->find(id));
}

Result<bool> Engine::is_due(std::string_view key) const {
  return core_->is_due(find(key));
}

Status Engine::pause(std::string_view type) {
  return core_->set_paused(type, true);
}

Status Engine::resume(std::string_view type) {
  return core_->set_paused(type, false);
}

Lsn Engine::durable_lsn(Durability durability) const noexcept {
  return {core_->commit.mark(durability)};
}

Durability Engine::reached(Lsn lsn) const noexcept {
  return core_->commit.reached(lsn.value);
}

Status Engine::wait_durable(Lsn lsn, Durability durability, std::chrono::nanoseconds timeout) {
  if (Status status = core_->open_for_reading(); !status.ok()) {
    return status;
  }
  return core_->commit.wait(lsn.value, durability, timeout);
}

void Engine::notify_durable(Lsn lsn, Durability durability, const Notice& notice) {
  COUNTWHEEL_ASSERT(notice.run != nullptr);
  if (const Status status = core_->open_for_reading(); !status.ok()) {
    notice.run(notice.argument, status);
    return;
  }
  core_->commit.notify(lsn.value, durability, notice);
}

bool Engine::withdraw_notice(Lsn lsn, Durability durability, const Notice& notice) {
  return core_->open_for_reading().ok() && core_->commit.withdraw(lsn.value, durability, notice);
}

Status Engine::flush(Durability durability) {
  return wait_durable({core_->commit.last_lsn()}, durability);
}

std::size_t Engine::poll(std::size_t limit) {
  COUNTWHEEL_ASSERT(core_->options.drive == Drive::kHost);
  return core_->poll(limit);
}

std::size_t Engine::poll(Instant now, std::size_t limit) {
  COUNTWHEEL_ASSERT(core_->options.drive == Drive::kHost);
  core_->set_host_now(now);
  return core_->poll(limit);
}

Result<Lsn> Engine::snapshot(const std::function<void(const TaskInfo&)>& visit) const {
  return core_->snapshot(visit);
}

Status Engine::listen(Listener listener) {
  return core_->listen(std::move(listener));
}

Instant Engine::next_wake() const {
  if (core_->commit.work_waiting() || core_->mailbox.has_items() ||
      core_->table.group_changes.wanted(core_->mailbox.released())) {
    return core_->now();  // Something is on its way to the wheels.
  }
  return core_->ticker.next_wake();
}

Stats Engine::stats() const {
  return core_->stats();
}

const EngineOptions& Engine::options() const noexcept {
  return core_->options;
}

std::string Engine::check_invariants() const {
  return core_->check_invariants();
}

}  // namespace countwheel
