// PostgreSQL: a table of tasks, taken with FOR UPDATE SKIP LOCKED; a thousand rows a statement. It
// refuses to run as root; then it runs as postgres or nobody.
#include <csignal>
#include <filesystem>
#include <libpq-fe.h>
#include <pwd.h>
#include <unistd.h>

#include "peers/task_server.h"

namespace countwheel::bench {
namespace {

std::string find_postgresql(const std::string& program) {
  std::vector<std::string> directories;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/lib/postgresql", error)) {
    directories.push_back(entry.path().string() + "/bin");
  }
  return find_program(program, directories);
}

// True if it may run as this process does, or `user` was set to whom it may run as.
bool find_user(UnprivilegedUser& user) {
  if (geteuid() != 0) {
    return true;
  }
  for (const char* name : {"postgres", "nobody"}) {
    if (const passwd* const entry = getpwnam(name); entry != nullptr) {
      user = {.uid = entry->pw_uid, .gid = entry->pw_gid};
      return true;
    }
  }
  return false;
}

struct ClearResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using PgResult = std::unique_ptr<PGresult, ClearResult>;

class PostgresqlClient : public TaskClient {
 public:
  explicit PostgresqlClient(PGconn* connection) : connection_(connection) {}
  ~PostgresqlClient() override { PQfinish(connection_); }
  PostgresqlClient(const PostgresqlClient&) = delete;
  PostgresqlClient& operator=(const PostgresqlClient&) = delete;

  bool run(const char* sql) { return is_ok(PgResult(PQexec(connection_, sql))); }

  bool send(std::span<const ServerTask> schedules, std::span<const ServerTask> cancels) override {
    if (!schedules.empty()) {
      std::string ids = "{";
      std::string dues = "{";
      for (const ServerTask& task : schedules) {
        ids += std::to_string(task.id) + ",";
        dues += std::to_string(task.due_ms) + ",";
      }
      ids.back() = '}';
      dues.back() = '}';
      const char* const values[] = {ids.c_str(), dues.c_str(), kServerPayload};
      if (!finish() ||
          !begin("INSERT INTO task SELECT unnest($1::bigint[]), unnest($2::bigint[]), $3::text",
                 3,
                 values)) {
        return false;
      }
    }
    if (!cancels.empty()) {
      std::string ids = "{";
      for (const ServerTask& task : cancels) {
        ids += std::to_string(task.id) + ",";
      }
      ids.back() = '}';
      const char* const values[] = {ids.c_str()};
      return finish() && begin("DELETE FROM task WHERE id = ANY($1::bigint[])", 1, values);
    }
    return true;
  }

  bool finish() override {
    bool ok = true;
    while (under_way_) {
      PgResult result(PQgetResult(connection_));
      under_way_ = result != nullptr;
      ok = ok && (!result || is_ok(result));
    }
    return ok;
  }

  bool pop(std::int64_t now_ms, std::size_t limit, std::vector<std::uint64_t>& ids) override {
    const std::string now = std::to_string(now_ms);
    const std::string limit_text = std::to_string(limit);
    const char* const values[] = {now.c_str(), limit_text.c_str()};
    const PgResult result(PQexecParams(connection_,
                                       "DELETE FROM task WHERE id IN (SELECT id FROM task "
                                       "WHERE due_ms <= $1::bigint ORDER BY due_ms "
                                       "LIMIT $2::bigint FOR UPDATE SKIP LOCKED) "
                                       "RETURNING id, payload",
                                       2,
                                       nullptr,
                                       values,
                                       nullptr,
                                       nullptr,
                                       0));
    if (!is_ok(result)) {
      return false;
    }
    for (int i = 0; i < PQntuples(result.get()); ++i) {
      ids.push_back(std::strtoull(PQgetvalue(result.get(), i, 0), nullptr, 10));
    }
    return true;
  }

 private:
  static bool is_ok(const PgResult& result) {
    const ExecStatusType status = PQresultStatus(result.get());
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
  }

  bool begin(const char* sql, int count, const char* const* values) {
    under_way_ =
        PQsendQueryParams(connection_, sql, count, nullptr, values, nullptr, nullptr, 0) == 1;
    return under_way_ && PQflush(connection_) >= 0;
  }

  PGconn* connection_;
  bool under_way_ = false;
};

class PostgresqlServer : public TaskServer {
 public:
  explicit PostgresqlServer(Sync sync) : sync_(sync) {}
  // Killed, it would leave its shared memory behind.
  ~PostgresqlServer() override { process_.stop(SIGQUIT); }
  PostgresqlServer(const PostgresqlServer&) = delete;
  PostgresqlServer& operator=(const PostgresqlServer&) = delete;

  std::unique_ptr<TaskClient> connect() override {
    const std::string where =
        "host=" + socket_directory() + "/data dbname=postgres user=countwheel";
    PGconn* const connection = PQconnectdb(where.c_str());
    auto client = std::make_unique<PostgresqlClient>(connection);
    if (PQstatus(connection) != CONNECTION_OK) {
      return nullptr;
    }
    const bool ready = client->run("SET client_min_messages = warning") &&
                       client->run(sync_ == Sync::kAlways ? "SET synchronous_commit = on"
                                                          : "SET synchronous_commit = off") &&
                       client->run(
                           "CREATE TABLE IF NOT EXISTS task"
                           "(id bigint PRIMARY KEY, due_ms bigint, payload text)") &&
                       client->run("CREATE INDEX IF NOT EXISTS task_due ON task(due_ms)");
    return ready ? std::move(client) : nullptr;
  }

 protected:
  std::string spawn() override {
    UnprivilegedUser user;
    if (!find_user(user)) {
      return "it refuses root, and there is neither a user postgres nor nobody";
    }
    const UnprivilegedUser* const other = geteuid() == 0 ? &user : nullptr;
    const std::string data = directory_.path() + "/data";
    if (!std::filesystem::exists(data + "/PG_VERSION")) {
      if (other != nullptr && chown(directory_.path().c_str(), user.uid, user.gid) != 0) {
        return "its directory cannot be given to it";
      }
      const bool made = run_to_end({find_postgresql("initdb"),
                                    "-D",
                                    "data",
                                    "-U",
                                    "countwheel",
                                    "-A",
                                    "trust",
                                    "-E",
                                    "UTF8",
                                    "--locale=C",
                                    "--no-sync"},
                                   directory_.path(),
                                   other);
      if (!made) {
        return "initdb fails; may the user of the server pass through the working directory?";
      }
    }
    std::error_code error;  // of a server that was killed
    std::filesystem::remove(data + "/postmaster.pid", error);
    const bool forked = process_.start({find_postgresql("postgres"),
                                        "-D",
                                        "data",
                                        "-k",
                                        ".",
                                        "-c",
                                        "listen_addresses=",
                                        "-c",
                                        "dynamic_shared_memory_type=mmap"},
                                       directory_.path(),
                                       other);
    return forked ? "" : "postgres cannot be started";
  }

 private:
  Sync sync_;
};

}  // namespace

std::string postgresql_missing() {
  UnprivilegedUser user;
  if (find_postgresql("postgres").empty() || find_postgresql("initdb").empty()) {
    return "postgresql is not installed";
  }
  return find_user(user) ? "" : "it refuses root, and there is neither a user postgres nor nobody";
}

std::unique_ptr<TaskServer> make_postgresql(Sync sync, bool) {
  return std::make_unique<PostgresqlServer>(sync);
}

}  // namespace countwheel::bench
