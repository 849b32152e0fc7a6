// A user of the whole library: a task is scheduled, outlives the process's engine in a log, and is
// cancelled by its id after the restart.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <countwheel/recovery.h>
#include <countwheel/version.h>

namespace {

int fail(const char* step, const std::string& text) {
  std::fprintf(stderr, "%s: %s\n", step, text.c_str());
  return 1;
}

}  // namespace

int main() {
  if (countwheel::version() != COUNTWHEEL_VERSION) {
    return fail("version", std::string(countwheel::version()));
  }
  char directory[] = "/tmp/countwheel-consumer-XXXXXX";
  if (mkdtemp(directory) == nullptr) {
    return fail("mkdtemp", directory);
  }
  countwheel::TaskId id;
  {
    auto opened = countwheel::open(directory);
    if (!opened.ok()) {
      return fail("open", std::string(opened.status().text()));
    }
    auto scheduled = opened->engine->schedule(
        {.type = "order.expire", .deadline = countwheel::after(std::chrono::hours(1))});
    if (!scheduled.ok()) {
      return fail("schedule", std::string(scheduled.status().text()));
    }
    id = *scheduled;
  }
  {
    auto reopened = countwheel::open(directory);
    if (!reopened.ok()) {
      return fail("reopen", std::string(reopened.status().text()));
    }
    if (reopened->report.live != 1) {
      return fail("report", reopened->report.text());
    }
    if (!reopened->engine->cancel(id)) {
      return fail("cancel", "the task is gone");
    }
  }
  std::filesystem::remove_all(directory);
  return 0;
}
