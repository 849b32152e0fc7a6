// What the reports say to people.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include <countwheel/recovery.h>

namespace countwheel {
namespace {

// 1234567 as 1,234,567.
std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string counted(std::uint64_t value, const char* singular, const char* plural) {
  return grouped(value) + " " + (value == 1 ? singular : plural);
}

std::string rounded(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 10'000) {
    return grouped(bytes) + " B";
  }
  return bytes < 10'000'000 ? rounded(value / 1e3, 0) + " kB" : rounded(value / 1e6, 1) + " MB";
}

std::string seconds_text(double seconds) {
  if (seconds < 0.001) {
    return rounded(seconds * 1e6, 0) + " us";
  }
  return seconds < 1 ? rounded(seconds * 1e3, 0) + " ms" : rounded(seconds, 2) + " s";
}

std::string tasks_text(const RecoveryReport& report) {
  std::string text = counted(report.live, "live task", "live tasks");
  if (report.overdue > 0) {
    text += ", " + grouped(report.overdue) + " overdue";
  }
  if (report.redelivered > 0) {
    text += ", " + grouped(report.redelivered) + " redelivered";
  }
  if (report.dead > 0) {
    text += ", " + counted(report.dead, "dead letter", "dead letters");
  }
  return text;
}

}  // namespace

std::string RecoveryReport::text() const {
  if (created) {
    return directory + ": a new log, made in " + seconds_text(seconds);
  }
  std::string text =
      directory + ": " + tasks_text(*this) + "; " + counted(ops, "operation", "operations") +
      " in " + counted(blobs, "group commit", "group commits") + " (" + bytes_text(log_bytes) + ")";
  if (ops >= 1000) {
    text += " replayed at " + rounded(ops_per_second / 1e6, 2) + " M/s";
  }
  text += ", opened in " + seconds_text(seconds);
  text += clean_stop ? "; stopped in order" : "; ended without a stop";
  if (torn_bytes > 0) {
    text += "; torn tail of " + bytes_text(torn_bytes) + " cut off";
  }
  if (clock_behind) {
    text += "; the wall clock is " + seconds_text(static_cast<double>(clock_behind_ns) / 1e9) +
            " behind the log";
  }
  return text;
}

std::string CheckReport::text() const {
  std::string text = directory + ": " + (ok() ? "sound" : "DAMAGED") + "\n";
  for (const CheckProblem& problem : problems) {
    text += "  " + std::string(to_string(problem.code)) + ": " + problem.text + "\n";
  }
  text += "  tasks  " + tasks_text(log) + "\n";
  text += "  log    format " + std::to_string(format) + ", " +
          counted(log.ops, "operation", "operations") + " in " +
          counted(log.blobs, "group commit", "group commits") + " (" + bytes_text(log.log_bytes) +
          "), " + bytes_text(disk_bytes) + " on disk\n";
  if (log.blobs > 0) {
    text += "  range  group commits " + std::to_string(first_blob) + " to " +
            std::to_string(last_blob) + ", LSN " + std::to_string(first_lsn) + " to " +
            std::to_string(last_lsn) + ", start " + std::to_string(log.epoch) + "\n";
  }
  if (running_cells > 0) {
    text +=
        "  ended  while " + counted(running_cells, "handler was", "handlers were") + " running\n";
  } else if (log.blobs > 0) {
    text += log.clean_stop ? "  ended  in order\n" : "  ended  without a stop\n";
  }
  if (log.torn_bytes > 0) {
    text += "  tail   " + bytes_text(log.torn_bytes) +
            " of a group commit that nobody was told about; open() cuts it off\n";
  }
  return text;
}

}  // namespace countwheel
