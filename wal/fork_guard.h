// ForkGuard: knows whether this process is a fork of the one that made it.
//
// A forked child has the parent's log in memory and none of its threads: one write from it would
// silently destroy what the parent acknowledges next. So in the child every call is refused, and
// the lock's descriptor is closed, because the lock lives as long as any process has it open.
#ifndef COUNTWHEEL_WAL_FORK_GUARD_H_
#define COUNTWHEEL_WAL_FORK_GUARD_H_

#include <cstdint>

#include <countwheel/status.h>

namespace countwheel::wal {

// Thread contract: forked() from any thread.
class ForkGuard {
 public:
  // `lock_descriptor` is closed in children; -1 for none.
  explicit ForkGuard(int lock_descriptor);
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard();

  bool forked() const noexcept;

  // True in a process that is a fork of one that ever had a log open. RocksDB's threads exist once
  // a process and do not follow into a fork: a log opened here would hang at its first table.
  static bool threads_lost() noexcept;

 private:
  std::uint32_t forks_at_birth_;
  int place_;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_FORK_GUARD_H_
