// Journal: what the engine requires of a log.
//
// The engine decides; a journal remembers. It is given one batch at a time by one thread at a time
// (the group commit) and answers with a Status that says what became of it. LSNs, generations and
// epochs are the engine's; a batch describes itself, so that the same bytes may be replicated.
//
// NullJournal keeps nothing: it is the journal of an engine in memory.
#ifndef COUNTWHEEL_JOURNAL_H_
#define COUNTWHEEL_JOURNAL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <countwheel/status.h>
#include <countwheel/task.h>

namespace countwheel {

// What an operation does. The values are persistent: do not change existing ones.
enum class OpKind : std::uint8_t {
  kNone = 0,      // Elided: a schedule and its cancel that met in one batch.
  kSchedule = 1,  // The whole task, new, replaced in place or carried on by the cleaner.
  kCancel = 2,
  kReschedule = 3,  // New deadline.
  kDone = 4,
  kRetry = 5,  // A failed attempt: new deadline and counters, with the error's text.
  kDead = 6,   // The move to the dead letters, with reason and text.
  kType = 7,   // Gives a task type its number; the name is the payload.
  // Of all live tasks of a group whose latest (re)schedule is earlier; the id is the group.
  kCancelGroup = 8,
  kRescheduleGroup = 9,
  // 10 to 15 are reserved.
};

// One operation. The bytes behind `data` are key, payload, text and attributes, one behind the
// other, and live as long as the batch.
struct Op {
  OpKind kind = OpKind::kNone;
  ClockKind clock : 1 = ClockKind::kWall;
  Durability durability : 2 = Durability::kDisk;
  bool dead : 1 = false;  // kSchedule by the cleaner: the task is a dead letter
  // For the engine alone, not on disk.
  // kSchedule that replaced a live task: never elided. kDone of a task that its key's next
  // replaced.
  bool upsert : 1 = false;
  bool releases : 1 = false;    // the task's slot is free once this is written
  bool touch : 1 = false;       // kReschedule that files nothing: the wheel's entry stays
  bool with_group : 1 = false;  // kCancel of what its group's record, before it, has cancelled
  DeadReason reason = DeadReason::kNone;
  std::uint8_t crashes = 0;
  std::uint32_t slack_us = 0;
  TaskId id;                          // kType: the number; of a group: its number
  std::int64_t wall_deadline_ns = 0;  // kSchedule, kReschedule, kRetry
  std::int64_t boot_deadline_ns = 0;  // the same of ClockKind::kBoot
  std::uint64_t lsn = 0;
  // kSchedule: the LSN that orders the task among equal deadlines; its own but for the cleaner.
  // Others: the LSN of the task's latest (re)schedule, which this operation follows.
  std::uint64_t base_lsn = 0;
  const char* data = nullptr;
  std::uint32_t payload_bytes = 0;
  std::uint16_t key_bytes = 0;
  std::uint16_t text_bytes = 0;       // kRetry, kDead and dead kSchedule: the last error
  std::uint16_t attribute_bytes = 0;  // kSchedule, kRetry, kDead: opaque to a journal
  std::uint16_t type = 0;
  std::uint16_t failures = 0;
  std::uint16_t attempts = 0;

  // For the engine alone, not on disk.
  std::uint32_t cell = 0;  // attempt cell + 1 that is free once this is written
  // kSchedule: slot + 1, in the same shard, of the dead letter it was made of, which is free once
  // this is written. Its attributes say so too, so that the log needs no second operation.
  std::uint32_t letter = 0;

