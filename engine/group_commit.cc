// What callers see of the group commit: enqueue, and the thread that commits for those who do not
// wait. Those who do are in commit_wait.cc, the leader's part is in commit_batch.cc, failures are
// in commit_failure.cc.
#include "group_commit.h"

#include <algorithm>
#include <sys/prctl.h>

#include <countwheel/assert.h>

namespace countwheel::detail {
namespace {

using std::chrono::steady_clock;

// After a commit the thread naps before it sleeps: a wake-up costs the caller of submit() 2-4 us,
// so for about 2 ms nobody has to pay it.
constexpr std::array<std::chrono::microseconds, 8> kNaps = {std::chrono::microseconds(50),
                                                            std::chrono::microseconds(100),
                                                            std::chrono::microseconds(200),
                                                            std::chrono::microseconds(400),
                                                            std::chrono::microseconds(400),
                                                            std::chrono::microseconds(400),
                                                            std::chrono::microseconds(400),
                                                            std::chrono::microseconds(400)};

}  // namespace

GroupCommit::GroupCommit(CommitParts parts, Nanoseconds os_sync_bound)
    : parts_(std::move(parts)), os_sync_bound_(os_sync_bound) {}

GroupCommit::~GroupCommit() {
  COUNTWHEEL_ASSERT(!thread_.joinable());
}

void GroupCommit::resume(std::uint64_t next_lsn,
                         std::uint32_t generation_ceiling,
                         std::uint64_t epoch) {
  next_lsn_.store(next_lsn);
  written_.store(next_lsn - 1);
  synced_.store(next_lsn - 1);
  generation_ceiling_ = generation_ceiling;
  generation_max_ = generation_ceiling;
  epoch_ = epoch;
}

Status GroupCommit::accepting() const {
  // A relaxed look: a race with a failure ends in a rollback, which is what the failure means.
  const Code closed = closed_.load(std::memory_order_relaxed);
  if (closed != Code::kOk) [[unlikely]] {
    return Status(closed);
  }
  const Mode mode = mode_.load(std::memory_order_relaxed);
  if (mode == Mode::kNoSpace) [[unlikely]] {
    return Status(Code::kNoSpace, std::string(parts_.journal.path()));
  }
  if (mode == Mode::kFailed) [[unlikely]] {
    const std::lock_guard lock(wait_mutex_);
    return Status(Code::kJournalFailed, failure_);
  }
  if (incoming_count_.load(std::memory_order_relaxed) >= kMaxQueued) [[unlikely]] {
    return Status(Code::kOverloaded, std::to_string(kMaxQueued) + " operations wait to be written");
  }
  return {};
}

Status GroupCommit::accepting_writes(std::size_t bytes) const {
  const std::lock_guard lock(queue_mutex_);
  if (incoming_.writes_bytes + bytes > kMaxQueuedWritesBytes) {
    return Status(Code::kOverloaded,
                  std::to_string(incoming_.writes_bytes) +
                      " bytes of the application's writes wait to be written");
  }
  return {};
}

std::uint64_t GroupCommit::enqueue(const Op& op,
                                   const OpBytes& bytes,
                                   std::atomic<std::uint64_t>* lsn,
                                   std::optional<Undo> undo) noexcept {
  const std::lock_guard lock(queue_mutex_);
  const std::uint64_t mine = next_lsn_.load(std::memory_order_relaxed);
  incoming_.push(op, bytes);
  Op& pushed = incoming_.ops.back();
  pushed.lsn = mine;
  if (pushed.kind == OpKind::kSchedule && pushed.base_lsn == 0) {
    pushed.base_lsn = mine;
  }
  if (!bytes.writes.empty()) [[unlikely]] {
    incoming_.push_writes(mine, bytes.writes);
  }
  if (undo) {
    undo->position = incoming_.ops.size() - 1;
    incoming_.undos.push_back(std::move(*undo));
  }
  if (lsn != nullptr) {
    lsn->store(mine, std::memory_order_relaxed);
  }
  next_lsn_.store(mine + 1, std::memory_order_relaxed);
  // seq_cst: partner of the look at it in run() and in wait(), after the sleep word was stored.
  incoming_count_.store(incoming_.ops.size());
  return mine;
}

void GroupCommit::enqueue_run(std::span<const Op> ops) noexcept {
  const std::lock_guard lock(queue_mutex_);
  std::uint64_t lsn = next_lsn_.load(std::memory_order_relaxed);
  for (const Op& op : ops) {
    incoming_.ops.push_back(op);
    incoming_.ops.back().lsn = lsn++;
  }
  next_lsn_.store(lsn, std::memory_order_relaxed);
  // seq_cst, as in enqueue().
  incoming_count_.store(incoming_.ops.size());
}

void GroupCommit::nudge() noexcept {
  // seq_cst: partner of the store in run(). Naps end by themselves.
  if (sleep_.load() == Sleep::kAsleep) {
    kick();
  }
}

void GroupCommit::kick() noexcept {
  {
    const std::lock_guard lock(sleep_mutex_);
    kicked_ = true;
  }
  sleep_cv_.notify_one();
}

std::uint64_t GroupCommit::mark(Durability level) const noexcept {
  switch (level) {
    case Durability::kMemory:
      return next_lsn_.load() - 1;
    case Durability::kOs:
      return written_.load();
    case Durability::kDisk:
      return synced_.load();
  }
  return 0;
}

std::optional<std::chrono::steady_clock::time_point> GroupCommit::commit_once() {
  std::optional<SteadyTime> chore;
  {
    const std::lock_guard lead(leader_);
    commit_locked();
    chores();
    chore = next_chore();
  }
  call_settled();
  return chore;
}

void GroupCommit::announce_epoch() {
  {
    const std::lock_guard lead(leader_);
    if (const Status status = write_watermark(true); !status.ok()) {
      handle_failure(work_, 0, status);
    }
  }
  call_settled();
}

void GroupCommit::start_thread() {
  stopping_ = false;
  thread_ = std::thread([this] { run(); });
}

void GroupCommit::run() {
  prctl(PR_SET_NAME, "cw-commit", 0UL, 0UL, 0UL);
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  std::size_t nap = 0;
  for (;;) {
    const std::uint64_t before = written_.load();
    const std::optional<SteadyTime> chore = commit_once();
    if (work_waiting()) {
      nap = 0;
      continue;
    }
    nap = written_.load() != before ? 0 : nap;
    std::unique_lock lock(sleep_mutex_);
    if (stopping_) {
      return;
    }
    if (nap < kNaps.size()) {
      sleep_.store(Sleep::kNapping);
      // seq_cst, here and below: either this look sees what there is to do, or nudge() and notify()
      // see that we sleep.
      if (!work_waiting()) {
        sleep_cv_.wait_for(lock, kNaps[nap++], [this] { return kicked_ || stopping_; });
      }
    } else {
      chore_planned_.store(chore.has_value());
      sleep_.store(Sleep::kAsleep);
      if (!work_waiting()) {
        const bool woken = sleep_cv_.wait_until(
            lock, chore.value_or(steady_clock::now() + kWallSeenEvery), [this] {
              return kicked_ || stopping_;
            });
        const std::lock_guard count(telemetry_mutex_);
        wakes_ += woken ? 1 : 0;
      }
    }
    sleep_.store(Sleep::kAwake);
    if (kicked_) {
      nap = 0;
    }
    kicked_ = false;
  }
}

void GroupCommit::stop_thread() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock(sleep_mutex_);
    stopping_ = true;
  }
  sleep_cv_.notify_one();
  thread_.join();
}

