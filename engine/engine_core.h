// EngineCore: the parts of an engine and how they are joined. Engine is its face.
#ifndef COUNTWHEEL_ENGINE_ENGINE_CORE_H_
#define COUNTWHEEL_ENGINE_ENGINE_CORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include <countwheel/engine.h>
#include <countwheel/restore.h>

#include "cell_pool.h"
#include "dispatcher.h"
#include "events.h"
#include "group_commit.h"
#include "mailbox.h"
#include "pending_limits.h"
#include "resolved_deadline.h"
#include "task_table.h"
#include "task_type.h"
#include "ticker.h"

namespace countwheel::detail {

// Pure: checks `deadline` against `now` and the limits (resolve.cc). Deadlines on the wall need
// only that face of `now`.
Result<ResolvedDeadline> resolve(const Deadline& deadline,
                                 const Instant& now,
                                 const EngineOptions& options);
// Pure: sizes of a spec against the limits.
Status check_sizes(const TaskSpec& spec, const EngineOptions& options);
// Slack in microseconds; `out_of_range` outside [0, 60 s].
Result<std::uint32_t> slack_us(std::chrono::nanoseconds slack);

// Counts forks of this process, from the child's side: an engine of the parent is not ours.
std::uint32_t fork_count() noexcept;

class EngineCore {
 public:
  enum class Phase : std::uint8_t { kCreated, kRecovering, kRunning, kStopped };

  EngineCore(const EngineOptions& options,
             EngineParts parts,
             std::unique_ptr<Executor> own_executor,
             std::unique_ptr<Sleeper> sleeper);
  ~EngineCore();

  Instant now() const noexcept;
  std::int64_t now_on(ClockKind face) const noexcept;
  // What resolve() needs: one face is cheaper than both.
  Instant now_for(const Deadline& deadline) const noexcept;
  // ok, or why no call is possible now.
  Status open_for_calls() const;
  // The same for calls that change something, which the log must be taking too, with the
  // application's writes if there are any.
  Status open_for_mutations(const Writes& writes = {});
  // Whether the journal can take the application's writes (app_writes.cc).
  Status check_writes(const Writes& writes) const;
  // The same, and whether there is room for them on their way.
  Status accept_writes(const Writes& writes) const;
  // The same for calls that change nothing: those are possible after stop() too.
  Status open_for_reading() const;

  // -- Mutations (mutate.cc, change.cc): decided and enqueued in one step under the shard lock --

  Result<Submitted> submit(const TaskSpec& spec, const Writes& writes = {});
  Change cancel(TaskId id, Durability durability, const Writes& writes = {});
  Change cancel(std::string_view key, Durability durability, const Writes& writes = {});
  // `expected`: only if that is its deadline on the wall.
  Change reschedule(TaskId id,
                    const Deadline& deadline,
                    Durability durability,
                    std::optional<WallTime> expected = {});
  Change reschedule(std::string_view key,
                    const Deadline& deadline,
                    Durability durability,
                    std::optional<WallTime> expected = {});

  // -- Touch (touch.cc) --

  Change touch(TaskId id, const Deadline& deadline, Durability durability);
  Change touch(std::string_view key, const Deadline& deadline, Durability durability);

  // -- Dead letters (dead_letters.cc) --

  Result<Submitted> requeue(TaskId id, const Deadline& deadline, Durability durability);
  Change purge(TaskId id, Durability durability);
  // True when its window was over; the key is free then. Under the lock of the shard.
  bool forget_done(Shard& shard, TaskId id, std::int64_t wall_now_ns);
  // Purges the dead letters that EngineOptions does not keep, and done tasks whose window is over.
  void trim_ended();

  // -- Groups (group_change.cc, group_sweep.cc) --

  // Cancels the members, or moves them to `deadline`.
  GroupChange change_group(std::uint64_t group,
                           const std::optional<Deadline>& deadline,
                           Durability durability);
  Status pause_group(std::uint64_t group, bool paused);
  std::uint64_t group_count(std::uint64_t group);
  // The tick thread's: takes changes that are durable to their members; `mail` must be filed.
  // True when there is more to do.
  bool sweep_groups(std::uint64_t released, std::vector<MailItem>* mail);
  // Its group was cancelled and the tick thread has not come to it yet.
  bool gone_with_group(const Shard& shard, const Node& node, TaskId id) const {
    return node.has(kFlagAttributes) && node.load().state() == State::kScheduled &&
           table.fate_of(shard, slot_of(id.index())).cancelled;
  }

  // For the cleaner (carry.cc).
  bool carry_task(TaskId id);
  void carry_type(std::uint16_t number);
  void carry_type_record(const TaskType& type);

  Result<TaskInfo> find(TaskId id) const;
  Result<bool> is_due(const Result<TaskInfo>& task) const;
  std::vector<TaskInfo> list(TaskId after, std::size_t limit, bool dead_only) const;
  TaskInfo info(const Shard& shard, TaskId id, const Node& node) const;
  Stats stats() const;
  std::string check_invariants();

