// GroupCommit: many operations, one write, one fsync.
//
// Callers enqueue under their shard lock; the queue's mutex makes (CAS + enqueue) one ordered step
// and gives each operation its LSN. Whoever holds `leader_` swaps the queue and writes it: the
// commit thread, or a caller that waits and finds nobody committing. There is no timer window: the
// next batch is what arrived during the last fsync.
//
//   enqueue ──▶ incoming ──swap──▶ work ──elide──▶ Journal::append ──▶ marks, waiters, mailbox
//
// Two marks: written and synced. A batch at `os` must not move the synced one.
#ifndef COUNTWHEEL_ENGINE_GROUP_COMMIT_H_
#define COUNTWHEEL_ENGINE_GROUP_COMMIT_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <countwheel/journal.h>
#include <countwheel/stats.h>
#include <countwheel/status.h>

#include "cell_pool.h"
#include "durable_waiters.h"
#include "events.h"
#include "mailbox.h"
#include "op_queue.h"
#include "pending_limits.h"
#include "task_table.h"

namespace countwheel::detail {

// What the group commit works with; all outlive it.
struct CommitParts {
  Journal& journal;
  TaskTable& table;
  Limits& limits;
  Mailbox& mailbox;
  CellPool& cells;
  std::function<Instant()> now;  // the wall is persisted as last seen
  std::function<void()> wake_ticker;
  // Carries a live task or a type on for the cleaner: enqueues its whole state. Called without
  // locks. False when it is not known yet what will become of the task: ask again.
  std::function<bool(TaskId)> carry_task;
  Events& events;
  // Adds the event of an operation that ended its task. Called under the lock of the shard.
  std::function<void(Event::Kind, Shard&, const Op&)> tell;
  std::function<void(std::uint16_t)> carry_type;
};

// Thread contract: enqueue() under a shard lock; everything else from any thread without locks.
class GroupCommit {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  GroupCommit(CommitParts parts, Nanoseconds os_sync_bound);
  ~GroupCommit();

  // Where LSNs, generations and the epoch resume. Before anything is enqueued.
  void resume(std::uint64_t next_lsn, std::uint32_t generation_ceiling, std::uint64_t epoch);
  void set_session(std::uint64_t session_hash) noexcept { session_hash_ = session_hash; }
  std::uint64_t epoch() const noexcept { return epoch_; }

  // ok, or why no mutation may be decided now. Asked before the shard lock.
  Status accepting() const;
  // The same for that many bytes of the application's writes with it.
  Status accepting_writes(std::size_t bytes) const;

  // Appends one operation; its LSN is also stored in `*lsn` (if given) before any other thread can
  // see the operation. With kSchedule and base_lsn 0 the base is the LSN itself. Ends the process
  // when memory is lacking: the state it records has changed already.
  std::uint64_t enqueue(const Op& op,
                        const OpBytes& bytes = {},
                        std::atomic<std::uint64_t>* lsn = nullptr,
                        std::optional<Undo> undo = std::nullopt) noexcept;
  // Appends operations that have no bytes, one behind the other.
  void enqueue_run(std::span<const Op> ops) noexcept;
  // After the shard lock was released: somebody will commit what was enqueued.
  void nudge() noexcept;
  // There are events: the commit thread calls the listener, or the next poll().
  void call_listener() noexcept { kick(); }

  // Returns when `lsn` has reached `level`; leads the commit if nobody does.
  Status wait(std::uint64_t lsn, Durability level, Nanoseconds timeout);
  // The same without a thread that waits (commit_notice.cc). May call `notice` in here.
  void notify(std::uint64_t lsn, Durability level, const Notice& notice);
  // True if and only if the notice was still waiting: it will not be called.
  bool withdraw(std::uint64_t lsn, Durability level, const Notice& notice);
  std::uint64_t mark(Durability level) const noexcept;
  Durability reached(std::uint64_t lsn) const noexcept {
    return lsn <= synced_.load()    ? Durability::kDisk
           : lsn <= written_.load() ? Durability::kOs
                                    : Durability::kMemory;
  }
  std::uint64_t last_lsn() const noexcept { return next_lsn_.load() - 1; }
  // Operations that no leader has taken yet.
  std::size_t queued() const noexcept { return incoming_count_.load(); }
  // There are some, or a sync that somebody waits for.
  bool work_waiting() const noexcept { return incoming_count_.load() != 0 || sync_wanted(); }

