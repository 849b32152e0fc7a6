// beanstalkd with a binlog: -f0 syncs every job by itself, -f50 at most every 50 ms. Delays are
// whole seconds, rounded up here. Ids of jobs are its own; those of ours travel in the body.
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "peers/task_server.h"

namespace countwheel::bench {
namespace {

std::int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class BeanstalkdClient : public TaskClient {
 public:
  explicit BeanstalkdClient(int socket) : socket_(socket) {}
  ~BeanstalkdClient() override { ::close(socket_); }
  BeanstalkdClient(const BeanstalkdClient&) = delete;
  BeanstalkdClient& operator=(const BeanstalkdClient&) = delete;

  bool send(std::span<const ServerTask> schedules, std::span<const ServerTask> cancels) override {
    const std::int64_t now_ms = wall_ms();
    char text[128];
    for (const ServerTask& task : schedules) {
      const std::int64_t delay_s = std::max<std::int64_t>((task.due_ms - now_ms + 999) / 1000, 0);
      output_.append(
          text,
          static_cast<std::size_t>(std::snprintf(text,
                                                 sizeof text,
                                                 "put 0 %lld 600 32\r\n%016llx%s\r\n",
                                                 static_cast<long long>(delay_s),
                                                 static_cast<unsigned long long>(task.id),
                                                 kServerPayload)));
      put_.push_back(task.id);
    }
    for (const ServerTask& task : cancels) {
      append_delete(jobs_[task.id]);
    }
    expected_ += schedules.size() + cancels.size();
    return flush() && wait_until_under_way(kUnderWay);
  }

  bool finish() override { return wait_until_under_way(0); }

  // Reserves, then deletes what it got, each in one go.
  bool pop(std::int64_t, std::size_t limit, std::vector<std::uint64_t>& ids) override {
    constexpr std::size_t kInFlight = 100;
    const std::size_t count = std::min(limit, kInFlight);
    for (std::size_t i = 0; i < count; ++i) {
      output_ += "reserve-with-timeout 0\r\n";
    }
    std::vector<std::uint64_t> reserved;
    std::string line;
    bool ok = flush();
    for (std::size_t i = 0; ok && i < count; ++i) {
      ok = read_line(line);
      if (line.starts_with("RESERVED ")) {
        reserved.push_back(std::strtoull(line.c_str() + 9, nullptr, 10));
        ok = read_line(line);
        ids.push_back(std::strtoull(line.substr(0, 16).c_str(), nullptr, 16));
      }
    }
    for (const std::uint64_t job : reserved) {
      append_delete(job);
    }
    expected_ += reserved.size();
    return ok && flush() && finish();
  }

 private:
  static constexpr std::size_t kUnderWay = 1000;

  void append_delete(std::uint64_t job) { output_ += "delete " + std::to_string(job) + "\r\n"; }

  bool flush() {
    std::size_t done = 0;
    while (done < output_.size()) {
      const ssize_t count =
          ::send(socket_, output_.data() + done, output_.size() - done, MSG_NOSIGNAL);
      if (count <= 0) {
        return false;
      }
      done += static_cast<std::size_t>(count);
    }
    output_.clear();
    return true;
  }

  bool read_line(std::string& line) {
    for (;;) {
      const std::size_t end = input_.find("\r\n", read_);
      if (end != std::string::npos) {
        line.assign(input_, read_, end - read_);
        read_ = end + 2;
        return true;
      }
      input_.erase(0, read_);
      read_ = 0;
      char buffer[16'384];
      const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
      if (count <= 0) {
        return false;
      }
      input_.append(buffer, static_cast<std::size_t>(count));
    }
  }

  bool wait_until_under_way(std::size_t count) {
    std::string line;
    while (expected_ > count) {
      if (!read_line(line)) {
        return false;
      }
      --expected_;
      if (line.starts_with("INSERTED ")) {
        const std::uint64_t id = put_[acknowledged_++];
        if (jobs_.size() <= id) {
          jobs_.resize(std::max<std::size_t>(id + 1, 2 * jobs_.size()));
        }
        jobs_[id] = std::strtoull(line.c_str() + 9, nullptr, 10);
      } else if (line != "DELETED") {
        return false;
      }
    }
    return true;
  }

  int socket_;
  std::string output_;
  std::string input_;
  std::size_t read_ = 0;
  std::size_t expected_ = 0;
  std::vector<std::uint64_t> put_;  // ids in the order of their puts
  std::size_t acknowledged_ = 0;
  std::vector<std::uint64_t> jobs_;  // by id
};

class BeanstalkdServer : public TaskServer {
 public:
  explicit BeanstalkdServer(Sync sync) : sync_(sync) {}

  std::unique_ptr<TaskClient> connect() override {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = socket_path();
    if (path.size() >= sizeof address.sun_path) {
      return nullptr;
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      ::close(socket);
      return nullptr;
    }
    return std::make_unique<BeanstalkdClient>(socket);
  }

 protected:
  std::string spawn() override {
    ::unlink((directory_.path() + "/socket").c_str());
    const bool forked = process_.start({find_program("beanstalkd"),
                                        "-l",
                                        "unix:socket",
                                        "-b",
                                        ".",
                                        sync_ == Sync::kAlways ? "-f0" : "-f50"},
                                       directory_.path());
    return forked ? "" : "beanstalkd cannot be started";
  }

 private:
  Sync sync_;
};

}  // namespace

std::string beanstalkd_missing() {
  return find_program("beanstalkd").empty() ? "beanstalkd is not installed" : "";
}

std::unique_ptr<TaskServer> make_beanstalkd(Sync sync, bool) {
  return std::make_unique<BeanstalkdServer>(sync);
}

}  // namespace countwheel::bench
