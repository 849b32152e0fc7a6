// Witness: writes down when calls are answered and completions are durable.
//
// The thread that takes commands must not wait for the disk, so answers have a thread of their own:
// it waits for one LSN after the other and stamps each return. Another looks after ended handlers:
// done() is grouped by the engine, so a completion counts as durable once the task is gone and the
// log is written beyond every LSN handed out by then.
#ifndef COUNTWHEEL_TOOLS_DRILL_SERVICE_WITNESS_H_
#define COUNTWHEEL_TOOLS_DRILL_SERVICE_WITNESS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include <countwheel/engine.h>

#include "region.h"

namespace countwheel::drill {

// A call that has returned from submit() and not yet to its caller.
struct OpenCall {
  std::uint32_t order = 0;
  StampKind kind = StampKind::kScheduleReturn;
  Code code = Code::kOk;  // if its record becomes durable
  Lsn lsn;
};

// Thread contract: safe for concurrent use after start().
class Witness {
 public:
  // Both must outlive the witness.
  Witness(Region& region, Engine& engine);
  // Stamps what is answered by then and joins its threads.
  ~Witness();
  Witness(const Witness&) = delete;
  Witness& operator=(const Witness&) = delete;

  // The engine must have started: nothing becomes durable before.
  void start();
  void stop();

  // The call will be answered when its record is as durable as the drill asks for.
  void await(const OpenCall& call);
  // The handler of the task has ended.
  void ended(std::uint32_t order, TaskId id);

 private:
  struct Ended {
    std::uint32_t order = 0;
    TaskId id;
  };
  struct Recorded {
    std::uint64_t lsn = 0;  // durable once the log is written up to here
    std::vector<std::uint32_t> orders;
  };

  void answer_calls();
  void answer(const OpenCall& call);
  void settle_ended();
  void collect_gone();
  void stamp_durable();

  Region& region_;
  Engine& engine_;
  StampRing ring_;
  std::uint16_t life_;

  std::mutex calls_mutex_;
  std::condition_variable calls_changed_;
  std::deque<OpenCall> calls_;  // guarded by calls_mutex_
  bool closing_ = false;        // guarded by calls_mutex_

  std::mutex ended_mutex_;
  std::vector<Ended> ended_;  // guarded by ended_mutex_

  std::vector<Ended> not_gone_;    // of the settling thread
  std::deque<Recorded> recorded_;  // of the settling thread
  std::atomic<bool> stopping_{false};
  std::thread answering_;
  std::thread settling_;
};

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_SERVICE_WITNESS_H_
