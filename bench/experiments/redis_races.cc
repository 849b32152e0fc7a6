// What goes wrong on Redis when the pop is two steps and when a consumer dies, and what repairs it.
#include <atomic>
#include <hiredis/hiredis.h>
#include <mutex>
#include <thread>

#include "experiments/experiments.h"
#include "peers/server_load.h"

namespace countwheel::bench {
namespace {

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

class Connection {
 public:
  explicit Connection(const TaskServer& server)
      : context_(redisConnectUnix(server.socket_path().c_str())) {}
  ~Connection() { redisFree(context_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  template <class... Arguments>
  Reply operator()(const char* format, Arguments... arguments) {
    return Reply(static_cast<redisReply*>(redisCommand(context_, format, arguments...)));
  }

 private:
  redisContext* context_;
};

std::vector<std::string> texts(const Reply& reply) {
  std::vector<std::string> found;
  for (std::size_t i = 0; reply && i < reply->elements; ++i) {
    found.emplace_back(reply->element[i]->str);
  }
  return found;
}

constexpr const char* kTake = R"lua(
  local ids = redis.call('ZRANGEBYSCORE', 'due', '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
  if #ids > 0 then redis.call('ZREM', 'due', unpack(ids)) end
  return ids)lua";
// The same, but what is taken is noted with the end of its lease.
constexpr const char* kTakeWithLease = R"lua(
  local ids = redis.call('ZRANGEBYSCORE', 'due', '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
  for _, id in ipairs(ids) do
    redis.call('ZREM', 'due', id)
    redis.call('ZADD', 'leased', ARGV[3], id)
  end
  return ids)lua";
constexpr const char* kReclaim = R"lua(
  local ids = redis.call('ZRANGEBYSCORE', 'leased', '-inf', ARGV[1])
  for _, id in ipairs(ids) do
    redis.call('ZREM', 'leased', id)
    redis.call('ZADD', 'due', ARGV[1], id)
  end
  return #ids)lua";

enum class Pop {
  kTwoSteps,         // look, then remove; whoever has looked handles
  kTwoStepsChecked,  // only whoever has removed handles
  kScript,
};

// How often the tasks were handled, by id.
class Handled {
 public:
  void note(const std::string& id) {
    ++counts_[std::strtoul(id.c_str(), nullptr, 10)];
    ++total_;
  }
  int total() const { return total_.load(); }
  int more_than_once() const {
    return static_cast<int>(std::count_if(
        counts_.begin(), counts_.end(), [](const std::atomic<int>& n) { return n.load() > 1; }));
  }

 private:
  std::vector<std::atomic<int>> counts_ = std::vector<std::atomic<int>>(kRaceTasks);
  std::atomic<int> total_{0};
};

long long now_ms() {
  return static_cast<long long>(wall_now_ms());
}

// Until a poll brings nothing.
void consume_all(const TaskServer& server, Pop pop, Handled& handled) {
  constexpr int kLimit = 100;
  Connection redis(server);
  for (;;) {
    const std::vector<std::string> ids = texts(
        pop == Pop::kScript ? redis("EVAL %s 0 %lld %d", kTake, now_ms(), kLimit)
                            : redis("ZRANGEBYSCORE due -inf %lld LIMIT 0 %d", now_ms(), kLimit));
    if (ids.empty()) {
      return;
    }
    for (const std::string& id : ids) {
      if (pop != Pop::kScript) {
        const Reply removed = redis("ZREM due %s", id.c_str());
        if (pop == Pop::kTwoStepsChecked && (!removed || removed->integer != 1)) {
          continue;
        }
      }
      handled.note(id);
    }
  }
}

bool fill(Connection& redis, int count, long long due_ms) {
  for (int i = 0; i < count; ++i) {
    if (!redis("ZADD due %lld %d", due_ms, i)) {
      return false;
    }
  }
  return true;
}

void consumers(benchmark::State& state, Pop pop) {
  const std::unique_ptr<TaskServer> server = make_redis(Sync::kSometimes, false);
  const std::string why = server->start();
  Connection redis(*server);
  const long long due_ms = now_ms() + 1000;
  if (!why.empty() || !fill(redis, kRaceTasks, due_ms)) {
    state.SkipWithError(why.c_str());
    return;
  }
  Handled handled;
  std::vector<std::thread> threads;
  for (int i = 0; i < kConsumers; ++i) {
    threads.emplace_back([&] {
      std::this_thread::sleep_until(
          std::chrono::system_clock::time_point(std::chrono::milliseconds(due_ms + 5)));
      consume_all(*server, pop, handled);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  state.counters["handled"] = handled.total();
  state.counters["more_than_once"] = handled.more_than_once();
}

// One consumer takes ten and is gone; another handles what it finds, for two seconds.
void crash(benchmark::State& state, bool lease) {
  const std::unique_ptr<TaskServer> server = make_redis(Sync::kSometimes, false);
  const std::string why = server->start();
  constexpr long long kLeaseMs = 200;
  {
    Connection redis(*server);
    if (!why.empty() || !fill(redis, kCrashTasks, now_ms() - 1)) {
      state.SkipWithError(why.c_str());
      return;
    }
    const Reply taken = redis("EVAL %s 0 %lld %d %lld",
                              lease ? kTakeWithLease : kTake,
                              now_ms(),
                              kCrashTaken,
                              now_ms() + kLeaseMs);
    if (texts(taken).size() != kCrashTaken) {
      state.SkipWithError("ten tasks should have been taken");
      return;
    }
  }
  Connection redis(*server);
  int done = 0;
  int redelivered = 0;
  const Clock::time_point begin = Clock::now();
  while (done < kCrashTasks && seconds_since(begin) < 2) {
    if (lease) {
      const Reply reclaimed = redis("EVAL %s 0 %lld", kReclaim, now_ms());
      redelivered += reclaimed ? static_cast<int>(reclaimed->integer) : 0;
    }
    for (const std::string& id : texts(redis("EVAL %s 0 %lld %d %lld",
                                             lease ? kTakeWithLease : kTake,
                                             now_ms(),
                                             kCrashTaken,
                                             now_ms() + kLeaseMs))) {
      ++done;
      redis("ZREM leased %s", id.c_str());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  state.counters["done"] = done;
  state.counters["redelivered"] = redelivered;
}

}  // namespace

void register_redis_races() {
  add_experiment("experiment.consumers/redis_two_steps",
                 [](benchmark::State& state) { consumers(state, Pop::kTwoSteps); });
  add_experiment("experiment.consumers/redis_checked",
                 [](benchmark::State& state) { consumers(state, Pop::kTwoStepsChecked); });
  add_experiment("experiment.consumers/redis_script",
                 [](benchmark::State& state) { consumers(state, Pop::kScript); });
  add_experiment("experiment.crash/redis", [](benchmark::State& state) { crash(state, false); });
  add_experiment("experiment.crash/redis_lease",
                 [](benchmark::State& state) { crash(state, true); });
}

}  // namespace countwheel::bench
