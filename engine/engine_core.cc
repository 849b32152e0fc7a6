#include "engine_core.h"

#include <algorithm>
#include <limits>
#include <pthread.h>
#include <system_error>
#include <utility>

#include <countwheel/assert.h>

namespace countwheel::detail {
namespace {

std::atomic<std::uint32_t> forks_of_process{0};

}  // namespace

std::uint32_t fork_count() noexcept {
  static const int registered = pthread_atfork(
      nullptr, nullptr, [] { forks_of_process.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return forks_of_process.load(std::memory_order_relaxed);
}

EngineCore::EngineCore(const EngineOptions& engine_options,
                       EngineParts parts,
                       std::unique_ptr<Executor> pool,
                       std::unique_ptr<Sleeper> sleeper)
    : options(engine_options),
      clock(*parts.clock),
      own_executor(std::move(pool)),
      executor(parts.executor != nullptr ? parts.executor : own_executor.get()),
      journal(std::move(parts.journal)),
      forks(fork_count()),
      limits(options.max_pending_count, options.max_pending_bytes),
      types(*slack_us(options.slack)),
      cells(journal->attempt_cells(), options.max_in_flight),
      commit({*journal,
              table,
              limits,
              mailbox,
              cells,
              [this] { return now(); },
              [this] { ticker.wake(); },
              [this](TaskId id) { return carry_task(id); },
              [this](std::uint16_t number) { carry_type(number); }},
             options.os_sync_bound),
      dispatcher({table,
                  types,
                  commit,
                  mailbox,
                  cells,
                  limits,
                  [this](ClockKind face) { return now_on(face); },
                  [this] { ticker.wake(); },
                  [this] { trim_ended(); }},
                 options.durability,
                 options.on_journal_failure),
      ticker({table,
              limits,
              mailbox,
              dispatcher,
              [this] { return now(); },
              [this](std::uint64_t released, std::vector<MailItem>* mail) {
                return sweep_groups(released, mail);
              },
              options.drive == Drive::kThreads},
             options.wheel,
             std::move(sleeper)),
      wall_floor_ns(std::numeric_limits<std::int64_t>::min()) {
  dispatcher.set_executor(executor);
  commit.set_session(clock.session().hash());
}

EngineCore::~EngineCore() {
  COUNTWHEEL_ASSERT(forks == fork_count());  // Engine lets go of it in a child.
  (void)stop(std::chrono::nanoseconds::max());
  // An earlier stop() may have given up on handlers that still use what goes now.
  (void)dispatcher.drained(std::chrono::nanoseconds::max());
  commit.stop(false);  // Their answers, as far as they were accepted.
}

Instant EngineCore::now() const noexcept {
  Instant now = clock.now();
  now.wall_ns = std::max(now.wall_ns, wall_floor_ns.load(std::memory_order_relaxed));
  return now;
}

std::int64_t EngineCore::now_on(ClockKind face) const noexcept {
  const std::int64_t now_ns = clock.now_on(face);
  return face == ClockKind::kWall ? std::max(now_ns, wall_floor_ns.load(std::memory_order_relaxed))
                                  : now_ns;
}

Instant EngineCore::now_for(const Deadline& deadline) const noexcept {
  return deadline.clock() == ClockKind::kWall ? Instant{now_on(ClockKind::kWall), 0} : now();
}

Status EngineCore::open_for_reading() const {
  if (forks != fork_count()) [[unlikely]] {
    return Status(Code::kForked, "the engine belongs to the parent process");
  }
  if (phase.load(std::memory_order_relaxed) == Phase::kRecovering) [[unlikely]] {
    return Status(Code::kRecovering);
  }
  return {};
}

Status EngineCore::open_for_calls() const {
  if (phase.load(std::memory_order_relaxed) == Phase::kStopped) [[unlikely]] {
    return Status(Code::kStopped);
  }
  return open_for_reading();
}

Status EngineCore::set_paused(std::string_view type, bool paused) {
  if (Status status = open_for_calls(); !status.ok()) {
    return status;
  }
  if (type.empty()) {
    dispatcher.set_paused(paused);
  } else if (TaskType* known = types.find(type)) {
    known->paused.store(paused);
  } else {
    return Status(Code::kNotFound, "no type is called " + std::string(type));
  }
  if (!paused) {
    ticker.wake();  // It posts work for what waits.
  }
  return {};
}

Status EngineCore::start() {
  // Before the lock too: a handler that calls this must not wait for a stop() that waits for it.
  if (Status status = open_for_calls(); !status.ok() || phase.load() == Phase::kRunning) {
    return status;
  }
  const std::lock_guard lock(lifecycle);
  if (Status status = open_for_calls(); !status.ok() || phase.load() == Phase::kRunning) {
    return status;
  }
  if (!begun) {
    ticker.begin(now(), options.reserve_count);
    begun = true;
  }
  if (journal->durable()) {
    commit.announce_epoch();
  }
  if (options.drive == Drive::kThreads) {
    try {
      commit.start_thread();
      ticker.start_thread();
    } catch (const std::system_error& error) {
      commit.stop_thread();
      return Status(Code::kResource, std::string("cannot start a thread: ") + error.what());
    }
  }
  phase.store(Phase::kRunning);
  trim_ended();
  return {};
}

Status EngineCore::stop(std::chrono::nanoseconds drain) {
  if (forks != fork_count()) {
    return Status(Code::kForked, "the engine belongs to the parent process");
  }
  const std::lock_guard lock(lifecycle);
  const Phase before = phase.exchange(Phase::kStopped);
  if (before == Phase::kStopped || before == Phase::kRecovering) {
    return stop_status;  // A log that could not be loaded is left as it was.
  }
  dispatcher.close();
  ticker.stop_thread();
  const bool drained = dispatcher.drained(drain);
  if (!drained) {
    std::string names;
    for (const TaskId id : dispatcher.running()) {
      names += (names.empty() ? "task " : ", task ") + std::to_string(id.value);
    }
    dispatcher.refuse_answers();
    stop_status = Status(Code::kTimedOut, "still running: " + names);
  }
  commit.stop(drained);
  return stop_status;
}

std::size_t EngineCore::poll(std::size_t limit) {
  if (!open_for_calls().ok() || phase.load() != Phase::kRunning) {
    return 0;
  }
  commit.commit_once();
  const std::size_t handed_over = ticker.step(limit);
  // An inline executor runs handlers in here. The rings are bounded: again while they empty.
  std::size_t waiting = dispatcher.ensure_workers();
  for (std::size_t before = 0; waiting != 0 && waiting != before;) {
    before = std::exchange(waiting, dispatcher.ensure_workers());
  }
  commit.commit_once();
  return handed_over;
}

TaskInfo EngineCore::info(const Shard& shard, TaskId id, const Node& node) const {
  const NodeContent content = content_of(node);
  TaskInfo info;
  info.id = id;
  info.state = node.load().state();
  const DueTime due = table.due_of(shard, slot_of(id.index()));
  info.clock = due.clock;
  info.type = types.at(content.type)->name;
  info.key = node.key();
  info.payload = node.payload();
  info.deadline = WallTime(std::chrono::nanoseconds(due.wall_ns));
  info.boot_deadline_ns = due.clock == ClockKind::kBoot ? due.deadline_ns : 0;
  info.order_lsn = {content.lsn};
  info.attempts = content.attempts;
  info.failures = content.failures;
  info.crashes = content.crashes;
  if (const auto error = shard.errors.find(id.value); error != shard.errors.end()) {
    info.last_error = error->second;
  }
  const Attributes attributes = table.attributes_of(shard, slot_of(id.index()));
  info.dead_reason = attributes.reason;
  info.died_at = WallTime(std::chrono::nanoseconds(attributes.died_wall_ns));
  info.requeued_from = attributes.requeued_from;
  info.group = attributes.group;
  info.runs = attributes.runs;
  return info;
}

Result<TaskInfo> EngineCore::find(TaskId id) const {
  if (Status status = open_for_reading(); !status.ok()) {
    return status;
  }
  auto& tasks = const_cast<TaskTable&>(table);
  Shard& shard = tasks.shard_for(id);
  const std::lock_guard lock(shard.mutex);
  const Node* node = tasks.find(shard, id);
  if (node == nullptr) {
    return Status(Code::kNotFound);
  }
  const State state = node->load().state();
  if (state == State::kCancelled || state == State::kDone || gone_with_group(shard, *node, id)) {
    return Status(Code::kNotFound);
  }
  return info(shard, id, *node);
}

std::vector<TaskInfo> EngineCore::list(TaskId after, std::size_t limit, bool dead_only) const {
  std::vector<TaskInfo> tasks;
  if (!open_for_reading().ok()) {
    return tasks;
  }
  auto& shards = const_cast<TaskTable&>(table);
  std::uint32_t number = shard_of(after.index());
  std::uint32_t slot = after ? slot_of(after.index()) + 1 : 0;
  for (; number < kShards && tasks.size() < limit; ++number, slot = 0) {
    Shard& shard = shards.shard(number);
    const std::lock_guard lock(shard.mutex);
    for (; slot < shard.used_slots && tasks.size() < limit; ++slot) {
      const Node& node = shard.nodes.at(slot);
      const State state = node.load().state();
      const bool live = state == State::kScheduled || state == State::kRunning;
      const TaskId id = TaskId::of(number << kSlotBits | slot, node.load().generation());
      if (state == State::kDead || (live && !dead_only && !gone_with_group(shard, node, id))) {
        tasks.push_back(info(shard, id, node));
      }
    }
  }
  return tasks;
}

Stats EngineCore::stats() const {
  Stats stats;
  if (!open_for_reading().ok()) {
    return stats;
  }
  {
    const AllShards locked(table);
    for (std::uint32_t i = 0; i < kShards; ++i) {
      const ShardCounts& counts = table.shard(i).counts;
      stats.scheduled += counts.scheduled;
      stats.done += counts.done;
      stats.cancelled += counts.cancelled;
      stats.dead += counts.dead;
      stats.replaced += counts.replaced;
      stats.failed_attempts += counts.failed_attempts;
      stats.pending += counts.pending();
    }
    stats.pending_bytes = limits.bytes();
  }
  stats.group_visits = group_visits.load(std::memory_order_relaxed);
  stats.refused = refused.load(std::memory_order_relaxed);
  stats.crashes = restored_crashes;
  dispatcher.fill(&stats);
  ticker.fill(&stats);
  commit.fill(&stats);
  return stats;
}

std::string EngineCore::check_invariants() {
  if (Status status = open_for_reading(); !status.ok()) {
    return status.text();
  }
  std::uint64_t pending = 0;
  for (std::uint32_t number = 0; number < kShards; ++number) {
    Shard& shard = table.shard(number);
    const std::lock_guard lock(shard.mutex);
    std::uint64_t live = 0;
    std::uint64_t dead = 0;
    std::uint64_t keyed = 0;
    for (std::uint32_t slot = 0; slot < shard.used_slots; ++slot) {
      const Node& node = shard.nodes.at(slot);
      const State state = node.load().state();
      dead += state == State::kDead ? 1 : 0;
      const bool beside = shard.attributes.contains(slot) || shard.groups.of(slot) != 0;
      if (node.has(kFlagAttributes) != beside) {
        return "slot " + std::to_string(slot) + " of shard " + std::to_string(number) +
               " has attributes and says otherwise, or the reverse";
      }
      if (node.has(kFlagTouched) != shard.touches.contains(slot)) {
        return "slot " + std::to_string(slot) + " of shard " + std::to_string(number) +
               " was touched and says otherwise, or the reverse";
      }
      keyed += state == State::kDone && table.attributes_of(shard, slot).done_until_wall_ns != 0;
      if (state != State::kScheduled && state != State::kRunning) {
        continue;
      }
      ++live;
      if (shard.groups.lists(slot) != (shard.groups.of(slot) != 0)) {
        return "slot " + std::to_string(slot) + " of shard " + std::to_string(number) +
               " lives and is not listed by its group";
      }
      if (node.key_bytes != 0 && !node.has(kFlagKeyLost)) {
        ++keyed;
        const auto holder = table.find_key(shard, number, node.key());
        if (!holder || slot_of(*holder) != slot) {
          return "slot " + std::to_string(slot) + " of shard " + std::to_string(number) +
                 " is not found by its key";
        }
      }
    }
    if (live != shard.counts.pending() || dead != shard.counts.dead) {
      return "shard " + std::to_string(number) + " counts " +
             std::to_string(shard.counts.pending()) + " pending and holds " + std::to_string(live) +
             ", counts " + std::to_string(shard.counts.dead) + " dead and holds " +
             std::to_string(dead);
    }
    if (keyed != shard.keys.size()) {
      return "shard " + std::to_string(number) + " has " + std::to_string(shard.keys.size()) +
             " keys for " + std::to_string(keyed) + " tasks";
    }
    pending += live;
  }
  if (pending != limits.count()) {
    return "pending is " + std::to_string(pending) + ", the limit counts " +
           std::to_string(limits.count());
  }
  return ticker.check_invariants();
}

}  // namespace countwheel::detail
