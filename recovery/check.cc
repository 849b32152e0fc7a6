// check(): looks at everything open() would look at, and at the modes of the files, without
// changing anything and without stopping at the first problem where it can go on.
#include <cctype>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <utility>

#include <countwheel/recovery.h>
#include <countwheel/restore.h>

namespace countwheel {
namespace {

namespace fs = std::filesystem;

bool is_problem(Code code) {
  return code == Code::kCorrupt || code == Code::kVersion || code == Code::kInsecureDir;
}

// The log names its place in the text: "<path>: ... offset <number> ...".
CheckProblem problem_of(const Status& status, const std::string& directory) {
  CheckProblem problem;
  problem.code = status.code();
  problem.text = status.detail();
  if (const std::size_t at = problem.text.find(directory + "/"); at != std::string::npos) {
    const std::size_t begin = at + directory.size() + 1;
    problem.file = problem.text.substr(begin, problem.text.find_first_of(": ,", begin) - begin);
  }
  constexpr std::string_view kOffset = "offset ";
  if (std::size_t at = problem.text.find(kOffset); at != std::string::npos) {
    for (at += kOffset.size(); at < problem.text.size(); ++at) {
      const auto digit = static_cast<unsigned char>(problem.text[at]);
      if (std::isdigit(digit) == 0) {
        break;
      }
      problem.offset = problem.offset * 10 + (digit - '0');
    }
  }
  return problem;
}

// Files that others could read or change, and the bytes of all.
void check_files(const std::string& directory, CheckReport* report) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat facts = {};
    if (::lstat(entry->path().c_str(), &facts) != 0) {
      continue;  // went away while we looked
    }
    if (S_ISREG(facts.st_mode)) {
      report->disk_bytes += static_cast<std::uint64_t>(facts.st_blocks) * 512;
    }
    if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0 && !S_ISLNK(facts.st_mode)) {
      const std::string name = entry->path().lexically_relative(directory).string();
      report->problems.push_back(
          {name, 0, Code::kInsecureDir, entry->path().string() + ": others may use it"});
    }
  }
}

void describe(Log& log, CheckReport* report) {
  const LogFacts& facts = log.facts();
  const LogEnd end = log.end();
  report->format = facts.format;
  report->first_blob = facts.first_sequence;
  report->last_blob = facts.last_sequence;
  report->last_lsn = end.last_lsn;
  report->log.directory = facts.path;
  report->log.blobs = facts.blobs;
  report->log.ops = facts.ops;
  report->log.log_bytes = facts.bytes;
  report->log.torn_bytes = facts.torn_bytes;
  report->log.clean_stop = end.clean_stop;
  report->log.epoch = end.epoch;
  for (const AttemptCell& cell : log.attempt_cells()) {
    const bool finished = (cell.mark.load() & 1) != 0;
    report->running_cells += cell.id.load() != 0 && !finished ? 1U : 0U;
  }
}

}  // namespace

Result<CheckReport> check(const std::string& directory, const WalOptions& options) {
  CheckReport report;
  report.directory = directory;
  WalOptions read_only = options;
  read_only.create_if_missing = false;
  Result<std::unique_ptr<Log>> log = Log::open_read_only(directory, read_only);
  if (!log.ok()) {
    if (!is_problem(log.code())) {
      return log.status();
    }
    report.problems.push_back(problem_of(log.status(), directory));
    check_files(directory, &report);
    return report;
  }
  check_files(directory, &report);
  // The fold that open() would do, into an engine that nobody starts.
  EngineOptions engine_options;
  engine_options.drive = Drive::kHost;
  const Result<std::unique_ptr<Engine>> engine = Engine::create(engine_options);
  if (!engine.ok()) {
    return engine.status();
  }
  Restorer restorer(**engine);
  const auto visitor = [&](const BlobHeader& header, std::span<const Op> ops) {
    if (report.first_lsn == 0) {
      report.first_lsn = header.first_lsn;
    }
    for (const Op& op : ops) {
      if (Status status = restorer.apply(op, header.session_hash); !status.ok()) {
        return Status(status.code(), (*log)->facts().path + ": " + status.detail());
      }
    }
    return Status();
  };
  Status status = (*log)->read(visitor);
  const Result<RestoreSummary> summary = restorer.finish((*log)->end());
  if (status.ok()) {
    status = summary.status();
  }
  if (!status.ok()) {
    if (!is_problem(status.code())) {
      return status;
    }
    report.problems.push_back(problem_of(status, (*log)->facts().path));
  }
  describe(**log, &report);
  if (summary.ok()) {
    report.log.live = summary->live;
    report.log.dead = summary->dead;
  }
  return report;
}

}  // namespace countwheel
