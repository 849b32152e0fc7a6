// open(): a log in, a running engine out.
//
//   countwheel::Result<countwheel::Opened> opened = countwheel::open("/var/lib/orders");
//   if (!opened.ok()) return fail(opened.status().text());     // names the path, file, offset
//   puts(opened->report.text().c_str());
//   opened->engine->on("order.expire", expire);
//   opened->engine->start();
//
// Opening locks the directory, checks the log, replays it and files every live task in the wheels.
// What was acknowledged is there; what was cancelled stays cancelled; a log that has lost something
// it acknowledged is refused as `corrupt` instead of being opened without it. A torn tail, the
// trace of a crash, is no damage: it is cut off and written over.
//
// Nothing starts by itself: handlers are registered between open() and start(), and tasks that fell
// due while the process was away then start first, in (deadline, LSN) order, flagged overdue.
//
// Opening is idempotent: a crash at any point of it leaves a log that opens to the same tasks.
#ifndef COUNTWHEEL_RECOVERY_H_
#define COUNTWHEEL_RECOVERY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <countwheel/clock.h>
#include <countwheel/engine.h>
#include <countwheel/executor.h>
#include <countwheel/options.h>
#include <countwheel/status.h>
#include <countwheel/wal.h>

namespace countwheel {

// How far a replay has come.
struct RecoveryProgress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
  std::uint64_t ops = 0;
  double seconds = 0;
  // The engine being filled: its calls answer `recovering`. Borrowed; valid during the callback.
  Engine* engine = nullptr;
};

// What open() found.
struct RecoveryReport {
  std::string directory;

  // -- Tasks --
  std::uint64_t live = 0;         // pending tasks, those that were running included
  std::uint64_t dead = 0;         // dead letters, apart from `live`
  std::uint64_t overdue = 0;      // of `live`: due by now
  std::uint64_t redelivered = 0;  // of `live`: were running when the process ended
  std::uint64_t crashed = 0;      // of those: counted as a crash of the process

  // -- The log --
  bool created = false;          // there was none
  std::uint64_t blobs = 0;       // group commits read
  std::uint64_t ops = 0;         // operations replayed
  std::uint64_t log_bytes = 0;   // of those blobs
  std::uint64_t torn_bytes = 0;  // cut off behind the last whole group commit
  bool clean_stop = false;       // the last process stopped in order
  std::uint64_t epoch = 0;       // of this start, greater than that of every start before

  // -- The clock --
  // The wall clock is behind the last time the log has seen; EngineOptions::clock_policy says what
  // time it is meanwhile.
  bool clock_behind = false;
  std::int64_t clock_behind_ns = 0;
  // Boot deadlines of the log hold in this session to the nanosecond; if false, `after` tasks are
  // due by their wall deadlines.
  bool same_session = false;

  // -- The time it took --
  double open_seconds = 0;    // lock, check, RocksDB's own recovery
  double replay_seconds = 0;  // reading the log, filling the table and the wheels
  double seconds = 0;         // altogether
  double ops_per_second = 0;  // of the replay

  // One line for people.
  std::string text() const;
};

struct OpenOptions {
  EngineOptions engine = {};
  WalOptions wal = {};
  // Borrowed, must outlive the engine. Default: the system's clock.
  Clock* clock = nullptr;
  // Borrowed, must outlive the engine. Default: a thread pool of EngineOptions::workers.
  Executor* executor = nullptr;
  // Called on the opening thread at the start, at least once a second while group commits are read,
  // and at the end. Must not call open(). Default: nobody is told.
  std::function<void(const RecoveryProgress&)> progress = {};
};

struct Opened {
  std::unique_ptr<Engine> engine;  // not started
  RecoveryReport report;
};

// Opens the log in `directory`, which is made (mode 0700) if it is not there and
// WalOptions::create_if_missing is set. Refusals change nothing on disk:
//   locked          another engine, in this process or another, has the directory; names the pid
//   corrupt         acknowledged data is damaged or missing; names file, offset and LSNs
//   version         written by a newer format, or with other fixed parameters
//   invalid_argument, insecure_dir, permission, not_a_directory, read_only, resource, no_space
// Thread contract: safe for concurrent use on distinct directories.
Result<Opened> open(const std::string& directory, OpenOptions options = {});

// Something wrong in a directory.
struct CheckProblem {
  std::string file;          // relative to the directory; empty when it is the directory itself
  std::uint64_t offset = 0;  // in the file, when it is known
  Code code = Code::kCorrupt;
  std::string text;
};

// What check() found. A directory with problems would be refused by open().
struct CheckReport {
  std::string directory;
  std::vector<CheckProblem> problems;
  // The counts of what can be read; of the part before the damage when there is some.
  RecoveryReport log;
  std::uint64_t first_lsn = 0;
  std::uint64_t last_lsn = 0;
  std::uint64_t first_blob = 0;  // sequence numbers of group commits
  std::uint64_t last_blob = 0;
  std::uint64_t disk_bytes = 0;     // all files
  std::uint64_t running_cells = 0;  // attempt cells that say a handler was running
  std::uint32_t format = 0;

  bool ok() const noexcept { return problems.empty(); }
  // A few lines for people.
  std::string text() const;
};

// Reads everything and changes nothing. The Status is for what kept it from looking: `locked`,
// `not_a_directory`, `permission`, `resource`. Damage is a problem in the report.
Result<CheckReport> check(const std::string& directory, const WalOptions& options = {});

}  // namespace countwheel

#endif  // COUNTWHEEL_RECOVERY_H_
