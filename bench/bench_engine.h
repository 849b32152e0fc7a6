// What the benchmarks of the whole engine share: a directory of their own and an engine on it.
#ifndef COUNTWHEEL_BENCH_BENCH_ENGINE_H_
#define COUNTWHEEL_BENCH_BENCH_ENGINE_H_

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <utility>

#include <benchmark/benchmark.h>

#include <countwheel/recovery.h>

#include "row.h"

namespace countwheel::bench {

// CPU seconds of the whole process, all threads.
inline double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A fresh directory, removed at the end; under COUNTWHEEL_BENCH_DIR if given, else the working one,
// because a file system in memory would make every sync free.
class Directory {
 public:
  Directory() {
    const char* parent = std::getenv("COUNTWHEEL_BENCH_DIR");
    std::string name = std::string(parent != nullptr ? parent : ".") + "/countwheel-bench-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      std::abort();
    }
    path_ = name;
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string log() const { return path_ + "/log"; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Opens and starts an engine whose one type, "bench", does nothing; or skips the benchmark.
inline std::unique_ptr<Engine> open_engine(benchmark::State& state,
                                           const Directory& directory,
                                           OpenOptions options = {}) {
  Result<Opened> opened = open(directory.log(), std::move(options));
  if (!opened.ok()) {
    state.SkipWithError(opened.status().text().c_str());
    return nullptr;
  }
  std::unique_ptr<Engine> engine = std::move(opened->engine);
  const Status registered = engine->on("bench", [](Delivery d) { (void)d.done(); });
  const Status started = engine->start();
  if (!registered.ok() || !started.ok()) {
    state.SkipWithError("cannot start");
    return nullptr;
  }
  return engine;
}

// Resident memory of this process.
inline double resident_bytes() {
  FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long long total = 0;
  unsigned long long resident = 0;
  if (file == nullptr || std::fscanf(file, "%llu %llu", &total, &resident) != 2) {
    resident = 0;
  }
  if (file != nullptr) {
    std::fclose(file);
  }
  return static_cast<double>(resident) * 4096.0;
}

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_BENCH_ENGINE_H_
