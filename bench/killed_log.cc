#include "killed_log.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <countwheel/recovery.h>

#include "wall.h"

namespace countwheel::bench {
namespace {

constexpr std::string_view kFill = "--fill";
constexpr std::string_view kPayload = "0123456789abcdef";

// Cancels a quarter of `live` and moves another.
void churn(Engine& engine, std::vector<TaskId>& ids, std::size_t live) {
  std::minstd_rand random(1);
  std::shuffle(ids.begin(), ids.end(), random);
  for (std::size_t i = 0; i < live / 4; ++i) {
    (void)engine.submit_cancel(ids[i]);
    (void)engine.submit_reschedule(ids[live / 4 + i], after(std::chrono::hours(24)));
    if (i % 50'000 == 49'999) {
      (void)engine.flush(Durability::kOs);
    }
  }
}

// The tasks that recovery.ready waits for; the time to open is written where the parent reads it.
void schedule_due(Engine& engine, const std::string& path) {
  const WallTime open_at = wall_now() + std::chrono::milliseconds(1500);
  for (std::size_t i = 0; i < kOverdue; ++i) {
    const std::string key = "overdue-" + std::to_string(i);
    (void)engine.submit({.type = "due",
                         .deadline = at(open_at - std::chrono::milliseconds(kOverdue - i)),
                         .key = key});
  }
  (void)engine.submit(
      {.type = "due", .deadline = at(open_at + std::chrono::milliseconds(1)), .key = "soon"});
  (void)engine.flush(Durability::kDisk);
  if (FILE* file = std::fopen((path + ".open_at").c_str(), "w")) {
    std::fprintf(file, "%lld", static_cast<long long>(open_at.time_since_epoch().count()));
    std::fclose(file);
  }
}

[[noreturn]] void fill(const KilledLog& log) {
  Result<Opened> opened = open(log.path, {});
  if (!opened.ok() || !opened->engine->start().ok()) {
    _exit(1);
  }
  Engine& engine = *opened->engine;
  std::minstd_rand random(1);
  std::vector<TaskId> ids;
  for (std::size_t i = 0; i < log.live + log.live / 4; ++i) {
    const Result<Submitted> submitted =
        engine.submit({.type = "bench",
                       .deadline = after(std::chrono::seconds(3600 + random() % 604'800)),
                       .payload = kPayload,
                       .durability = Durability::kOs});
    if (submitted.ok()) {
      ids.push_back(submitted->id);
    }
    if (i % 100'000 == 99'999) {
      (void)engine.flush(Durability::kOs);
    }
  }
  churn(engine, ids, log.live);
  (void)engine.flush(Durability::kDisk);
  if (log.with_due_tasks) {
    schedule_due(engine, log.path);
  }
  if (log.clean) {
    (void)engine.stop();
  }
  raise(SIGKILL);
  _exit(1);
}

std::int64_t read_moment(const std::string& path) {
  long long ns = -1;
  FILE* file = std::fopen((path + ".open_at").c_str(), "r");
  if (file == nullptr || std::fscanf(file, "%lld", &ns) != 1) {
    ns = -1;
  }
  if (file != nullptr) {
    std::fclose(file);
  }
  return ns;
}

}  // namespace

std::int64_t make_killed_log(const KilledLog& log) {
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe",
          "fill",
          kFill.data(),
          log.path.c_str(),
          std::to_string(log.live).c_str(),
          log.clean ? "clean" : "killed",
          log.with_due_tasks ? "due" : "far",
          nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
    return -1;
  }
  return log.with_due_tasks ? read_moment(log.path) : 0;
}

void fill_if_asked_to(int argc, char** argv) {
  if (argc == 6 && argv[1] == kFill) {
    fill({.path = argv[2],
          .live = std::strtoull(argv[3], nullptr, 10),
          .clean = argv[4] == std::string_view("clean"),
          .with_due_tasks = argv[5] == std::string_view("due")});
  }
}

}  // namespace countwheel::bench
