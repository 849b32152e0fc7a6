// A log as a killed process leaves it: filled by a program of its own, not by a fork, which the
// threads of RocksDB do not survive. A benchmark with such logs gives its main() to
// fill_if_asked_to() first.
#ifndef COUNTWHEEL_BENCH_KILLED_LOG_H_
#define COUNTWHEEL_BENCH_KILLED_LOG_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace countwheel::bench {

struct KilledLog {
  std::string path;
  std::size_t live = 0;
  bool clean = false;  // stopped in order before the kill
  // Moment of the wall clock at which the log will be opened, found once it is filled, and tasks
  // beside those far away: overdue by then, and due 1 ms after it.
  bool with_due_tasks = false;
};

inline constexpr std::size_t kOverdue = 100;
inline constexpr std::size_t kDueTasks = kOverdue + 1;

// Schedules a quarter more than `live` tasks, cancels and moves as many as that, and is killed.
// Answers the moment to open at (nanoseconds of the wall clock; 0 without due tasks), or -1.
std::int64_t make_killed_log(const KilledLog& log);

// Never returns in the program that make_killed_log() has started.
void fill_if_asked_to(int argc, char** argv);

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_KILLED_LOG_H_
