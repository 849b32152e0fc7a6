// Restorer: fills an engine from a log before it starts.
//
// The fold of the log onto the task table: recovery reads and checks the bytes, this decides what
// each operation means. The same operations always give the same table; an operation applied twice
// in a row, and a log recovered twice, change nothing (SEMANTICS 8, I13).
#ifndef COUNTWHEEL_RESTORE_H_
#define COUNTWHEEL_RESTORE_H_

#include <cstdint>
#include <span>

#include <countwheel/clock.h>
#include <countwheel/engine.h>
#include <countwheel/journal.h>

namespace countwheel {

// What the log says about its own end.
struct LogEnd {
  std::uint64_t last_lsn = 0;
  std::uint64_t lsn_ceiling = 0;
  std::uint32_t generation_ceiling = 0;
  std::uint64_t epoch = 0;  // of the start that wrote last
  std::int64_t last_seen_wall_ns = 0;
  bool clean_stop = false;
};

// What the fold found.
struct RestoreSummary {
  std::uint64_t live = 0;  // scheduled tasks, dead letters apart
  std::uint64_t dead = 0;
  std::uint64_t overdue = 0;
  std::uint64_t redelivered = 0;  // were running when the process ended
  std::uint64_t crashed = 0;      // of those, counted as a crash
  std::uint64_t ops = 0;
};

class Restorer {
 public:
  // REQUIRES: `engine` has not started. Until finish() its calls answer `recovering`.
  explicit Restorer(Engine& engine);

  // apply() of it comes soon: its node is fetched meanwhile.
  void expect(const Op& op) const noexcept;
  // Applies one operation, in log order. `session_hash` is that of its batch. `corrupt` or
  // `version` when the operation makes no sense.
  Status apply(const Op& op, std::uint64_t session_hash);

  // After the last operation: resumes LSNs, generations and the epoch, counts what `cells` say was
  // running, and files every task in the wheels. The engine may start then.
  Result<RestoreSummary> finish(const LogEnd& end);

 private:
  Engine& engine_;
  std::uint64_t session_hash_;  // of this start
  std::uint64_t ops_ = 0;
};

}  // namespace countwheel

#endif  // COUNTWHEEL_RESTORE_H_
