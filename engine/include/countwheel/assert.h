// COUNTWHEEL_ASSERT: for programmers' mistakes only.
//
// What the world does (a full disk, a damaged file, a clock that steps) is a Status and never an
// assertion. The checks stay on in release builds: each is a compare and a branch that is never
// taken, and a timer service that goes on with a broken table is worse than one that stops.
#ifndef COUNTWHEEL_ASSERT_H_
#define COUNTWHEEL_ASSERT_H_

namespace countwheel::detail {

// Prints the condition and its place to stderr and aborts.
[[noreturn]] void assert_failed(const char* condition, const char* file, int line) noexcept;

}  // namespace countwheel::detail

#define COUNTWHEEL_ASSERT(condition)                                       \
  do {                                                                     \
    if (!(condition)) [[unlikely]] {                                       \
      ::countwheel::detail::assert_failed(#condition, __FILE__, __LINE__); \
    }                                                                      \
  } while (false)

#endif  // COUNTWHEEL_ASSERT_H_
