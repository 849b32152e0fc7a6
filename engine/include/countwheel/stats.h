// Stats: one exact snapshot of what the engine holds and has done.
#ifndef COUNTWHEEL_STATS_H_
#define COUNTWHEEL_STATS_H_

#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include <countwheel/journal.h>

namespace countwheel {

// Counts of values in buckets of 1/8 of a power of two: any quantile within 12.5 %.
class Histogram {
 public:
  static constexpr std::size_t kBuckets = 8 * 62;

  void add(std::uint64_t value, std::uint64_t times = 1) noexcept;
  void merge(const Histogram& other) noexcept;
  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t max() const noexcept { return max_; }
  // The upper edge of the bucket that holds the q-quantile (0 to 1); 0 when empty.
  std::uint64_t quantile(double q) const noexcept;

 private:
  std::array<std::uint64_t, kBuckets> buckets_ = {};
  std::uint64_t count_ = 0;
  std::uint64_t max_ = 0;
};

enum class Health : std::uint8_t {
  kOk = 0,
  kDegraded = 1,  // Out of space: nothing new is accepted, due tasks run.
  kFailed = 2,    // The log has failed; reopen.
};
std::string_view to_string(Health health) noexcept;

struct Stats {
  // Conservation (SEMANTICS 8, I30): scheduled = done + cancelled + dead + replaced + pending.
  // Tasks found at open count as scheduled.
  std::uint64_t scheduled = 0;
  std::uint64_t done = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t dead = 0;           // dead letters held
  std::uint64_t replaced = 0;       // upserts of a live task
  std::uint64_t pending = 0;        // scheduled, queued, running or waiting to be tried again
  std::uint64_t running = 0;        // of pending
  std::uint64_t pending_bytes = 0;  // keys and payloads
  std::uint64_t refused = 0;        // calls refused by a limit
  // Members visited for changes of groups. Those of a cancelled group leave `pending` as they are
  // visited, by the tick thread, after the call has returned.
  std::uint64_t group_visits = 0;

  // The hand-over.
  std::uint64_t backlog = 0;           // handed over and not started
  std::int64_t oldest_overdue_ns = 0;  // lateness of the first of the backlog
  std::uint64_t parked = 0;            // due, of a type no handler knows
  std::uint64_t handed_over = 0;
  std::uint64_t started = 0;
  std::uint64_t failed_attempts = 0;
  std::uint64_t repeated = 0;        // runs of recurring tasks that were followed by another
  std::uint64_t crashes = 0;         // attempts that ended with their process
  std::uint64_t leases_expired = 0;  // attempts that took longer than TypePolicy::lease
  std::uint64_t stuck = 0;           // of these, handlers that have not answered since
  std::uint64_t skipped = 0;         // handed over, but cancelled or moved before the start
  std::int64_t lateness_ns_max = 0;  // at hand-over
  Histogram lateness_ns;             // at hand-over

  // The tick thread.
  std::uint64_t steps = 0;
  std::uint64_t spurious_wakes = 0;  // steps that found nothing to do
  std::uint64_t wheel_entries = 0;
  std::uint64_t clock_steps_forward = 0;  // of the wall
  std::uint64_t clock_steps_back = 0;
  std::uint64_t clock_backsteps = 0;  // of the boot face, which must not
  std::uint64_t tick_stalls = 0;      // the tick thread came more than 100 ms late
  std::int64_t longest_stall_ns = 0;
  // What the kernel refused of EngineOptions::tick_thread, for people; empty when nothing.
  std::string tick_thread_refused;

  // The group commit.
  std::uint64_t next_lsn = 0;
  std::uint64_t written_lsn = 0;
  std::uint64_t synced_lsn = 0;
  std::uint64_t durable_lag = 0;  // operations accepted and not yet written
  std::uint64_t commits = 0;      // batches
  std::uint64_t ops = 0;          // operations, elided ones included
  std::uint64_t elided = 0;       // operations that never reached the log
  std::uint64_t reappended = 0;   // by the cleaner
  std::uint64_t rolled_back = 0;
  std::uint64_t commit_wakes = 0;
  Histogram batch_ops;  // operations a batch
  Histogram sync_ns;    // duration of synced appends
  JournalStats journal;

  Health health = Health::kOk;
  std::string health_reason;
};

}  // namespace countwheel

#endif  // COUNTWHEEL_STATS_H_
