// Servers of others under the rows `engine.*`, `recovery.*` and `log.*`: `<row>/<peer>`, the figure
// in the counter `value`. Each is started by the benchmark itself and killed at its end; one that
// is not installed is left out with a line on stderr.
#include <cstdio>
#include <functional>

#include "peers/server_rows.h"
#include "row.h"

namespace countwheel::bench {
namespace {

using Row = std::function<void(benchmark::State&)>;

void add(const std::string& name, Row row) {
  benchmark::RegisterBenchmark(name.c_str(), std::move(row))->Iterations(1)->UseManualTime();
}

// Rows that depend on when the server syncs: `level` is disk or os.
void add_throughput(const std::string& level, const std::string& peer, const ServerCase& given) {
  add("engine.durable_ops." + level + "/" + peer,
      [=](benchmark::State& state) { server_durable_ops(state, given); });
  add("engine.order_mix." + level + "/" + peer,
      [=](benchmark::State& state) { server_order_mix(state, given); });
}

void add_waiting(const std::string& peer, const ServerCase& given) {
  for (const int callers : {1, 32}) {
    add("engine.schedule_durable." + std::to_string(callers) + "/" + peer,
        [=](benchmark::State& state) { server_schedule_durable(state, given, callers); });
  }
}

void add_cancel(const std::string& peer, const ServerCase& given) {
  add("engine.cancel.100k/" + peer, [=](benchmark::State& state) { server_cancel(state, given); });
}

void add_polling(const std::string& peer, const ServerCase& given, int poll_ms) {
  add("engine.lateness.exact.10k/" + peer,
      [=](benchmark::State& state) { server_lateness(state, given, poll_ms); });
  add("engine.herd.100k/" + peer,
      [=](benchmark::State& state) { server_herd(state, given, poll_ms); });
  add("engine.idle_cpu.10ms/" + peer,
      [=](benchmark::State& state) { server_idle(state, given, poll_ms); });
}

void add_memory(const std::string& peer, const ServerCase& given) {
  add("engine.bytes_per_task/" + peer,
      [=](benchmark::State& state) { server_bytes(state, given, false); });
}

void add_storage(const std::string& peer, const ServerCase& given) {
  add("recovery.full.1m/" + peer, [=](benchmark::State& state) { server_recovery(state, given); });
  add("log.bytes_per_task/" + peer,
      [=](benchmark::State& state) { server_bytes(state, given, true); });
}

#ifdef COUNTWHEEL_HAS_HIREDIS
void register_redis() {
  const ServerCase always = {.make = make_redis, .sync = Sync::kAlways, .has_id_only = true};
  const ServerCase everysec = {.make = make_redis, .sync = Sync::kSometimes, .has_id_only = true};
  add_throughput("disk", "redis_always", always);
  add_throughput("os", "redis_everysec", everysec);
  add_cancel("redis_always", always);
  add_cancel("redis_everysec", everysec);
  add_waiting("redis_always", always);
  add_polling("redis_poll10", everysec, 10);
  add_polling("redis_poll100", everysec, 100);
  add_memory("redis_everysec", everysec);
  add_storage("redis_everysec", everysec);
}
#endif

void register_beanstalkd() {
  // It syncs every job by itself: a hundred thousand would take longer than the measurement.
  const ServerCase each = {.make = make_beanstalkd, .sync = Sync::kAlways, .resident = 10'000};
  const ServerCase often = {.make = make_beanstalkd, .sync = Sync::kSometimes};
  add_throughput("disk", "beanstalkd", each);
  add_throughput("os", "beanstalkd", often);
  add_cancel("beanstalkd", often);
  add_waiting("beanstalkd", each);
  add_polling("beanstalkd", often, 10);
  add_memory("beanstalkd", often);
  add_storage("beanstalkd", often);
}

#ifdef COUNTWHEEL_HAS_LIBPQ
void register_postgresql() {
  const ServerCase on = {.make = make_postgresql, .sync = Sync::kAlways};
  const ServerCase off = {.make = make_postgresql, .sync = Sync::kSometimes};
  add_throughput("disk", "postgresql", on);
  add_throughput("os", "postgresql", off);
  add_cancel("postgresql", on);
  add_waiting("postgresql", on);
  add_polling("postgresql", on, 10);
  add_storage("postgresql", on);  // its tasks are not in memory
}
#endif

void register_if_there(const char* name, const std::string& why_missing, void (*function)()) {
  if (why_missing.empty()) {
    function();
  } else {
    std::fprintf(stderr, "skipped: %s: %s\n", name, why_missing.c_str());
  }
}

void register_all() {
#ifdef COUNTWHEEL_HAS_HIREDIS
  register_if_there("redis", redis_missing(), register_redis);
#else
  register_if_there("redis", "libhiredis-dev was not there at configuration", nullptr);
#endif
  register_if_there("beanstalkd", beanstalkd_missing(), register_beanstalkd);
#ifdef COUNTWHEEL_HAS_LIBPQ
  register_if_there("postgresql", postgresql_missing(), register_postgresql);
#else
  register_if_there("postgresql", "libpq-dev was not there at configuration", nullptr);
#endif
}

}  // namespace
}  // namespace countwheel::bench

int main(int argc, char** argv) {
  countwheel::bench::register_all();
  return countwheel::bench::run_rows(argc, argv);
}
