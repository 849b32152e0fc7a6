// Engine: schedule, cancel and reschedule durable tasks; their handlers run when they are due.
//
//   auto engine = countwheel::Engine::create({});        // in memory; countwheel::open() for a log
//   (*engine)->on("greet", [](countwheel::Delivery d) { puts("hello"); d.done(); });
//   (*engine)->start();
//   auto id = (*engine)->schedule({.type = "greet", .deadline = countwheel::after(10ms)});
//
// Promises: never early on the clock of the deadline; never lost once acknowledged; a cancel that
// answered `cancelled` is never followed by a start. Delivery is at-least-once
// (docs/durability.md).
//
// Every mutation has two forms. submit...() returns at once with the LSN of its record; the plain
// form returns when that record has the durability asked for. (countwheel/asio.h has a third, for
// event loops.) An outcome other than ok is final and changed nothing, with one exception:
// `journal_failed` and a wait's `timed_out` leave the outcome unknown.
//
// Thread contract: safe for concurrent use, from handlers too, but for the calls marked "before
// start()". A handler may call anything but stop() and the destructor. In a fork of the process
// every call answers `forked`, and the destructor leaves everything to the parent.
#ifndef COUNTWHEEL_ENGINE_H_
#define COUNTWHEEL_ENGINE_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <countwheel/clock.h>
#include <countwheel/event.h>
#include <countwheel/executor.h>
#include <countwheel/handler.h>
#include <countwheel/journal.h>
#include <countwheel/notice.h>
#include <countwheel/options.h>
#include <countwheel/recurrence.h>
#include <countwheel/stats.h>
#include <countwheel/status.h>
#include <countwheel/task.h>
#include <countwheel/writes.h>

namespace countwheel {

namespace detail {
class EngineCore;
}  // namespace detail

// What an engine stands on. Borrowed parts must outlive it; null is the default named.
struct EngineParts {
  Clock* clock = nullptr;            // SystemClock::instance()
  Executor* executor = nullptr;      // a thread pool of EngineOptions::workers
  std::unique_ptr<Journal> journal;  // NullJournal
};

// The answer of schedule(): the id, and what was reached, which may be more than was asked for when
// others were written with it.
struct Scheduled : TaskId {
  Lsn lsn;
  Durability reached = Durability::kMemory;
};

// The answer of submit().
struct Submitted {
  TaskId id;
  Lsn lsn;                // of the record; acknowledge when wait_durable() says ok
  bool replaced = false;  // KeyPolicy::kReplace moved a live task
  bool kept = false;      // KeyPolicy::kKeep found one; its record is not above `lsn`
};

// The answer of cancel and reschedule. `status` is
//   cancel       cancelled | too_late (it is running or was; cancel_requested() is set) | not_found
//   reschedule   ok | too_late | not_found | out_of_range; with an expected deadline also changed
// or one of the refusals and failures that every call may answer.
struct Change {
  Status status;
  TaskId id;
  Lsn lsn;
  WallTime deadline;  // the task's absolute deadline before the call
  // How far the record is when the call returns: at least as far as was asked for. Of a submit...()
  // always kMemory.
  Durability reached = Durability::kMemory;

  // True if and only if the task was cancelled or moved.
  explicit operator bool() const noexcept {
    return status.code() == Code::kOk || status.code() == Code::kCancelled;
  }
};

// The answer of a call for a group. `status` is ok, `not_found` when it has no live task, or one of
// the refusals and failures that every call may answer.
struct GroupChange {
  Status status;
  Lsn lsn;
  std::uint64_t count = 0;  // live tasks of the group at the call, running ones included
  Durability reached = Durability::kMemory;  // as of Change
};

class Engine {
 public:
  // `invalid_argument` names the option; `resource` when descriptors or threads are lacking.
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options,
                                                EngineParts parts = {});
  // Stops first, waiting for running handlers as long as they take.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Registers the handler of a type. A type without one is parked: its due tasks are kept and run
  // once a handler is there. `exists` when the type has a handler, `invalid_argument` for a name
  // that is not 1 to 64 bytes or a policy that makes no sense.
  Status on(std::string_view type, Handler handler, TypePolicy policy = {});

  // The same for a handler that is given several due tasks at once, up to TypePolicy::max_batch, in
  // order. Each is answered by itself; those that are not, or all that are left when it throws, are
  // failed attempts.
  Status on_batch(std::string_view type, BatchHandler handler, TypePolicy policy = {});

  // Tells the end of every task (event.h), one event at a time: on the commit thread, on a caller
  // that waits, or in poll(); never on the tick thread. The listener may call anything a handler
  // may, and should be quick: callers wait behind it. Before start(); `exists` when there is one.
  Status listen(Listener listener);

  // Starts the threads (Drive::kThreads) and lets tasks fall due. Scheduling is allowed before.
  // `resource` when a thread cannot be started; it may be called again then.
  Status start();

