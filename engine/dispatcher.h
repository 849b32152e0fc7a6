// Dispatcher: from a due entry to the end of its attempt.
//
//   tick thread: hand_over() ──▶ the type's ring ──▶ worker: claim ──▶ start (CAS) ──▶ handler
//   answer ──▶ worker's group ──▶ end_attempt() under the shard lock: state + record in one step
//
// Workers pull: one posted piece of work drains the rings until they are empty. A task in a ring
// is still scheduled, so cancel() wins until the CAS.
#ifndef COUNTWHEEL_ENGINE_DISPATCHER_H_
#define COUNTWHEEL_ENGINE_DISPATCHER_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <countwheel/clock.h>
#include <countwheel/executor.h>
#include <countwheel/handler.h>
#include <countwheel/options.h>
#include <countwheel/stats.h>

#include "cell_pool.h"
#include "group_commit.h"
#include "in_flight.h"
#include "leases.h"
#include "mailbox.h"
#include "pending_limits.h"
#include "place_pool.h"
#include "resolved_deadline.h"
#include "task_table.h"
#include "task_type.h"

namespace countwheel::detail {

// What the dispatcher works with; all outlive it.
struct DispatchParts {
  TaskTable& table;
  TypeRegistry& types;
  GroupCommit& commit;
  Mailbox& mailbox;
  CellPool& cells;
  Limits& limits;
  std::function<std::int64_t(ClockKind)> now_on;
  std::function<void()> wake_ticker;
  std::function<void()> trim_ended;
  std::function<Result<ResolvedDeadline>(const Deadline&)> resolve;
  std::function<Status(const Writes&)> check_writes;
};

// One drain() in progress: what its handlers have finished and not been ended yet.
struct Worker {
  // Of this thread, while it drains; and the task whose handler it is in.
  static thread_local Worker* current;
  static thread_local std::span<const TaskId> current_ids;

  const Dispatcher* owner = nullptr;
  std::vector<std::pair<InFlight*, Outcome>> finished;
  // When the first of them started, on the clock of its deadline.
  std::int64_t group_started_ns = 0;
  ClockKind group_clock = ClockKind::kWall;
  std::vector<std::uint32_t> cells;
  PlacePool::Cache places;
  std::array<DueEntry, DueRing::kClaimMax> claim;
  bool met_rate = false;   // it leaves tasks behind that a rate holds back
  std::uint64_t call = 0;  // counts calls of handlers
  // Destroyed by an exception of the handler that runs; its text follows. Kept here and not with
  // the delivery, whose place is another's as soon as it has been answered elsewhere.
  std::vector<InFlight*> thrown;
  std::vector<InFlight*> begun;  // the batch that is being put together
};

// Thread contract: hand_over() and ensure_workers() by the tick thread; answers from any thread.
class Dispatcher {
 public:
  Dispatcher(DispatchParts parts, Durability durability, FailurePolicy on_failure);

  void set_executor(Executor* executor) noexcept { executor_ = executor; }
  // Before the start: tasks that were due by then and scheduled up to `lsn` were missed.
  void set_restored(std::uint64_t lsn) noexcept { restored_lsn_ = lsn; }

  // -- The tick thread --

  // Queues due entries by type, in order; ensure_workers() makes them run.
  void hand_over(std::span<const std::pair<std::uint16_t, DueEntry>> entries);
  // Moves overflow into the rings and posts work for what waits; answers how many wait.
  std::size_t ensure_workers() noexcept;

  // Ends the attempts whose leases are over. `watching`: it is called every Leases::kBeatNs.
  void sweep_leases(std::int64_t boot_now_ns, bool watching);
  // When ensure_workers() must be called again because a rate allows more, on the boot clock.
  std::int64_t next_allowed() const noexcept {
    return next_allowed_ns_.load(std::memory_order_relaxed);
  }
  // When the next lease ends, on the boot clock; kNever when there is none.
  std::int64_t next_lease_end() const { return leases_.next(); }

  // -- Answers --

  Status answer(InFlight* in_flight, Outcome outcome);
  // Whether done() may bring these.
  Status check_writes(const Writes& writes) const { return parts_.check_writes(writes); }
  // The delivery is destroyed: a failed attempt, but for an exception whose text is still to come.
  void drop(InFlight* in_flight) noexcept;
  // Until `until`, which is refused if it makes no sense: the delivery is as it was then.
  Status keep(InFlight** in_flight, const Deadline& until);
  Status extend_lease(InFlight* in_flight, std::chrono::nanoseconds by);
  std::uint64_t epoch() const noexcept { return parts_.commit.epoch(); }
  // True in a handler, of any engine.
  static bool in_handler() noexcept;
  // True in the handler of this task of this engine.
  bool in_handler_of(TaskId id) const noexcept;

  // -- Stopping --

