#include "child_process.h"

#include <cerrno>
#include <cstring>
#include <signal.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <countwheel/assert.h>

namespace countwheel::drill {

ChildProcess::~ChildProcess() {
  if (running()) {
    kill();
  }
}

Status ChildProcess::spawn(int descriptor) {
  COUNTWHEEL_ASSERT(!running());
  const std::string number = std::to_string(descriptor);
  how_.clear();
  succeeded_ = false;
  const pid_t pid = fork();
  if (pid < 0) {
    return Status(Code::kResource, std::string("fork: ") + std::strerror(errno));
  }
  if (pid == 0) {
    // What the service prints must not mix with the report.
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execl("/proc/self/exe", "countwheel", "drill", "--child", number.c_str(), nullptr);
    _exit(127);
  }
  pid_ = pid;
  return {};
}

bool ChildProcess::ended() {
  if (!running()) {
    return true;
  }
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) {
    return false;
  }
  keep(status);
  return true;
}

bool ChildProcess::freeze() {
  COUNTWHEEL_ASSERT(running());
  ::kill(pid_, SIGSTOP);
  int status = 0;
  while (waitpid(pid_, &status, WUNTRACED) < 0 && errno == EINTR) {
  }
  if (WIFSTOPPED(status)) {
    return true;
  }
  keep(status);
  return false;
}

void ChildProcess::thaw() {
  COUNTWHEEL_ASSERT(running());
  ::kill(pid_, SIGCONT);
}

void ChildProcess::kill() {
  COUNTWHEEL_ASSERT(running());
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  keep(status);
}

bool ChildProcess::wait(std::chrono::nanoseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!ended()) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

void ChildProcess::keep(int status) {
  pid_ = 0;
  succeeded_ = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  how_ = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                             : "exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace countwheel::drill
