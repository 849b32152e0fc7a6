// TaskServer: a server that keeps delayed tasks, behind one interface.
//
// Started by the benchmark in a directory under the working one, so on the disk that ours writes
// to; reached through a unix socket, with one connection a TaskClient; killed at the end.
#ifndef COUNTWHEEL_BENCH_PEERS_TASK_SERVER_H_
#define COUNTWHEEL_BENCH_PEERS_TASK_SERVER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench_engine.h"
#include "peers/server_process.h"

namespace countwheel::bench {

// Ids are small numbers; a server makes 16 bytes of them. The payload is always the same 16 bytes.
struct ServerTask {
  std::uint64_t id = 0;
  std::int64_t due_ms = 0;  // on the wall clock
};

inline constexpr const char* kServerPayload = "0123456789abcdef";

// When a server makes sure of what it has acknowledged.
enum class Sync {
  kAlways,     // before it says so
  kSometimes,  // within a second or less
};

// One connection. False: the server refused or is gone.
// Thread contract: one thread.
class TaskClient {
 public:
  virtual ~TaskClient() = default;
  // Sends all of it at once; a few calls may be under way together. Those that are cancelled have
  // been scheduled and finished before.
  virtual bool send(std::span<const ServerTask> schedules, std::span<const ServerTask> cancels) = 0;
  // Everything sent has been acknowledged.
  virtual bool finish() = 0;
  // Takes at most `limit` of those that are due by `now_ms`, with their payloads, for good. Nothing
  // may be under way.
  virtual bool pop(std::int64_t now_ms, std::size_t limit, std::vector<std::uint64_t>& ids) = 0;
};

// Thread contract: one thread.
class TaskServer {
 public:
  virtual ~TaskServer();
  // Starts it anew on what is in its directory and waits until it takes tasks. The text says why
  // not; empty if it does.
  std::string start();
  // kill -9.
  void kill() { process_.kill(); }
  // Null if it does not answer.
  virtual std::unique_ptr<TaskClient> connect() = 0;
  // Writes its log anew without what is gone, where there is such a thing.
  virtual bool rewrite_log() { return false; }

  // The name of its socket for whoever connects in this process. Paths of sockets are short by law,
  // those of directories are not: this one goes by a descriptor.
  std::string socket_path() const { return socket_directory() + "/socket"; }
  const ServerProcess& process() const { return process_; }
  double disk_bytes() const { return disk_bytes_below(directory_.path()); }

 protected:
  // The text says why not.
  virtual std::string spawn() = 0;
  std::string socket_directory() const;

  Directory directory_;
  ServerProcess process_;

 private:
  mutable int descriptor_ = -1;
};

// Not started.
using TaskServerFactory = std::unique_ptr<TaskServer> (*)(Sync sync, bool with_payload);

std::unique_ptr<TaskServer> make_redis(Sync sync, bool with_payload);
std::unique_ptr<TaskServer> make_beanstalkd(Sync sync, bool with_payload);
std::unique_ptr<TaskServer> make_postgresql(Sync sync, bool with_payload);

// Why it cannot be measured here; empty if it can.
std::string redis_missing();
std::string beanstalkd_missing();
std::string postgresql_missing();

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_TASK_SERVER_H_
