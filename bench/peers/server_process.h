// A server as a child of the benchmark: it dies with it, whatever happens.
#ifndef COUNTWHEEL_BENCH_PEERS_SERVER_PROCESS_H_
#define COUNTWHEEL_BENCH_PEERS_SERVER_PROCESS_H_

#include <string>
#include <sys/types.h>
#include <vector>

namespace countwheel::bench {

// Where the program is: on the PATH or in one of the directories; empty if nowhere.
std::string find_program(const std::string& name, const std::vector<std::string>& directories = {});

// Whom a program that refuses root may run as.
struct UnprivilegedUser {
  uid_t uid = 0;
  gid_t gid = 0;
};

// Thread contract: one thread, which must be the one that lives longest: the child is bound to it.
class ServerProcess {
 public:
  ServerProcess() = default;
  ~ServerProcess() { kill(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Starts the program in `directory`, its output in the file `server.log` there. False if it could
  // not even be forked; whether it came up is for a connection to find out.
  bool start(const std::vector<std::string>& command,
             const std::string& directory,
             const UnprivilegedUser* user = nullptr);
  // kill -9, of its children too, and waits for its end.
  void kill();
  // Asks it by a signal and gives it ten seconds; kills it then.
  void stop(int signal);
  bool is_running();

  // Of the process and its children, so far.
  double cpu_seconds() const;
  double resident_bytes() const;

 private:
  std::vector<pid_t> family() const;

  pid_t pid_ = -1;
};

// Runs the program to its end; true if it exits with 0.
bool run_to_end(const std::vector<std::string>& command,
                const std::string& directory,
                const UnprivilegedUser* user = nullptr);

// The bytes of all files below a directory.
double disk_bytes_below(const std::string& directory);

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_SERVER_PROCESS_H_
