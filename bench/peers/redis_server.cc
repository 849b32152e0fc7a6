// Redis: a sorted set of ids by due time, and with payloads a hash beside it. The pop is the atomic
// script that everybody uses. Its log is never rewritten unless asked, which is the fastest.
#include <hiredis/hiredis.h>

#include "peers/task_server.h"

namespace countwheel::bench {
namespace {

constexpr const char* kPopIds = R"lua(
  local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
  if #ids > 0 then redis.call('ZREM', KEYS[1], unpack(ids)) end
  return {ids})lua";
constexpr const char* kPopWithPayloads = R"lua(
  local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
  if #ids == 0 then return {ids} end
  redis.call('ZREM', KEYS[1], unpack(ids))
  local payloads = redis.call('HMGET', KEYS[2], unpack(ids))
  redis.call('HDEL', KEYS[2], unpack(ids))
  return {ids, payloads})lua";

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

class RedisClient : public TaskClient {
 public:
  RedisClient(redisContext* context, bool with_payload)
      : context_(context), with_payload_(with_payload) {}
  ~RedisClient() override { redisFree(context_); }
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  bool send(std::span<const ServerTask> schedules, std::span<const ServerTask> cancels) override {
    for (const ServerTask& task : schedules) {
      const Name name(task.id);
      const std::string score = std::to_string(task.due_ms);
      append({"ZADD", "due", score, name.view()});
      if (with_payload_) {
        append({"HSET", "payload", name.view(), kServerPayload});
      }
    }
    for (const ServerTask& task : cancels) {
      const Name name(task.id);
      append({"ZREM", "due", name.view()});
      if (with_payload_) {
        append({"HDEL", "payload", name.view()});
      }
    }
    int written = 0;
    while (written == 0) {
      if (redisBufferWrite(context_, &written) != REDIS_OK) {
        return false;
      }
    }
    return wait_until_under_way(kUnderWay);
  }

  bool finish() override { return wait_until_under_way(0); }

  bool pop(std::int64_t now_ms, std::size_t limit, std::vector<std::uint64_t>& ids) override {
    const std::string now = std::to_string(now_ms);
    const std::string limit_text = std::to_string(limit);
    append({"EVAL",
            with_payload_ ? kPopWithPayloads : kPopIds,
            "2",
            "due",
            "payload",
            now,
            limit_text});
    --under_way_;
    const Reply reply = next_reply();
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements == 0) {
      return false;
    }
    const redisReply& names = *reply->element[0];
    for (std::size_t i = 0; i < names.elements; ++i) {
      ids.push_back(std::strtoull(names.element[i]->str, nullptr, 16));
    }
    return true;
  }

 private:
  // Commands without an answer after a send: so much that neither side waits for the other.
  static constexpr std::size_t kUnderWay = 1000;

  class Name {
   public:
    explicit Name(std::uint64_t id) {
      std::snprintf(text_, sizeof text_, "%016llx", static_cast<unsigned long long>(id));
    }
    std::string_view view() const { return {text_, 16}; }

   private:
    char text_[17];
  };

  void append(std::initializer_list<std::string_view> words) {
    const char* texts[8];
    std::size_t lengths[8];
    int count = 0;
    for (const std::string_view word : words) {
      texts[count] = word.data();
      lengths[count++] = word.size();
    }
    redisAppendCommandArgv(context_, count, texts, lengths);
    ++under_way_;
  }

  Reply next_reply() {
    void* reply = nullptr;
    return Reply(redisGetReply(context_, &reply) == REDIS_OK ? static_cast<redisReply*>(reply)
                                                             : nullptr);
  }

  bool wait_until_under_way(std::size_t count) {
    bool ok = true;
    while (under_way_ > count) {
      const Reply reply = next_reply();
      if (!reply) {
        return false;
      }
      ok = ok && reply->type != REDIS_REPLY_ERROR;
      --under_way_;
    }
    return ok;
  }

  redisContext* context_;
  bool with_payload_;
  std::size_t under_way_ = 0;
};

class RedisServer : public TaskServer {
 public:
  RedisServer(Sync sync, bool with_payload) : sync_(sync), with_payload_(with_payload) {}

  std::unique_ptr<TaskClient> connect() override {
    redisContext* const context = redisConnectUnix(socket_path().c_str());
    if (context == nullptr || context->err != 0) {
      redisFree(context);
      return nullptr;
    }
    return std::make_unique<RedisClient>(context, with_payload_);
  }

  bool rewrite_log() override {
    redisContext* const context = redisConnectUnix(socket_path().c_str());
    freeReplyObject(redisCommand(context, "BGREWRITEAOF"));
    bool busy = true;
    while (busy) {
      const Reply reply(static_cast<redisReply*>(redisCommand(context, "INFO persistence")));
      busy =
          reply && std::string(reply->str).find("aof_rewrite_in_progress:0") == std::string::npos;
    }
    redisFree(context);
    return true;
  }

 protected:
  std::string spawn() override {
    const bool forked = process_.start({find_program("redis-server"),
                                        "--port",
                                        "0",
                                        "--unixsocket",
                                        "socket",
                                        "--save",
                                        "",
                                        "--appendonly",
                                        "yes",
                                        "--appendfsync",
                                        sync_ == Sync::kAlways ? "always" : "everysec",
                                        "--auto-aof-rewrite-percentage",
                                        "0"},
                                       directory_.path());
    return forked ? "" : "redis-server cannot be started";
  }

 private:
  Sync sync_;
  bool with_payload_;
};

}  // namespace

std::string redis_missing() {
  return find_program("redis-server").empty() ? "redis-server is not installed" : "";
}

std::unique_ptr<TaskServer> make_redis(Sync sync, bool with_payload) {
  return std::make_unique<RedisServer>(sync, with_payload);
}

}  // namespace countwheel::bench
