// Dispatcher: from a due entry to the end of its attempt.
//
//   tick thread: hand_over() ──▶ the type's ring ──▶ worker: claim ──▶ start (CAS) ──▶ handler
//   answer ──▶ worker's group ──▶ end_attempt() under the shard lock: state + record in one step
//
// Workers pull: one posted piece of work drains the rings until they are empty. A task in a ring
// is still scheduled, so cancel() wins until the CAS.
#ifndef COUNTWHEEL_ENGINE_DISPATCHER_H_
#define COUNTWHEEL_ENGINE_DISPATCHER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
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
#include "mailbox.h"
#include "pending_limits.h"
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
};

// One drain() in progress: what its handlers have finished and not been ended yet.
struct Worker {
  const Dispatcher* owner = nullptr;
  std::vector<std::pair<InFlight*, Outcome>> finished;
  // When the first of them started, on the clock of its deadline.
  std::int64_t group_started_ns = 0;
  ClockKind group_clock = ClockKind::kWall;
  std::vector<std::uint32_t> cells;
  // Destroyed by an exception of the handler that runs; its text follows. Kept here and not with
  // the delivery, whose place is another's as soon as it has been answered elsewhere.
  InFlight* thrown = nullptr;
};

// Thread contract: hand_over() and ensure_workers() by the tick thread; answers from any thread.
class Dispatcher {
 public:
  Dispatcher(DispatchParts parts, Durability durability, FailurePolicy on_failure);

  void set_executor(Executor* executor) noexcept { executor_ = executor; }

  // -- The tick thread --

  // Queues due entries by type, in order; ensure_workers() makes them run.
  void hand_over(std::span<const std::pair<std::uint16_t, DueEntry>> entries);
  // Moves overflow into the rings and posts work for what waits; answers how many wait.
  std::size_t ensure_workers() noexcept;

  // -- Answers --

  Status answer(InFlight* in_flight, Outcome outcome);
  // The delivery is destroyed: a failed attempt, but for an exception whose text is still to come.
  void drop(InFlight* in_flight) noexcept;
  std::uint64_t epoch() const noexcept { return parts_.commit.epoch(); }
  // True in a handler, of any engine.
  static bool in_handler() noexcept;
  // True in the handler of this task of this engine.
  bool in_handler_of(TaskId id) const noexcept;

  // -- Stopping --

  // No handler starts any more.
  void close() noexcept { closed_.store(true); }
  bool closed() const noexcept { return closed_.load(); }
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
  void start(Worker& worker, TaskType& type, const DueEntry& entry);
  void run_handler(Worker& worker, TaskType& type, InFlight* in_flight);
  void flush(Worker& worker);
  bool any_waiting() const noexcept;
  bool enter() noexcept;
  void leave() noexcept;
  void end_running() noexcept;

  // end_attempt.cc
  void end_attempts(std::span<const std::pair<InFlight*, Outcome>> ended);
  std::uint32_t end_attempt(Shard& shard, InFlight* in_flight, const Outcome& outcome);
  void end_done(Shard& shard, InFlight* in_flight);
  void end_failed(Shard& shard, InFlight* in_flight, const Outcome& outcome);
  void end_dead(Shard& shard, InFlight* in_flight, DeadReason reason, std::string_view text);
  void end_dropped(Shard& shard, InFlight* in_flight, bool replaced);
  void end_retry(Shard& shard, InFlight* in_flight, const Outcome& outcome);
  void forget_key(Shard& shard, InFlight* in_flight);
  std::uint32_t unblock_successor(Shard& shard, std::uint32_t index);
  Op record(OpKind kind, const InFlight* in_flight) const;

  DispatchParts parts_;
  const Durability durability_;
  const FailurePolicy on_failure_;
  Executor* executor_ = nullptr;
  std::unique_ptr<InFlight[]> in_flight_;  // by cell

  // Posted pieces of work that have not left. seq_cst throughout: partners are the tails of the
  // rings (a worker that leaves looks again, the tick thread that published looks at it).
  std::atomic<std::size_t> active_{0};
  std::atomic<bool> closed_{false};
  std::atomic<bool> refusing_{false};

  std::atomic<std::uint64_t> started_{0};
  std::atomic<std::uint64_t> skipped_{0};
  std::atomic<std::uint64_t> running_{0};  // started and not answered

  // Posted pieces of work that have not returned. It and running_ come to zero under the mutex, as
  // the last touch of their threads: who then sees zero may destroy the dispatcher.
  std::atomic<std::size_t> inside_{0};
  std::mutex drained_mutex_;
  std::condition_variable drained_;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_DISPATCHER_H_
