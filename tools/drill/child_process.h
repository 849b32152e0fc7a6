// ChildProcess: this program again, as the timer service.
#ifndef COUNTWHEEL_TOOLS_DRILL_CHILD_PROCESS_H_
#define COUNTWHEEL_TOOLS_DRILL_CHILD_PROCESS_H_

#include <chrono>
#include <string>
#include <sys/types.h>

#include <countwheel/status.h>

namespace countwheel::drill {

// Thread contract: one thread.
class ChildProcess {
 public:
  ChildProcess() = default;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  // Kills what still runs: a drill leaves nothing behind.
  ~ChildProcess();

  // Runs `/proc/self/exe drill --child DESCRIPTOR`. REQUIRES: !running().
  Status spawn(int descriptor);

  bool running() const noexcept { return pid_ > 0; }
  // True if and only if it has ended by itself; how() says how.
  bool ended();
  // SIGSTOP; true when the process stands still, false when it has ended instead.
  bool freeze();
  // SIGCONT, after freeze().
  void thaw();
  // SIGKILL; returns when the process is gone.
  void kill();
  // True if and only if it ended in time.
  bool wait(std::chrono::nanoseconds timeout);

  // "exit code 1", "signal 11".
  const std::string& how() const noexcept { return how_; }
  bool succeeded() const noexcept { return succeeded_; }

 private:
  void keep(int status);

  pid_t pid_ = 0;
  std::string how_;
  bool succeeded_ = false;
};

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_CHILD_PROCESS_H_
