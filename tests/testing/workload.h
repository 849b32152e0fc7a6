// Workload: threads that schedule, cancel and move tasks of a running engine, and the handler of
// those tasks; all of it written down in a Truth.
#ifndef COUNTWHEEL_TESTS_TESTING_WORKLOAD_H_
#define COUNTWHEEL_TESTS_TESTING_WORKLOAD_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <countwheel/engine.h>

#include "testing/truth.h"

namespace countwheel::testing {

// The payload of a task is its number in the truth.
std::string payload_of(std::uint32_t number);
std::uint32_t number_of(std::string_view payload);

class Workload {
 public:
  // Registers the handler. `engine` and `truth` are borrowed. Deadlines lie up to `reach` ahead, an
  // eighth of them up to 20 times that: mostly within the life of one process, sometimes beyond it.
  // REQUIRES: the engine has not started.
  Workload(Engine& engine,
           Truth& truth,
           std::chrono::nanoseconds reach = std::chrono::milliseconds(25));
  ~Workload();

  // Starts one thread for each durability, which its calls ask for.
  void drive(const std::vector<Durability>& durabilities, std::uint64_t seed);
  // Notes completions that are on disk by now. Called often, by one thread.
  void sweep();
  // Nothing is written down any more: the machine is dead, this engine just does not know it yet.
  void abandon() { abandoned_ = true; }
  // Ends the threads.
  void join();

 private:
  struct Sweep {
    std::uint32_t number = 0;
    std::uint64_t id = 0;
    std::uint64_t lsn = 0;  // its completion is not above it
  };

  std::int64_t random_deadline_ns(std::mt19937_64& random) const;
  void run(Durability durability, std::uint64_t seed);
  bool schedule(Durability durability, std::mt19937_64& random, std::vector<std::uint32_t>* mine);
  void cancel(std::uint32_t number, Durability durability);
  void reschedule(std::uint32_t number, Durability durability, std::mt19937_64& random);
  void handle(Delivery delivery);

  Engine& engine_;
  Truth& truth_;
  const std::int64_t reach_ns_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> abandoned_{false};
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::deque<Sweep> done_;      // guarded by mutex_: done() has returned
  std::deque<Sweep> unsynced_;  // of sweep() alone: the record is in the log's queue
};

// Sweeps until nothing is pending; false after `seconds`.
bool drain(Engine& engine, Workload& workload, int seconds);

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_WORKLOAD_H_
