// An engine with its own threads, on a clock that stands still unless a test moves it: real
// concurrency, virtual time. Waits are bounded looks at a condition, not sleeps.
#ifndef COUNTWHEEL_TESTS_TESTING_THREADED_ENGINE_H_
#define COUNTWHEEL_TESTS_TESTING_THREADED_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

#include "testing/engine_fixture.h"

namespace countwheel::testing {

// How long a test waits for what must happen soon: ten times what a loaded machine needs.
inline constexpr std::chrono::seconds kPatience{60};

// Looks until `condition` holds; false when patience is at its end.
template <class Condition>
bool eventually(Condition&& condition, std::chrono::nanoseconds patience = kPatience) {
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

class ThreadedEngine {
 public:
  explicit ThreadedEngine(EngineOptions options = {},
                          std::unique_ptr<Journal> journal = nullptr,
                          Clock* other_clock = nullptr) {
    EngineParts parts;
    parts.clock = other_clock != nullptr ? other_clock : &clock;
    parts.journal = std::move(journal);
    Result<std::unique_ptr<Engine>> made = Engine::create(options, std::move(parts));
    EXPECT_TRUE(made.ok()) << made.status().text();
    engine = std::move(*made);
  }

  void run(TypePolicy policy = {}) {
    ASSERT_TRUE(engine
                    ->on(
                        "test", [this](Delivery d) { note(std::move(d)); }, policy)
                    .ok());
    ASSERT_TRUE(engine->start().ok());
  }

  void note(Delivery delivery) {
    const Instant now = clock.now();
    Started start{delivery.id(),
                  std::string(delivery.key()),
                  std::string(delivery.payload()),
                  now.boot_ns,
                  now.wall_ns,
                  delivery.lateness(),
                  delivery.attempt(),
                  delivery.overdue()};
    {
      const std::lock_guard lock(mutex);
      started.push_back(std::move(start));
    }
    EXPECT_TRUE(delivery.done().ok());
  }

  std::vector<Started> starts() const {
    const std::lock_guard lock(mutex);
    return started;
  }
  std::size_t start_count() const {
    const std::lock_guard lock(mutex);
    return started.size();
  }
  bool wait_starts(std::size_t count) {
    return eventually([&] { return start_count() >= count; });
  }
  bool wait_handed_over(std::uint64_t count) {
    return eventually([&] { return engine->stats().handed_over >= count; });
  }
  // Until no task is pending: each has ended.
  bool wait_idle() {
    return eventually([&] { return engine->stats().pending == 0; });
  }

  TaskId schedule(Deadline deadline, std::string_view key = {}, std::string_view payload = {}) {
    const Result<TaskId> id =
        engine->schedule({.type = "test", .deadline = deadline, .key = key, .payload = payload});
    EXPECT_TRUE(id.ok()) << id.status().text();
    return id.ok() ? *id : TaskId{};
  }

  ManualClock clock;
  mutable std::mutex mutex;
  std::vector<Started> started;  // guarded by mutex
  std::unique_ptr<Engine> engine;
};

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_THREADED_ENGINE_H_
