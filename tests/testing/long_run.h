// Long runs: what a test that repeats something millions of times needs. The full number is the
// slow tests'; the fast ones do a share of it.
#ifndef COUNTWHEEL_TESTS_TESTING_LONG_RUN_H_
#define COUNTWHEEL_TESTS_TESTING_LONG_RUN_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace countwheel::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// `full` divided by the value of COUNTWHEEL_SHARE, and by 20 under a sanitizer if that is not set.
inline std::int64_t share_of(std::int64_t full) {
  const char* given = std::getenv("COUNTWHEEL_SHARE");
  const std::int64_t unless_given = kSanitized ? 20 : 1;
  const std::int64_t divisor = given != nullptr ? std::strtoll(given, nullptr, 10) : unless_given;
  return full / std::max<std::int64_t>(divisor, 1);
}

// Bytes of this process in memory. The sanitizers keep what is freed: under them it means nothing.
inline std::int64_t resident_bytes() {
  long pages = 0;
  long resident = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) {
      resident = 0;
    }
    std::fclose(file);
  }
  return std::int64_t{resident} * sysconf(_SC_PAGESIZE);
}

// The shortest of `rounds`: what the machine can do when nobody disturbs it.
template <class Work>
std::chrono::nanoseconds shortest(int rounds, Work&& work) {
  std::chrono::nanoseconds best = std::chrono::nanoseconds::max();
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - begin);
  }
  return best;
}

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_LONG_RUN_H_