  // Commits everything enqueued so far and does the chores: sync bound, idle watermark, retry after
  // no_space, cleaning. For Drive::kHost and the commit thread. Answers when the next chore is due,
  // if one is planned.
  std::optional<std::chrono::steady_clock::time_point> commit_once();

  // Makes the epoch of this start durable before any handler sees it.
  void announce_epoch();
  void start_thread();
  void stop_thread();
  // Commits what is left; `clean` writes the clean-stop mark. Afterwards accepting() is `stopped`.
  void stop(bool clean);

  void refuse_mutations(Code code) noexcept { closed_.store(code); }
  Health health() const noexcept;
  void fill(Stats* stats) const;

 private:
  enum class Mode : std::uint8_t { kOk, kNoSpace, kFailed };
  enum class Sleep : std::uint8_t { kAwake, kNapping, kAsleep };
  using SteadyTime = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kPieceOps = 16 * 1024;
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
  static constexpr std::uint64_t kLsnReserve = std::uint64_t{1} << 21;
  // A slot's generation ascends at most by one a commit, since a slot is free only once its record
  // is written. A restart skips this many of 2^32.
  static constexpr std::uint32_t kGenerationReserve = 1024;
  // Over it calls are refused as `overloaded`. A quarter of the reserve, so that the persisted
  // ceiling covers every LSN handed out: as many may be queued when a batch is described, as many
  // arrive while it is written, and the engine's own operations are not refused.
  static constexpr std::size_t kMaxQueued = kLsnReserve / 4;
  // Of the application's writes: each is small, but no limit of pending tasks counts them.
  static constexpr std::size_t kMaxQueuedWritesBytes = std::size_t{256} << 20;
  static constexpr std::size_t kWaitSlots = 16;
  // The last seen wall time in the log is never older than this.
  static constexpr std::chrono::seconds kWallSeenEvery{10};

  // -- Under leader_ --
  void commit_locked();
  bool commit_queue(OpQueue& queue);
  std::size_t piece_end(const OpQueue& queue, std::size_t begin) const noexcept;
  Status commit_piece(OpQueue& queue, std::size_t begin, std::size_t end);
  std::size_t elide(OpQueue& queue, std::size_t begin, std::size_t end);
  bool elide_chain(OpQueue& queue, std::size_t begin, std::size_t cancel);
  Batch describe(const OpQueue& queue, std::size_t begin, std::size_t end) const;
  Status write(Batch& batch);
  Status write_watermark(bool sync, bool clean_stop = false);
  void publish(const OpQueue& queue, std::size_t begin, std::size_t end);
  void release_slots();
  void release_slots_of(Shard& shard, std::span<const std::uint32_t> indices);
  void advance_marks(std::uint64_t written, bool synced);
  void handle_failure(OpQueue& queue, std::size_t begin, const Status& why);
  void refuse(OpQueue& queue, std::size_t begin);
  void note_refused(const OpQueue& queue, const std::vector<bool>& kept, std::size_t begin);
  void mail_kept(std::vector<MailItem>& mail);
  void fail(OpQueue& queue, std::size_t begin, const Status& why);
  void settle_failed(const OpQueue& queue, std::size_t begin);
  bool try_recover();
  void clean();
  void carry();
  void chores();

  bool was_refused(std::uint64_t lsn) const;
  static Status not_handed_out(std::uint64_t lsn);
  void want(std::uint64_t lsn, Durability level) noexcept;
  bool sync_wanted() const noexcept;
  void call_settled();
  void tell(std::span<const Op> ops);
  void call_the_rest();
  bool settled(std::uint64_t lsn, Durability level, Status* status) const;
  void let_others_join() const noexcept;
  void sleep_until_batch(std::uint64_t lsn, Durability level, Nanoseconds timeout);
  void begin_batch(std::uint64_t last_lsn);
  void notify_batch();
  void notify_all();
  void kick() noexcept;
  void run();
  // When chores() has something to do; nothing if nothing is planned.
  std::optional<SteadyTime> next_chore() const;

