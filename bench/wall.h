// The wall clock, on which the deadlines of the benchmarks are.
#ifndef COUNTWHEEL_BENCH_WALL_H_
#define COUNTWHEEL_BENCH_WALL_H_

#include <chrono>

#include <countwheel/task.h>

namespace countwheel::bench {

inline WallTime wall_now() {
  return std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now());
}

inline double late_us(WallTime deadline) {
  return std::chrono::duration<double, std::micro>(wall_now() - deadline).count();
}

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_WALL_H_
