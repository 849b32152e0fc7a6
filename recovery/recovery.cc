#include <chrono>
#include <utility>

#include <countwheel/recovery.h>

#include "late_journal.h"
#include "replay.h"

namespace countwheel {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_since(SteadyClock::time_point then) {
  return std::chrono::duration<double>(SteadyClock::now() - then).count();
}

void describe_log(const Log& log, RecoveryReport* report) {
  const LogFacts& facts = log.facts();
  const LogEnd end = log.end();
  report->directory = facts.path;
  report->created = facts.created;
  report->blobs = facts.blobs;
  report->log_bytes = facts.bytes;
  report->torn_bytes = facts.torn_bytes;
  report->clean_stop = end.clean_stop;
  report->epoch = end.epoch + 1;
}

void describe_clock(Clock& clock,
                    const LogEnd& end,
                    std::uint64_t session_hash,
                    RecoveryReport* report) {
  report->clock_behind_ns = end.last_seen_wall_ns - clock.now().wall_ns;
  report->clock_behind = report->clock_behind_ns > 0;
  if (!report->clock_behind) {
    report->clock_behind_ns = 0;
  }
  report->same_session = session_hash == clock.session().hash();
}

void describe_tasks(const RestoreSummary& summary, RecoveryReport* report) {
  report->live = summary.live;
  report->dead = summary.dead;
  report->overdue = summary.overdue;
  report->redelivered = summary.redelivered;
  report->crashed = summary.crashed;
  report->ops = summary.ops;
}

}  // namespace

Result<Opened> open(const std::string& directory, OpenOptions options) {
  // Before anything is made: a directory that was created for nonsense would stay.
  if (Status status = validate(options.engine); !status.ok()) {
    return status;
  }
  if (Status status = validate(options.wal); !status.ok()) {
    return status;
  }
  Clock& clock = options.clock == nullptr ? SystemClock::instance() : *options.clock;
  const SteadyClock::time_point began = SteadyClock::now();

  Result<std::unique_ptr<Log>> opened = Log::open(directory, options.wal);
  if (!opened.ok()) {
    return opened.status();
  }
  Log& log = **opened;
  RecoveryReport report;
  report.open_seconds = seconds_since(began);

  auto late_journal = std::make_unique<LateJournal>(log.facts().path, log.attempt_cells());
  LateJournal& journal = *late_journal;
  Result<std::unique_ptr<Engine>> engine =
      Engine::create(options.engine, {&clock, options.executor, std::move(late_journal)});
  if (!engine.ok()) {
    return engine.status();
  }

  Replay replay(**engine, options.progress);
  if (Status status = replay.run(log); !status.ok()) {
    return status;
  }
  const LogEnd end = log.end();
  describe_log(log, &report);
  describe_clock(clock, end, replay.last_session_hash(), &report);
  Result<std::unique_ptr<Journal>> rest = std::move(log).into_journal();
  if (!rest.ok()) {
    return rest.status();
  }
  journal.set(std::move(*rest));
  Result<RestoreSummary> summary = replay.finish(end);
  if (!summary.ok()) {
    return summary.status();
  }
  describe_tasks(*summary, &report);
  report.replay_seconds = replay.seconds();
  report.seconds = seconds_since(began);
  if (report.replay_seconds > 0) {
    report.ops_per_second = static_cast<double>(report.ops) / report.replay_seconds;
  }
  return Opened{std::move(*engine), std::move(report)};
}

}  // namespace countwheel