  CommitParts parts_;
  const Nanoseconds os_sync_bound_;

  // The journal lock: guards incoming_ and the order of LSNs. Nests inside a shard lock; nothing
  // nests inside it.
  mutable std::mutex queue_mutex_;
  OpQueue incoming_;
  std::atomic<std::uint64_t> next_lsn_{1};      // written under queue_mutex_
  std::atomic<std::size_t> incoming_count_{0};  // written under queue_mutex_

  // Who commits. Guards the group below.
  std::mutex leader_;
  OpQueue work_;
  OpQueue kept_;  // after no_space: what could not be taken back, to be written first
  std::vector<std::pair<std::size_t, OpKind>> elided_;  // of the piece, to undo the elision
  std::array<std::vector<std::uint32_t>, kShards> released_;
  std::vector<std::uint32_t> free_cells_;
  std::vector<MailItem> mail_;
  std::uint64_t lsn_ceiling_ = 0;
  std::uint32_t generation_ceiling_ = 0;
  std::uint32_t generation_max_ = 0;
  std::uint64_t epoch_ = 1;
  std::uint64_t session_hash_ = 0;
  std::optional<SteadyTime> unsynced_since_;
  std::optional<SteadyTime> unmarked_since_;  // the last blob is not behind a watermark yet
  SteadyTime last_write_ = std::chrono::steady_clock::now();
  SteadyTime next_recover_{};
  CleanRequest carried_;                 // what the cleaner asked for
  std::uint64_t carried_lsn_ = 0;        // its last operation
  std::uint64_t carried_low_water_ = 0;  // what it makes dead; 0 when it has not asked
  bool carry_again_ = false;             // what has been carried is not all there is

  std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> synced_{0};
  std::atomic<std::uint64_t> want_synced_{0};
  std::atomic<Mode> mode_{Mode::kOk};
  std::atomic<Code> closed_{Code::kOk};

  // Guards the waiters and what became of operations that failed.
  mutable std::mutex wait_mutex_;
  // One for each of the next batches, so that a batch wakes its own callers and no others.
  struct WaitSlot {
    std::atomic<std::uint32_t> epoch{0};  // what they sleep on
    std::uint32_t sleepers = 0;           // guarded by wait_mutex_; some may have given up
  };
  std::array<WaitSlot, kWaitSlots> wait_;
  std::atomic<std::uint32_t> woken_{0};             // by the last batch
  std::uint64_t batch_ = 0;                         // number of the batch being written
  std::uint64_t batch_last_lsn_ = 0;                // its last LSN
  std::map<std::uint64_t, std::uint64_t> refused_;  // last LSN of a refused range -> its first
  std::string failure_;
  std::atomic<bool> any_refused_{false};  // there is something in refused_

  // Those that wait without a thread. wait_mutex_ nests inside its lock.
  DurableWaiters waiters_;

  // The commit thread.
  std::thread thread_;
  std::mutex sleep_mutex_;
  std::condition_variable sleep_cv_;
  bool kicked_ = false;    // guarded by sleep_mutex_
  bool stopping_ = false;  // guarded by sleep_mutex_
  std::atomic<Sleep> sleep_{Sleep::kAwake};
  std::atomic<bool> chore_planned_{false};  // the sleep ends by itself

  // Guards the telemetry.
  mutable std::mutex telemetry_mutex_;
  std::uint64_t commits_ = 0;
  std::uint64_t ops_ = 0;
  std::uint64_t elided_ops_ = 0;
  std::uint64_t reappended_ = 0;
  std::uint64_t rolled_back_ = 0;
  std::uint64_t wakes_ = 0;
  Histogram batch_ops_;
  Histogram sync_ns_;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_GROUP_COMMIT_H_
