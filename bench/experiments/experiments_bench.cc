// The published experiments, and two more: `python3 bench/run/comparison.py` runs them and writes
// docs/comparison.md.
//
//   COUNTWHEEL_EXPERIMENT_PENDING=N   tasks of the mixed load instead of five million
//   COUNTWHEEL_EXPERIMENT_SECONDS=N   of the sustained load instead of thirty
#include <cstdio>
#include <string_view>

#include "experiments/experiments.h"
#include "row.h"
#ifdef COUNTWHEEL_HAS_HIREDIS
#include "peers/task_server.h"
#endif

namespace {

void register_all() {
  countwheel::bench::register_countwheel_experiments();
#ifdef COUNTWHEEL_HAS_HIREDIS
  if (const std::string why = countwheel::bench::redis_missing(); !why.empty()) {
    std::fprintf(stderr, "skipped: redis: %s\n", why.c_str());
  } else {
    countwheel::bench::register_redis_experiments();
  }
#else
  std::fprintf(stderr, "skipped: redis: libhiredis-dev was not there at configuration\n");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && argv[1] == std::string_view("--crash")) {
    countwheel::bench::take_ten_and_crash(argv[2]);
  }
  register_all();
  return countwheel::bench::run_rows(argc, argv);
}
