#include "peers/task_server.h"

#include <fcntl.h>
#include <fstream>
#include <thread>
#include <unistd.h>

namespace countwheel::bench {

TaskServer::~TaskServer() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

std::string TaskServer::socket_directory() const {
  if (descriptor_ < 0) {
    descriptor_ = ::open(directory_.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  }
  return "/proc/self/fd/" + std::to_string(descriptor_);
}

std::string TaskServer::start() {
  if (const std::string why = spawn(); !why.empty()) {
    return why;
  }
  constexpr double kPatienceSeconds = 120;
  const Clock::time_point begin = Clock::now();
  std::vector<std::uint64_t> ids;
  while (seconds_since(begin) < kPatienceSeconds && process_.is_running()) {
    // A task due in 1970: there is none, but who answers is ready.
    if (const std::unique_ptr<TaskClient> client = connect(); client && client->pop(1, 1, ids)) {
      return "";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::ifstream log(directory_.path() + "/server.log");
  std::string line;
  std::string last;
  while (std::getline(log, line)) {
    last = line.empty() ? last : line;
  }
  return "the server does not answer; its log ends with: " + last;
}

}  // namespace countwheel::bench