  Status register_type(std::string_view name,
                       Handler handler,
                       BatchHandler batch_handler,
                       TypePolicy policy);
  Status listen(Listener listener);
  // Drive::kHost: the time until the next call of it.
  void set_host_now(Instant now);
  Result<Lsn> snapshot(const std::function<void(const TaskInfo&)>& visit) const;
  // Of a task that ends; its slot has not been released.
  void tell(Event::Kind kind, Shard& shard, TaskId id, std::uint64_t lsn, DeadReason reason);

  Status set_paused(std::string_view type, bool paused);

  Status start();
  Status stop(std::chrono::nanoseconds drain);
  std::size_t poll(std::size_t limit);

  const EngineOptions options;
  Clock& clock;
  std::unique_ptr<Executor> own_executor;
  Executor* executor;
  std::unique_ptr<Journal> journal;
  std::uint32_t forks;

  Limits limits;
  TaskTable table;
  TypeRegistry types;
  Events events;
  Mailbox mailbox;
  CellPool cells;
  GroupCommit commit;
  Dispatcher dispatcher;
  Ticker ticker;

  std::atomic<Phase> phase{Phase::kCreated};
  std::atomic<bool> host_has_time{false};  // set_host_now() was called; by one thread
  std::atomic<std::int64_t> host_wall_ns{0};
  std::atomic<std::int64_t> host_boot_ns{0};
  std::atomic<std::int64_t> wall_floor_ns;  // ClockPolicy::kFloor: the wall is never behind this
  std::atomic<std::uint64_t> refused{0};
  std::mutex lifecycle;    // start() and stop(); held while handlers end, so they must not take it
  std::mutex registering;  // on()
  bool begun = false;      // the wheels have a beginning; guarded by lifecycle
  Status stop_status;      // guarded by lifecycle
  std::uint64_t restored_crashes = 0;
  std::atomic<std::uint64_t> group_visits{0};  // relaxed: a figure for people

 private:
  struct Request;  // a checked TaskSpec
  Result<Submitted> place(const Request& request);
  Submitted add(Shard& shard, const Request& request, TaskId id, std::uint8_t extra_flags);
  std::optional<Result<Submitted>> meet_holder(Shard& shard,
                                               const Request& request,
                                               std::uint32_t holder,
                                               bool* blocked);
  std::optional<Result<Submitted>> upsert(Shard& shard,
                                          const Request& request,
                                          std::uint32_t index,
                                          Word word);
  Status key_is_free(Shard& shard, std::uint32_t number, std::string_view key);
  Result<Submitted> requeue_locked(Shard& shard,
                                   TaskId dead_id,
                                   const ResolvedDeadline& deadline,
                                   Durability durability);
  Change cancel_locked(Shard& shard, TaskId id, Durability durability, const Writes& writes);
  Change cancel_node(Shard& shard,
                     Node& node,
                     TaskId id,
                     WallTime deadline,
                     Durability durability,
                     const Writes& writes = {});
  // The frame of a call with a deadline: what refuses it, and `decide` under the shard's lock.
  template <class Decide>
  Change decide_on(TaskId id, const Deadline& deadline, Decide&& decide) {
    if (Status status = open_for_mutations(); !status.ok()) {
      return {std::move(status), id, {}, {}};
    }
    const Result<ResolvedDeadline> resolved = resolve(deadline, now_for(deadline), options);
    if (!resolved.ok()) {
      return {refuse(resolved.status()), id, {}, {}};
    }
    Change change;
    {
      Shard& shard = table.shard_for(id);
      const std::lock_guard lock(shard.mutex);
      change = decide(shard, *resolved);
    }
    commit.nudge();
    return change;
  }
  static NodeContent undo_content(const Shard& shard, const Node& node, std::uint32_t index);
  // The live task that holds the key.
  std::optional<TaskId> holder_of(std::string_view key);
  Change touch_locked(Shard& shard,
                      TaskId id,
                      const ResolvedDeadline& deadline,
                      Durability durability);
  Change touch_logged(Shard& shard,
                      TaskId id,
                      const ResolvedDeadline& deadline,
                      Durability durability);
  Change reschedule_locked(Shard& shard,
                           TaskId id,
                           const ResolvedDeadline& deadline,
                           Durability durability,
                           std::optional<WallTime> expected);
  void leave_key(Shard& shard, Node& node, std::uint32_t index);
  void visit_member(std::uint32_t index, const GroupState& state, std::vector<MailItem>* mail);
  Status refuse(Status status);
};

// A mutation is acknowledged only when its record has the durability asked for.
template <class AnyChange>
AnyChange acknowledged(AnyChange change, EngineCore& core, Durability level) {
  if (change.lsn.value != 0) {
    Status status = core.commit.wait(change.lsn.value, level, std::chrono::hours(24 * 365));
    if (!status.ok()) {
      change.status = std::move(status);
    }
    change.reached = core.commit.reached(change.lsn.value);
  }
  return change;
}

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_ENGINE_CORE_H_