  std::string_view key() const noexcept { return {data, key_bytes}; }
  std::string_view payload() const noexcept { return {data + key_bytes, payload_bytes}; }
  std::string_view text() const noexcept { return {data + key_bytes + payload_bytes, text_bytes}; }
  std::string_view attributes() const noexcept {
    return {data + key_bytes + payload_bytes + text_bytes, attribute_bytes};
  }
};
static_assert(sizeof(Op) == 80);

// What the application writes with the operation of this LSN (countwheel/writes.h).
struct OpWrites {
  std::uint64_t lsn = 0;
  std::string_view bytes;
};

// A group commit: every operation between the LSNs, less the elided ones, in LSN order.
struct Batch {
  std::span<const Op> ops;               // kNone entries are skipped
  std::uint32_t op_count = 0;            // without the kNone ones; 0 is a watermark alone
  std::uint64_t first_lsn = 0;           // of the batch, elided operations included
  std::uint64_t last_lsn = 0;            // a watermark alone: the last LSN written before
  std::uint64_t lsn_ceiling = 0;         // no LSN above it has been handed out
  std::uint32_t generation_ceiling = 0;  // no generation above it has been handed out
  std::uint64_t epoch = 0;               // of this start of the engine
  std::uint64_t session_hash = 0;        // boot deadlines in this batch belong to this session
  std::int64_t wall_ns = 0;              // last seen wall time
  // Blobs below this journal sequence hold nothing alive once this batch is durable; 0 is no news.
  std::uint64_t low_water = 0;
  // The application's, in LSN order. They have passed check_writes(); applied with the operations,
  // all or none, and not part of the log.
  std::span<const OpWrites> writes;
  bool clean_stop = false;  // nothing follows until the next start
  bool sync = false;        // append() returns after fsync
};

// One running delivery. Kept where it survives kill -9, written by one store without a system call.
// Starts as {0, 0}. `mark` is run << 17 | attempt << 1 | finished.
struct AttemptCell {
  std::atomic<std::uint64_t> id{0};
  std::atomic<std::uint64_t> mark{0};
};

// What the oldest part of the log names, for the cleaner.
struct CleanRequest {
  std::uint64_t low_water = 0;       // everything below is dead once the named are carried on
  std::vector<TaskId> ids;           // that have a kSchedule there
  std::vector<std::uint16_t> types;  // that have a kType there
};

struct JournalStats {
  std::uint64_t blobs = 0;       // written since open
  std::uint64_t bytes = 0;       // written since open
  std::uint64_t syncs = 0;       // fsynced appends since open
  std::uint64_t log_bytes = 0;   // the log now, from its low-water mark on
  std::uint64_t disk_bytes = 0;  // files now
};

// The application's tables beside the log, if there are any: countwheel/rocksdb.h.
class AppDatabase;

// Thread contract: append(), next_to_clean() and recover() are called by one thread at a time, the
// others from any thread. Nothing throws.
class Journal {
 public:
  virtual ~Journal() = default;

  // Writes one batch, whole or not at all.
  //   ok              written, and synced if batch.sync
  //   no_space        nothing was written; recover() tells when there is space again
  //   journal_failed  the outcome is unknown; nothing is accepted any more
  virtual Status append(const Batch& batch) noexcept = 0;

  // Whether append() can take these writes of the application: asked before anything is decided.
  // `invalid_argument` when they are malformed, name what is not the application's, or when there
  // is no database; by default there is none.
  virtual Status check_writes(std::string_view bytes) const noexcept;
  // Null: none. Lives as long as the journal.
  virtual AppDatabase* app_database() noexcept { return nullptr; }

  // After no_space: ok once a write has succeeded again.
  virtual Status recover() noexcept = 0;

  // Fills `request` and answers true when the log has outgrown max(64 MB, 2 x live_bytes).
  virtual bool next_to_clean(std::uint64_t live_bytes, CleanRequest* request) noexcept = 0;

  // Where running deliveries are marked. Never empty; constant while the journal lives.
  virtual std::span<AttemptCell> attempt_cells() noexcept = 0;

  // False when nothing survives the process.
  virtual bool durable() const noexcept = 0;
  // Where the log is, for texts of errors.
  virtual std::string_view path() const noexcept = 0;
  virtual JournalStats stats() const noexcept = 0;
};

// Remembers nothing, succeeds always.
class NullJournal final : public Journal {
 public:
  // `cells`: running deliveries at most.
  explicit NullJournal(std::size_t cells = 65'536);
  Status append(const Batch& batch) noexcept override;
  Status recover() noexcept override { return {}; }
  bool next_to_clean(std::uint64_t, CleanRequest*) noexcept override { return false; }
  std::span<AttemptCell> attempt_cells() noexcept override { return {cells_.get(), cell_count_}; }
  bool durable() const noexcept override { return false; }
  std::string_view path() const noexcept override { return "(memory)"; }
  JournalStats stats() const noexcept override;

 private:
  std::unique_ptr<AttemptCell[]> cells_;
  std::size_t cell_count_;
  std::atomic<std::uint64_t> blobs_{0};
  std::atomic<std::uint64_t> syncs_{0};
};

}  // namespace countwheel

#endif  // COUNTWHEEL_JOURNAL_H_
