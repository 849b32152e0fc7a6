// StateMachine: a random life of an engine, written down and held against its promises.
//
// Four callers do anything to anything: on four threads beside those of the engine, or one after
// the other as a host that polls, so that the same seed gives the same record. Handlers answer at
// random, now or later, or wait until callers have made calls. In between there may be a crash,
// which goes on with an image of the log, and a write that the log refuses. Time stands still
// unless a caller moves it.
//
// A new kind of call is one entry in kCalls (state_machine_calls.cc), a new kind of answer or of
// call from a handler one in kAnswers or kFromHandler (state_machine_handlers.cc).
#ifndef COUNTWHEEL_TESTS_TESTING_STATE_MACHINE_H_
#define COUNTWHEEL_TESTS_TESTING_STATE_MACHINE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <countwheel/engine.h>

#include "testing/memory_log.h"
#include "testing/record.h"

namespace countwheel::testing {

// What one seed does.
struct Plan {
  std::uint64_t seed = 0;
  bool threads = true;  // otherwise a host that polls
  bool crash = false;   // in the middle
  bool power = false;   // and it takes what was not synced
  bool refuse = false;  // one write
  int calls = 400;      // of all callers together
};
// A third of the seeds crash, a tenth has a write refused, half of them run on threads.
Plan plan_of(std::uint64_t seed);

class StateMachine {
 public:
  explicit StateMachine(const Plan& plan);
  ~StateMachine();

  // Does everything; answers the promises that were broken.
  std::vector<std::string> run();
  const Record& record() const { return record_; }

 private:
  struct Caller {
    std::mt19937_64 random;
    std::vector<std::size_t> unsettled = {};  // calls of this life whose durability is not known
    std::uint64_t below(std::uint64_t bound) { return random() % bound; }
    bool one_in(std::uint64_t n) { return below(n) == 0; }
  };
  struct Kept {
    Delivery delivery;
    std::optional<std::size_t> attempt;
  };
  // From one start of an engine to its crash.
  struct Life {
    int number = 0;
    std::unique_ptr<MemoryLog> log;
    InlineExecutor executor;
    std::unique_ptr<Engine> engine;
    std::mutex mutex;
    std::vector<TaskId> ids;  // guarded by mutex
    std::vector<Kept> kept;   // guarded by mutex
    bool closing = false;     // guarded by mutex: nothing is kept any more
  };
  struct CallEntry {
    const char* name;
    unsigned weight;
    void (StateMachine::*make)(Caller&);
  };
  struct AnswerEntry {
    const char* name;
    unsigned weight;
    void (StateMachine::*give)(Life&, Kept, Caller&);
  };
  struct FromHandlerEntry {
    const char* name;
    unsigned weight;
    void (StateMachine::*make)(Life&, Delivery&, Caller&);
  };
  static const std::vector<CallEntry>& calls();
  static const std::vector<AnswerEntry>& answers();
  static const std::vector<FromHandlerEntry>& calls_from_handlers();

  // state_machine.cc: the course of a run.
  void open(std::unique_ptr<MemoryLog> log);
  void close();
  void register_handlers();
  void register_handler(const char* type, const TypePolicy& policy);
  void drive();
  void drive_on_threads();
  void drive_as_host();
  void one_call(Caller& caller);
  void crash(Caller& caller);
  void drain();
  void finish();
  void poll();
  void settle_all();

  // state_machine_calls.cc: what callers do.
  void schedule(Caller& caller);
  void cancel(Caller& caller);
  void cancel_by_key(Caller& caller);
  void reschedule(Caller& caller);
  void reschedule_by_key(Caller& caller);
  void reschedule_if(Caller& caller);
  void find(Caller& caller);
  void requeue(Caller& caller);
  void purge(Caller& caller);
  void cancel_group(Caller& caller);
  void pause(Caller& caller);
  void resume(Caller& caller);
  void settle(Caller& caller);
  void answer_kept(Caller& caller);
  void extend_kept(Caller& caller);
  void advance(Caller& caller);
  void flush(Caller& caller);
  void count(Caller& caller);
  void poll_if_host(Caller& caller);
  void refuse_write(Caller& caller);

  // state_machine_noted.cc: what several kinds share.
  void schedule_with(Life& life, Caller& caller, std::string_view key, KeyPolicy policy);
  void cancel_noted(Life& life, Caller& caller, TaskId id, std::string_view key);
  void move_noted(Life& life,
                  Caller& caller,
                  TaskId id,
                  std::string_view key,
                  std::optional<WallTime> expected);
  Deadline random_deadline(Caller& caller, Call* call) const;
  TaskId some_id(Life& life, Caller& caller) const;
  static std::string some_key(Caller& caller);
  std::optional<TaskInfo> look_at(Life& life, TaskId id);
  std::optional<TaskInfo> some_letter(Life& life, Caller& caller);
  void note_change(Caller& caller,
                   std::optional<std::size_t> index,
                   const Change& change,
                   bool waited);
  void settle_later(Caller& caller, std::optional<std::size_t> index);

  // state_machine_handlers.cc: what handlers do.
  void handle(Life& life, Delivery delivery);
  void schedule_own_key(Life& life, Delivery& delivery, Caller& caller);
  void cancel_itself(Life& life, Delivery& delivery, Caller& caller);
  void extend_itself(Life& life, Delivery& delivery, Caller& caller);
  void look_at_itself(Life& life, Delivery& delivery, Caller& caller);
  void answer(Life& life, Kept kept, AnswerKind kind, Caller& caller);
  void done(Life& life, Kept kept, Caller& caller);
  void fail(Life& life, Kept kept, Caller& caller);
  void retry(Life& life, Kept kept, Caller& caller);
  void drop(Life& life, Kept kept, Caller& caller);
  void throw_it(Life& life, Kept kept, Caller& caller);
  void keep(Life& life, Kept kept, Caller& caller);
  void wait_for_calls(Life& life, Kept kept, Caller& caller);

  const Plan plan_;
  ManualClock clock_;
  Record record_;
  std::vector<Caller> callers_;
  std::unique_ptr<Life> life_;
  std::unique_ptr<MemoryLog> image_;  // of the crash
  std::atomic<int> made_{0};          // calls that have returned
  std::atomic<int> calling_{0};       // callers that have not finished
  std::atomic<int> payloads_{0};
  std::atomic<bool> over_{false};  // this life has crashed
  std::atomic<bool> draining_{false};
  std::atomic<bool> refuse_next_{false};
  bool nobody_has_a_handler_ = false;
  // Of a host: what may not start.
  std::set<std::string> paused_;
  bool all_paused_ = false;
  std::vector<std::string> failures_;
};

// The types of tasks. Handlers of kParked come when everything else is over.
inline constexpr const char* kTypes[] = {"plain", "slack", "lease", "late", "single", "nobody"};
inline constexpr const char* kParked = "nobody";
inline constexpr const char* kLimited = "single";

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_STATE_MACHINE_H_