  // No handler starts any more; waits up to `drain` for those that run, writes a clean-stop mark
  // and joins the threads. Tasks that did not start stay in the log. `timed_out` names the tasks
  // that would not end; the engine is stopped all the same and their late answers are refused.
  // Idempotent. Calls afterwards answer `stopped`.
  Status stop(std::chrono::nanoseconds drain = std::chrono::seconds(30));

  // -- Tasks. `exists`'s text and find(key) name the live task. --

  Result<Scheduled> schedule(const TaskSpec& spec);
  Result<Submitted> submit(const TaskSpec& spec);
  // Each on its own, in order; `out` is filled up to the first refusal, whose Status is returned.
  // REQUIRES: out.size() >= specs.size().
  Status submit_batch(std::span<const TaskSpec> specs, std::span<Submitted> out);

  Change cancel(TaskId id, Durability durability);
  Change cancel(std::string_view key, Durability durability);
  Change submit_cancel(TaskId id, Durability durability);
  Change submit_cancel(std::string_view key, Durability durability);
  Change reschedule(TaskId id, Deadline deadline, Durability durability);
  Change reschedule(std::string_view key, Deadline deadline, Durability durability);
  Change submit_reschedule(TaskId id, Deadline deadline, Durability durability);
  Change submit_reschedule(std::string_view key, Deadline deadline, Durability durability);
  // At EngineOptions::durability.
  Change cancel(TaskId id);
  Change cancel(std::string_view key);
  Change submit_cancel(TaskId id);
  Change submit_cancel(std::string_view key);
  Change reschedule(TaskId id, Deadline deadline);
  Change reschedule(std::string_view key, Deadline deadline);
  Change submit_reschedule(TaskId id, Deadline deadline);
  Change submit_reschedule(std::string_view key, Deadline deadline);

  // Only if the task's absolute deadline is still `expected`, as Change::deadline and
  // TaskInfo::deadline give it; `changed` with the deadline it has if not. Compare and swap: of two
  // callers that have seen the same deadline one moves the task.
  Change reschedule_if(TaskId id, WallTime expected, Deadline deadline);
  Change reschedule_if(std::string_view key, WallTime expected, Deadline deadline);

  // -- Touch: a deadline that is put off again and again, as heartbeats do --
  //
  // Moves the task's deadline to `deadline`, on the clock it is on, if that is later; never closer.
  // Costs a lock and a look into a hash table: the wheel finds out when the old deadline comes, and
  // the log is told a deadline EngineOptions::touch_interval ahead, so at most once in that time.
  // After a restart the task is late by at most the interval, never early. Answers as reschedule()
  // does; `invalid_argument` when the deadline is on the other clock.

  Change touch(TaskId id, Deadline deadline);
  Change touch(std::string_view key, Deadline deadline);
  Change submit_touch(TaskId id, Deadline deadline);
  Change submit_touch(std::string_view key, Deadline deadline);

  // -- Groups: all live tasks with the same TaskSpec::group --
  //
  // One record and a time that does not depend on the size of the group: the call decides for all
  // members at once and the tick thread takes it to them, in order, a few hundred a step. From the
  // call on no member starts that was cancelled, and none at its old deadline. Running members are
  // too late to be cancelled or moved; cancel_requested() is set for them, with the sweep.

  GroupChange cancel_group(std::uint64_t group, std::optional<Durability> durability = {});
  GroupChange submit_cancel_group(std::uint64_t group, std::optional<Durability> durability = {});
  // To one deadline, at which they are handed over in the order of their own schedules.
  GroupChange reschedule_group(std::uint64_t group,
                               Deadline deadline,
                               std::optional<Durability> durability = {});
  GroupChange submit_reschedule_group(std::uint64_t group,
                                      Deadline deadline,
                                      std::optional<Durability> durability = {});
  // All due now: the close of a session.
  GroupChange expire_group(std::uint64_t group, std::optional<Durability> durability = {});
  GroupChange submit_expire_group(std::uint64_t group, std::optional<Durability> durability = {});
  // Live tasks of the group, running ones included.
  std::uint64_t group_count(std::uint64_t group) const;

  // -- With writes of the application to the database of the log (countwheel/writes.h) --
  //
  // They commit with the record of the call, in the order of LSNs, or not at all: not when the call
  // answers anything but ok or `cancelled`, nor when KeyPolicy::kKeep has kept a task. They can be
  // read when the record is written: at once after the plain forms at `os` and `disk`.
  // `journal_failed` leaves both unknown, together, until the log is opened again.
  //   invalid_argument   they are no WriteBatch, name a column family that is not for the
  //                      application, or there is no database; nothing was decided
  //   too_large          EngineOptions::max_writes_bytes; nothing was decided

  Result<Scheduled> schedule(const TaskSpec& spec, const Writes& writes);
  Result<Submitted> submit(const TaskSpec& spec, const Writes& writes);
  Change cancel(TaskId id, const Writes& writes);
  Change cancel(std::string_view key, const Writes& writes);
  Change submit_cancel(TaskId id, const Writes& writes);
  Change submit_cancel(std::string_view key, const Writes& writes);
  // Delivery::done(writes) is the third. Null without a database; the type is in
  // countwheel/rocksdb.h.
  AppDatabase* app_database() const noexcept;

