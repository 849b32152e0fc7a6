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
              events,
              [this](Event::Kind kind, Shard& shard, const Op& op) {
                tell(kind, shard, op.id, op.lsn, op.reason);
              },
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
                  [this] { trim_ended(); },
                  [this](const Deadline& deadline) { return resolve(deadline, now(), options); },
                  [this](const Writes& writes) { return check_writes(writes); }},
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

void EngineCore::set_host_now(Instant now) {
  if (host_has_time.load()) {
    now.boot_ns = std::max(now.boot_ns, host_boot_ns.load());
  }
  host_wall_ns.store(now.wall_ns);
  host_boot_ns.store(now.boot_ns);
  host_has_time.store(true);
}

Status EngineCore::listen(Listener listener) {
  if (Status status = open_for_calls(); !status.ok()) {
    return status;
  }
  if (!listener) {
    return Status(Code::kInvalidArgument, "the listener is empty");
  }
  if (phase.load() == Phase::kRunning) {
    return Status(Code::kInvalidArgument, "listen() comes before start()");
  }
  return events.listen(std::move(listener)) ? Status()
                                            : Status(Code::kExists, "somebody listens already");
}

void EngineCore::tell(Event::Kind kind,
                      Shard& shard,
                      TaskId id,
                      std::uint64_t lsn,
                      DeadReason reason) {
  const Node& node = shard.nodes.at(slot_of(id.index()));
  events.add({kind,
              reason,
              0,
              id,
              {lsn},
              types.at(node.type.load(std::memory_order_relaxed))->name,
              std::string(node.key())});
}

Instant EngineCore::now() const noexcept {
  Instant now = host_has_time.load(std::memory_order_relaxed)
                    ? Instant{host_wall_ns.load(std::memory_order_relaxed),
                              host_boot_ns.load(std::memory_order_relaxed)}
                    : clock.now();
  now.wall_ns = std::max(now.wall_ns, wall_floor_ns.load(std::memory_order_relaxed));
  return now;
}

std::int64_t EngineCore::now_on(ClockKind face) const noexcept {
  if (host_has_time.load(std::memory_order_relaxed)) {
    return now().on(face);
  }
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
      ticker.start_thread(options.tick_thread);
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

}  // namespace countwheel::detail
