// Truth: what a crashing engine has promised about each task, kept where the crash does not reach.
//
// It may lie in memory that is shared with another process, so that it outlives the one that is
// killed. A Workload writes down what it is about to do before each call and what was answered
// after it; verify() holds a recovered engine against that.
#ifndef COUNTWHEEL_TESTS_TESTING_TRUTH_H_
#define COUNTWHEEL_TESTS_TESTING_TRUTH_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <countwheel/engine.h>

namespace countwheel::testing {

// Levels are Durability + 1; 0 is "not acknowledged".
inline constexpr std::uint8_t level_of(Durability durability) {
  return static_cast<std::uint8_t>(static_cast<std::uint8_t>(durability) + 1);
}

// One task. Zeroed memory is a task that was never heard of.
struct TruthTask {
  std::atomic<std::uint64_t> id;
  std::atomic<std::int64_t> deadline_ns;   // acknowledged
  std::atomic<std::int64_t> moving_to_ns;  // of a reschedule that has not returned; 0: none
  std::atomic<std::uint32_t> starts;
  std::atomic<std::uint32_t> failures;         // attempts that the handler failed on purpose
  std::atomic<std::uint32_t> allowed_repeats;  // crashes that found it started and not done
  std::atomic<std::uint8_t> schedule_level;    // acknowledged
  std::atomic<std::uint8_t> deadline_level;    // of the latest acknowledged deadline
  std::atomic<std::uint8_t> cancel_level;      // acknowledged
  std::atomic<std::uint8_t> begun;
  std::atomic<std::uint8_t> cancel_begun;
  std::atomic<std::uint8_t> finished;      // the handler's work is done, done() comes next
  std::atomic<std::uint8_t> done_durable;  // its completion was seen at disk
  std::atomic<std::uint8_t> gone;          // a recovery did not find it: must never start again
};

class Truth {
 public:
  static constexpr std::uint32_t kCapacity = 1U << 17;

  std::array<TruthTask, kCapacity> tasks;
  std::atomic<std::uint32_t> next;
  std::atomic<std::uint32_t> recoveries;
  std::atomic<std::uint32_t> ready;  // recoveries that have started to work
  std::atomic<std::uint32_t> redelivered;
  std::atomic<std::uint32_t> torn;  // recoveries that cut something off
  std::atomic<std::uint32_t> violation_count;
  std::array<char, 4096> violations;  // the first ones, as text

  std::uint32_t size() const { return std::min(next.load(), kCapacity); }
  void violation(const std::string& text);
};

// A copy of one task at one moment.
struct TruthState {
  std::int64_t deadline_ns = 0;
  std::int64_t moving_to_ns = 0;
  std::uint32_t starts = 0;
  std::uint32_t failures = 0;
  std::uint8_t schedule_level = 0;
  std::uint8_t deadline_level = 0;
  std::uint8_t cancel_level = 0;
  bool begun = false;
  bool cancel_begun = false;
  bool finished = false;
  bool done_durable = false;
  bool gone = false;
};
std::vector<TruthState> snapshot(const Truth& truth);

// Compares what `engine` recovered with the truth and makes it the new truth.
//   before   taken before the crash: what had been promised
//   after    taken after it: what may have been begun
//   level    promises at this level or above survive this kind of crash
void verify_and_resync(const Engine& engine,
                       const std::vector<TruthState>& before,
                       const std::vector<TruthState>& after,
                       std::uint8_t level,
                       Truth* truth);

// When nothing is pending any more: everything promised has run, nothing too often.
void verify_at_rest(Truth* truth);

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_TRUTH_H_
