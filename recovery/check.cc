// check(): looks at everything open() would look at, and at the modes of the files, without
// changing anything and without stopping at the first problem where it can go on.
#include <cctype>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <countwheel/recovery.h>

namespace countwheel {
namespace {

namespace fs = std::filesystem;

// A task in the log; this is all that counting needs.
enum class Fate : std::uint8_t { kLive, kDead };

class Fold {
 public:
  void apply(const Op& op) {
    switch (op.kind) {
      case OpKind::kSchedule:
        tasks_[op.id.value] = op.dead ? Fate::kDead : Fate::kLive;
        break;
      case OpKind::kCancel:
      case OpKind::kDone:
        tasks_.erase(op.id.value);
        break;
      case OpKind::kDead:
        // An operation on a task whose schedule is below the low-water mark ended long ago.
        if (const auto found = tasks_.find(op.id.value); found != tasks_.end()) {
          found->second = Fate::kDead;
        }
        break;
      case OpKind::kNone:
      case OpKind::kReschedule:
      case OpKind::kRetry:
      case OpKind::kType:
        break;
    }
  }

  std::uint64_t count(Fate fate) const {
    std::uint64_t count = 0;
    for (const auto& [id, its_fate] : tasks_) {
      count += its_fate == fate ? 1U : 0U;
    }
    return count;
  }

 private:
  std::unordered_map<std::uint64_t, Fate> tasks_;
};

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
  Fold fold;
  const auto visitor = [&](const BlobHeader& header, std::span<const Op> ops) {
    if (report.first_lsn == 0) {
      report.first_lsn = header.first_lsn;
    }
    for (const Op& op : ops) {
      fold.apply(op);
    }
    return Status();
  };
  if (Status status = (*log)->read(visitor); !status.ok()) {
    if (!is_problem(status.code())) {
      return status;
    }
    report.problems.push_back(problem_of(status, (*log)->facts().path));
  }
  describe(**log, &report);
  report.log.live = fold.count(Fate::kLive);
  report.log.dead = fold.count(Fate::kDead);
  return report;
}

}  // namespace countwheel