void GroupCommit::stop(bool clean) {
  closed_.store(Code::kStopped);
  stop_thread();
  {
    const std::lock_guard lead(leader_);
    commit_locked();
    if (clean && mode_.load() == Mode::kOk) {
      const Status written = write_watermark(true, true);
      if (!written.ok()) {
        handle_failure(work_, work_.ops.size(), written);
      }
    }
    notify_all();
  }
  call_the_rest();
}

Health GroupCommit::health() const noexcept {
  switch (mode_.load()) {
    case Mode::kOk:
      return Health::kOk;
    case Mode::kNoSpace:
      return Health::kDegraded;
    case Mode::kFailed:
      return Health::kFailed;
  }
  return Health::kFailed;
}

void GroupCommit::fill(Stats* stats) const {
  stats->next_lsn = next_lsn_.load();
  stats->written_lsn = written_.load();
  stats->synced_lsn = synced_.load();
  stats->durable_lag = stats->next_lsn - 1 - std::min(stats->written_lsn, stats->next_lsn - 1);
  stats->journal = parts_.journal.stats();
  stats->health = health();
  if (stats->health == Health::kDegraded) {
    stats->health_reason = "no space: " + std::string(parts_.journal.path());
  } else if (stats->health == Health::kFailed) {
    const std::lock_guard lock(wait_mutex_);
    stats->health_reason = failure_;
  }
  const std::lock_guard lock(telemetry_mutex_);
  stats->commits = commits_;
  stats->ops = ops_;
  stats->elided = elided_ops_;
  stats->reappended = reappended_;
  stats->rolled_back = rolled_back_;
  stats->commit_wakes = wakes_;
  stats->batch_ops = batch_ops_;
  stats->sync_ns = sync_ns_;
}

}  // namespace countwheel::detail
