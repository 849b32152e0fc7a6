// History: a random life of an engine in memory, and what its tasks must look like.
//
// Drives the public API with a seed: schedules with and without keys, replacements, cancels,
// reschedules, handlers that succeed, fail, ask for a retry or keep their delivery. Beside it a map
// that knows nothing of the engine but its answers. The clock stands still unless moved here.
#ifndef COUNTWHEEL_TESTS_TESTING_HISTORY_H_
#define COUNTWHEEL_TESTS_TESTING_HISTORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <countwheel/clock.h>
#include <countwheel/engine.h>
#include <countwheel/executor.h>

#include "testing/memory_log.h"

namespace countwheel::testing {

// What must survive, of one task, as one line of text: comparing lines says what differs.
std::string describe(const TaskInfo& info);
// All tasks and dead letters, by id.
std::map<std::uint64_t, std::string> describe_all(const Engine& engine);

class History {
 public:
  struct Task {
    std::string type;
    std::string key;
    std::string payload;
    ClockKind clock = ClockKind::kWall;
    std::int64_t wall_deadline_ns = 0;
    std::uint32_t attempts = 0;
    std::uint32_t failures = 0;
    bool dead = false;
    bool running = false;
  };

  explicit History(std::uint64_t seed);

  // One random call, or one answer of a kept delivery, or a step of time.
  void step();
  // Everything so far reaches the log, synced.
  void settle();
  // Answers kept deliveries: afterwards nothing runs.
  void answer_all();

  Engine& engine() { return *engine_; }
  MemoryLog& log() { return log_; }
  ManualClock& clock() { return clock_; }
  static EngineOptions options();
  const std::map<std::uint64_t, Task>& tasks() const { return tasks_; }
  std::size_t running_count() const { return kept_.size(); }
  std::uint64_t starts() const { return starts_; }

 private:
  void schedule();
  void cancel();
  void reschedule();
  void answer(Delivery delivery);
  void handle(Delivery delivery);
  Deadline random_deadline(Task* task);
  // A task that was scheduled for the key of a running one while that ran: a failure of the
  // running one is its end then.
  bool has_successor(std::uint64_t id) const;
  // The id of a task that is not running; 0 when there is none.
  std::uint64_t some_task();
  std::uint64_t random(std::uint64_t bound) { return random_() % bound; }

  std::mt19937_64 random_;
  ManualClock clock_;
  InlineExecutor executor_;
  MemoryLog log_{16};
  std::map<std::uint64_t, Task> tasks_;
  std::uint64_t starts_ = 0;
  std::unique_ptr<Engine> engine_;
  std::vector<Delivery> kept_;  // answered before the engine goes
};

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_HISTORY_H_
