// Executor: where handlers run.
//
// The engine posts at most one piece of work per worker it wants busy, never one per task: each
// piece pulls due tasks until there are none. The default is a Boost.Asio thread pool.
#ifndef COUNTWHEEL_EXECUTOR_H_
#define COUNTWHEEL_EXECUTOR_H_

#include <cstddef>
#include <memory>

#include <countwheel/status.h>

namespace countwheel {

// A function and its argument; copying it costs nothing and allocates nothing.
struct Work {
  void (*run)(void* argument) noexcept = nullptr;
  void* argument = nullptr;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs `work` once, now or later, on any thread. REQUIRES: every posted work is run before the
  // executor is destroyed; the executor outlives the engine. Called by the tick thread: must not
  // block, and must not run the work itself unless the engine is driven by its host.
  virtual void post(Work work) noexcept = 0;
  // How many pieces of work can run at the same time.
  virtual std::size_t concurrency() const noexcept = 0;
};

// A Boost.Asio thread pool. `resource` when the threads cannot be started.
Result<std::unique_ptr<Executor>> make_thread_pool(std::size_t threads);

// Runs work inside post(): for engines driven by their host (Drive::kHost).
class InlineExecutor final : public Executor {
 public:
  void post(Work work) noexcept override { work.run(work.argument); }
  std::size_t concurrency() const noexcept override { return 1; }
};

}  // namespace countwheel

#endif  // COUNTWHEEL_EXECUTOR_H_
