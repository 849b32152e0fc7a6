// An engine in memory, driven by its host, on a clock that stands still: what most tests of the
// engine stand on. Nothing here sleeps.
#ifndef COUNTWHEEL_TESTS_TESTING_ENGINE_FIXTURE_H_
#define COUNTWHEEL_TESTS_TESTING_ENGINE_FIXTURE_H_

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/engine.h>

namespace countwheel::testing {

// Keeps posted work until the test lets it run: a pool that is busy with something else.
class GatedExecutor final : public Executor {
 public:
  explicit GatedExecutor(std::size_t concurrency = 1) : concurrency_(concurrency) {}
  void post(Work work) noexcept override { work_.push_back(work); }
  std::size_t concurrency() const noexcept override { return concurrency_; }

  // Runs everything that was posted; answers how many pieces.
  std::size_t open() {
    std::size_t ran = 0;
    while (!work_.empty()) {
      const Work work = work_.front();
      work_.pop_front();
      work.run(work.argument);
      ++ran;
    }
    return ran;
  }
  std::size_t waiting() const { return work_.size(); }

 private:
  std::size_t concurrency_;
  std::deque<Work> work_;
};

// One start of a handler, as the tests compare it.
struct Started {
  TaskId id;
  std::string key;
  std::string payload;
  std::int64_t boot_ns = 0;
  std::int64_t wall_ns = 0;
  std::chrono::nanoseconds lateness{0};
  std::uint32_t attempt = 0;
  bool overdue = false;
};

// A host-driven engine with one type, "test", whose handler notes its starts and is done.
class HostEngine {
 public:
  explicit HostEngine(EngineOptions options = {},
                      Executor* executor = nullptr,
                      std::unique_ptr<Journal> journal = nullptr) {
    options.drive = Drive::kHost;
    EngineParts parts;
    parts.clock = &clock;
    parts.executor = executor;
    parts.journal = std::move(journal);
    Result<std::unique_ptr<Engine>> made = Engine::create(options, std::move(parts));
    EXPECT_TRUE(made.ok()) << made.status().text();
    engine = std::move(*made);
  }

  // Registers the noting handler and starts.
  void run(TypePolicy policy = {}) {
    ASSERT_TRUE(engine
                    ->on(
                        "test", [this](Delivery d) { note(std::move(d)); }, policy)
                    .ok());
    ASSERT_TRUE(engine->start().ok());
  }

  void note(Delivery delivery) {
    const Instant now = clock.now();
    started.push_back({delivery.id(),
                       std::string(delivery.key()),
                       std::string(delivery.payload()),
                       now.boot_ns,
                       now.wall_ns,
                       delivery.lateness(),
                       delivery.attempt(),
                       delivery.overdue()});
    ASSERT_TRUE(delivery.done().ok());
  }

  // Moves the clock and polls; answers how many were handed over.
  std::size_t advance(std::chrono::nanoseconds by) {
    clock.advance(by);
    return engine->poll();
  }
  // Moves the clock in steps, polling at each, as a tick thread with that tick would.
  std::size_t advance_by_steps(std::chrono::nanoseconds by, std::chrono::nanoseconds step) {
    std::size_t handed_over = 0;
    for (std::chrono::nanoseconds done{0}; done < by; done += step) {
      handed_over += advance(std::min(step, by - done));
    }
    return handed_over;
  }

  TaskId schedule(Deadline deadline, std::string_view key = {}, std::string_view payload = {}) {
    const Result<TaskId> id =
        engine->schedule({.type = "test", .deadline = deadline, .key = key, .payload = payload});
    EXPECT_TRUE(id.ok()) << id.status().text();
    return id.ok() ? *id : TaskId{};
  }

  ManualClock clock;
  std::unique_ptr<Engine> engine;
  std::vector<Started> started;
};

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_ENGINE_FIXTURE_H_