  // Live tasks and dead letters; `not_found` for anything else.
  Result<TaskInfo> find(TaskId id) const;
  Result<TaskInfo> find(std::string_view key) const;
  // Up to `limit` live tasks and dead letters with an id above `after`, ascending by index.
  std::vector<TaskInfo> list(TaskId after, std::size_t limit) const;
  // Due is decided by the deadline and the clock alone, not by the hand-over.
  Result<bool> is_due(TaskId id) const;
  Result<bool> is_due(std::string_view key) const;

  // -- Dead letters: tasks that are not tried any more. They are kept, with their key, payload and
  //    last error, until somebody requeues or purges them or EngineOptions lets them go. --

  // Up to `limit` with an id above `after`, ascending by index. One alone: find(id).
  std::vector<TaskInfo> dead_letters(TaskId after, std::size_t limit) const;
  // Makes a new task of one, with the same type, key, payload and rules and no failures, due at
  // once or at `deadline`; the letter is gone with the same record. `not_found` when `id` is no
  // dead letter, `exists` when a live task has its key.
  Result<TaskId> requeue(TaskId id, Deadline deadline = {});
  Result<Submitted> submit_requeue(TaskId id, Deadline deadline = {});
  // Forgets one. ok or `not_found`.
  Change purge(TaskId id);
  Change submit_purge(TaskId id);

  // -- Pause --

  // No more handlers of this type start; without a type, none at all. Due tasks wait as backlog and
  // can be cancelled. Of the tasks that a worker has taken already, at most 8, some may still
  // start. Not logged: an engine starts unpaused, but it may be paused before start(). `not_found`
  // for a type nobody has named. Idempotent; a pause of everything and one of a type are two.
  Status pause(std::string_view type = {});
  Status resume(std::string_view type = {});
  // No more handlers of this group's tasks start, also of those that join it later; with the resume
  // those that fell due meanwhile are handed over again. Not logged, like the others.
  Status pause_group(std::uint64_t group);
  Status resume_group(std::uint64_t group);

  // -- Durability --

  // The highest LSN up to which everything has reached `durability` or was rolled back: which of
  // both, wait_durable() says without waiting.
  Lsn durable_lsn(Durability durability = Durability::kDisk) const noexcept;
  // How far everything up to `lsn` has travelled, as far as it was not rolled back.
  Durability reached(Lsn lsn) const noexcept;
  // ok when durable_lsn(durability) >= lsn; the failure of the operation at `lsn` when it was
  // rolled back; `timed_out` leaves the outcome unknown.
  Status wait_durable(Lsn lsn,
                      Durability durability = Durability::kDisk,
                      std::chrono::nanoseconds timeout = std::chrono::hours(24 * 365));
  // wait_durable() for a caller that must not block: `notice` is called once, with what the wait
  // would have answered. It may be called before this returns. Somebody else commits meanwhile: the
  // commit thread, or the next poll() with Drive::kHost; nobody before start(). What is not settled
  // when the engine stops hears `stopped`, which here leaves the outcome unknown.
  void notify_durable(Lsn lsn, Durability durability, const Notice& notice);
  // True if and only if the notice was still waiting; it will not be called.
  bool withdraw_notice(Lsn lsn, Durability durability, const Notice& notice);
  // Commits what is queued, on this thread. Only needed with Drive::kHost.
  Status flush(Durability durability = Durability::kDisk);

  // -- Drive::kHost --

  // One step: commits, advances the wheels to the clock's now, and hands over up to `limit` due
  // tasks in (deadline, LSN) order. Returns how many were handed over. By one thread at a time.
  std::size_t poll(std::size_t limit = static_cast<std::size_t>(-1));
  // The same with the host's time instead of the clock's, which from then on is the time of all
  // calls: an engine that is given the same calls with the same times does the same, live, replayed
  // and recovered. The boot face never goes back.
  std::size_t poll(Instant now, std::size_t limit = static_cast<std::size_t>(-1));
  // When poll() should be called next, on each face: now while something is on its way to the
  // wheels, kNever when nothing is pending. With a log and `os` also within os_sync_bound of the
  // last call, since nobody else syncs.
  Instant next_wake() const;

  // Visits every live task and dead letter as they are at one LSN, which is the answer: for a
  // snapshot of the host's. Nothing changes meanwhile: callers wait. `visit` must not call the
  // engine.
  Result<Lsn> snapshot(const std::function<void(const TaskInfo&)>& visit) const;

  // -- Insight --

  Stats stats() const;
  const EngineOptions& options() const noexcept;
  // Walks everything; an empty string when all is well. For tests: stops the world meanwhile.
  std::string check_invariants() const;

 private:
  friend class Restorer;
  explicit Engine(std::unique_ptr<detail::EngineCore> core);
  std::unique_ptr<detail::EngineCore> core_;
};

}  // namespace countwheel

#endif  // COUNTWHEEL_ENGINE_H_
