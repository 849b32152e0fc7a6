#include "peers/server_process.h"

#include <cctype>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <grp.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace countwheel::bench {
namespace {

// In the child. The order matters: a change of the user forgets the signal of the parent's death.
[[noreturn]] void become(const std::vector<std::string>& command,
                         const std::string& directory,
                         const UnprivilegedUser* user,
                         pid_t parent) {
  const int log = ::open((directory + "/server.log").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0644);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  const bool moved = chdir(directory.c_str()) == 0;
  const bool changed = user == nullptr || (setgroups(0, nullptr) == 0 && setgid(user->gid) == 0 &&
                                           setuid(user->uid) == 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!moved || !changed || getppid() != parent) {
    _exit(126);
  }
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));  // exec does not write to them
  }
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

pid_t start_child(const std::vector<std::string>& command,
                  const std::string& directory,
                  const UnprivilegedUser* user) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    become(command, directory, user, parent);
  }
  return child;
}

// The fields of /proc/PID/stat behind the name; empty when the process is gone.
std::vector<std::string> stat_fields(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) {
    return {};
  }
  std::istringstream rest(text.substr(end_of_name + 1));
  std::vector<std::string> fields;
  std::string field;
  while (rest >> field) {
    fields.push_back(field);
  }
  return fields;
}

constexpr std::size_t kParentField = 1;
constexpr std::size_t kUserTimeField = 11;
constexpr std::size_t kSystemTimeField = 12;

}  // namespace

std::string find_program(const std::string& name, const std::vector<std::string>& directories) {
  std::vector<std::string> places = directories;
  std::istringstream path(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string place; std::getline(path, place, ':');) {
    places.push_back(place);
  }
  for (const std::string& place : places) {
    const std::string file = place + "/" + name;
    if (access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return {};
}

bool ServerProcess::start(const std::vector<std::string>& command,
                          const std::string& directory,
                          const UnprivilegedUser* user) {
  kill();
  pid_ = start_child(command, directory, user);
  return pid_ > 0;
}

void ServerProcess::kill() {
  if (pid_ <= 0) {
    return;
  }
  for (const pid_t pid : family()) {
    ::kill(pid, SIGKILL);
  }
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void ServerProcess::stop(int signal) {
  constexpr int kTries = 1000;
  if (is_running()) {
    ::kill(pid_, signal);
  }
  for (int i = 0; i < kTries && is_running(); ++i) {
    usleep(10'000);
  }
  kill();
}

bool ServerProcess::is_running() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) {
    pid_ = -1;
  }
  return pid_ > 0;
}

std::vector<pid_t> ServerProcess::family() const {
  std::vector<pid_t> found;
  if (pid_ <= 0) {
    return found;
  }
  found.push_back(pid_);
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) {
      continue;
    }
    const auto pid = static_cast<pid_t>(std::atoi(name.c_str()));
    const std::vector<std::string> fields = stat_fields(pid);
    if (fields.size() > kParentField && std::atoi(fields[kParentField].c_str()) == pid_) {
      found.push_back(pid);
    }
  }
  return found;
}

double ServerProcess::cpu_seconds() const {
  double ticks = 0;
  for (const pid_t pid : family()) {
    const std::vector<std::string> fields = stat_fields(pid);
    if (fields.size() > kSystemTimeField) {
      ticks += std::atof(fields[kUserTimeField].c_str());
      ticks += std::atof(fields[kSystemTimeField].c_str());
    }
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double ServerProcess::resident_bytes() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/statm");
  double total = 0;
  double resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

bool run_to_end(const std::vector<std::string>& command,
                const std::string& directory,
                const UnprivilegedUser* user) {
  const pid_t child = start_child(command, directory, user);
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

double disk_bytes_below(const std::string& directory) {
  double bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, error)) {
    if (entry.is_regular_file(error)) {
      bytes += static_cast<double>(entry.file_size(error));
    }
  }
  return bytes;
}

}  // namespace countwheel::bench