  // No handler starts any more.
  void close() noexcept { closed_.store(true); }
  bool closed() const noexcept { return closed_.load(); }
  void set_paused(bool paused) noexcept { paused_.store(paused); }
  // Waits until no handler runs and no delivery is unanswered; false when `timeout` passed first.
  bool drained(std::chrono::nanoseconds timeout);
  // Late answers are refused from here on.
  void refuse_answers() noexcept { refusing_.store(true); }
  // The tasks that are still running.
  std::vector<TaskId> running() const;

  void fill(Stats* stats) const;

 private:
  static void run_work(void* self) noexcept { static_cast<Dispatcher*>(self)->drain(); }
  void drain() noexcept;
  bool drain_once(Worker& worker, std::size_t* next_type);
  bool take_cells(Worker& worker);
  bool may_start() const noexcept;
  void run_claim(Worker& worker, TaskType& type, std::span<const DueEntry> claim);
  bool begin(Worker& worker, TaskType& type, const DueEntry& entry, InFlight** begun);
  InFlight* place(Worker& worker, TaskType& type, const DueEntry& entry, std::int64_t now_ns);
  bool missed(const Node& node) const noexcept;
  void run_batch(Worker& worker, TaskType& type);
  template <class Call>
  std::string call(Worker& worker, std::span<const TaskId> ids, Call&& handler);
  bool admit(TaskType* type, const DueEntry& entry);
  std::int64_t spread(TaskType* type);
  void end_kept(Shard& shard, InFlight* in_flight, const Outcome& outcome);
  bool make_running(Node& node, const DueEntry& entry);
  bool put_off(Shard& shard, const DueEntry& entry);
  std::optional<Outcome::Kind> not_to_start(InFlight* in_flight);
  void run_handler(Worker& worker, TaskType& type, InFlight* in_flight);
  void flush(Worker& worker);
  // When the next of its type may start; a time in the past is now, kNever when something else
  // must happen first.
  std::int64_t may_start_at(const TaskType& type) const noexcept;
  std::int64_t now_for(const TaskType& type) const noexcept;
  bool any_waiting() const noexcept;
  bool enter() noexcept;
  void leave() noexcept;
  void end_running() noexcept;

  // end_attempt.cc
  void end_attempts(std::span<const std::pair<InFlight*, Outcome>> ended);
  static bool is_plain(const Shard& shard,
                       const InFlight* in_flight,
                       const Outcome& outcome) noexcept;
  Op end_plain(Shard& shard, InFlight* in_flight);
  struct PlainEnds;
  std::optional<std::uint32_t> end_attempt(Shard& shard,
                                           InFlight* in_flight,
                                           const Outcome& outcome);
  void end_done(Shard& shard, InFlight* in_flight, std::string_view writes);
  void log_again(const InFlight* in_flight, std::string_view attributes);
  void end_failed(Shard& shard, InFlight* in_flight, const Outcome& outcome);
  void end_dead(Shard& shard, InFlight* in_flight, DeadReason reason, std::string_view text);
  void end_run_dead(Shard& shard, InFlight* in_flight, DeadReason reason, std::string_view text);
  // end_repeat.cc
  bool end_repeat(Shard& shard, InFlight* in_flight, bool ran, std::string_view writes = {});
  void file_again(Shard& shard,
                  InFlight* in_flight,
                  const NodeContent& content,
                  OpBytes bytes,
                  Attributes attributes);

  void end_dropped(Shard& shard, InFlight* in_flight, bool replaced);
  void end_retry(Shard& shard,
                 InFlight* in_flight,
                 std::string_view reason,
                 std::int64_t delay_ns,
                 Attributes attributes);
  Attributes attributes_of(const Shard& shard, const InFlight* in_flight) const;
  void leave(Shard& shard, InFlight* in_flight);
  bool cancel_requested(const Shard& shard, const InFlight* in_flight) const;
  Op record(OpKind kind, const InFlight* in_flight) const;

  DispatchParts parts_;
  const Durability durability_;
  const FailurePolicy on_failure_;
  Executor* executor_ = nullptr;
  std::uint64_t restored_lsn_ = 0;
  PlacePool places_;  // of those without a lease
  Leases leases_;

  // Posted pieces of work that have not left. seq_cst throughout: partners are the tails of the
  // rings (a worker that leaves looks again, the tick thread that published looks at it).
  std::atomic<std::size_t> active_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> refusing_{false};
  std::atomic<bool> paused_{false};
  // Written and read by the tick thread, or the host.
  std::atomic<std::int64_t> next_allowed_ns_{kNever};

  std::atomic<std::uint64_t> started_{0};
  std::atomic<std::uint64_t> skipped_{0};
  std::atomic<std::uint64_t> repeated_{0};
  std::atomic<std::uint64_t> running_{0};  // started and not answered

  // Posted pieces of work that have not returned. It and running_ come to zero under the mutex, as
  // the last touch of their threads: who then sees zero may destroy the dispatcher.
  std::atomic<std::size_t> inside_{0};
  std::mutex drained_mutex_;
  std::condition_variable drained_;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_DISPATCHER_H_
