// Replay: the operations of a log, in order, into an engine that has not started.
#ifndef COUNTWHEEL_RECOVERY_REPLAY_H_
#define COUNTWHEEL_RECOVERY_REPLAY_H_

#include <chrono>
#include <cstdint>
#include <functional>

#include <countwheel/engine.h>
#include <countwheel/recovery.h>
#include <countwheel/restore.h>
#include <countwheel/status.h>
#include <countwheel/wal.h>

namespace countwheel {

using ProgressCallback = std::function<void(const RecoveryProgress&)>;

// Tells how far it has come: once at the start, at least once a second (as long as one group commit
// takes less), once at the end.
class Replay {
 public:
  // `engine` and `progress` are borrowed and must outlive this.
  Replay(Engine& engine, const ProgressCallback& progress);

  // Reads `log` to its end. `corrupt` or `version` from the log or from an operation in it.
  Status run(Log& log);

  // Files the tasks in the wheels. REQUIRES: run() was ok, and the engine's journal can append.
  Result<RestoreSummary> finish(const LogEnd& end);

  // Of the newest group commit; 0 when there is none.
  std::uint64_t last_session_hash() const noexcept { return last_session_hash_; }
  double seconds() const;

 private:
  using SteadyClock = std::chrono::steady_clock;

  void tell(std::uint64_t bytes_done, std::uint64_t bytes_total);

  Engine& engine_;
  const ProgressCallback& progress_;
  Restorer restorer_;
  const SteadyClock::time_point began_;
  SteadyClock::time_point told_;
  std::uint64_t ops_ = 0;
  std::uint64_t bytes_total_ = 0;
  std::uint64_t last_session_hash_ = 0;
};

}  // namespace countwheel

#endif  // COUNTWHEEL_RECOVERY_REPLAY_H_
