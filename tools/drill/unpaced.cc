#include "unpaced.h"

#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <string_view>
#include <utility>

#include <countwheel/engine.h>
#include <countwheel/recovery.h>

#include "random.h"

namespace countwheel::drill {

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr double kYoungShare = 0.17;
constexpr std::uint64_t kYoungCount = 1000;

// Operations between two looks at the clock and at the lag.
constexpr std::uint32_t kRound = 512;

// The producer never runs further ahead of the disk: the queue stays small and the measured time
// is that of the log and not of a backlog.
constexpr std::uint64_t kMaxLag = 262'144;

// Live tasks of one producer, oldest first. Cancelled young ones leave a hole of id 0.
class Producer {
 public:
  Producer(Engine& engine, std::uint64_t seed) : engine_(engine), random_(seed) {}

  Status schedule() {
    std::memcpy(payload_.data(), &scheduled_count_, sizeof(scheduled_count_));
    ++scheduled_count_;
    const TaskSpec spec{.type = "order.expire",
                        .deadline = after(std::chrono::hours(8)),
                        .payload = {payload_.data(), payload_.size()}};
    Result<Submitted> submitted = engine_.submit(spec);
    if (!submitted.ok()) {
      return submitted.status();
    }
    live_.push_back(submitted->id);
    last_ = submitted->lsn;
    return {};
  }

  Status cancel() {
    const TaskId id = random_.uniform() < kYoungShare ? take_young() : take_oldest();
    const Change change = engine_.submit_cancel(id);
    if (!change) {
      return change.status;
    }
    last_ = change.lsn;
    return {};
  }

  Lsn last() const { return last_; }

 private:
  TaskId take_young() {
    const std::uint64_t reach = std::min<std::uint64_t>(kYoungCount, live_.size());
    const std::size_t place = live_.size() - 1 - random_.below(reach);
    const TaskId id = std::exchange(live_[place], TaskId{});
    return id ? id : take_oldest();
  }

  TaskId take_oldest() {
    while (!live_.front()) {
      live_.pop_front();
    }
    const TaskId id = live_.front();
    live_.pop_front();
    return id;
  }

  Engine& engine_;
  Random random_;
  std::deque<TaskId> live_;
  std::array<char, 16> payload_ = {};
  std::uint64_t scheduled_count_ = 0;
  Lsn last_;
};

Status fill(Engine& engine, Producer& producer, std::uint32_t resident_count) {
  for (std::uint32_t i = 0; i < resident_count; ++i) {
    if (Status status = producer.schedule(); !status.ok()) {
      return status;
    }
  }
  return engine.wait_durable(producer.last());
}

Status produce(Engine& engine, Producer& producer, const UnpacedOptions& options) {
  const SteadyClock::time_point end = SteadyClock::now() + options.duration;
  while (SteadyClock::now() < end) {
    for (std::uint32_t i = 0; i < kRound; ++i) {
      if (Status status = producer.schedule(); !status.ok()) {
        return status;
      }
      if (Status status = producer.cancel(); !status.ok()) {
        return status;
      }
    }
    const std::uint64_t ahead = producer.last().value;
    if (ahead > kMaxLag && engine.durable_lsn(options.durability).value < ahead - kMaxLag) {
      Status status = engine.wait_durable({ahead - kMaxLag / 2}, options.durability);
      if (!status.ok()) {
        return status;
      }
    }
  }
  return engine.wait_durable(producer.last(), options.durability);
}

}  // namespace

Result<UnpacedResult> run_unpaced(const UnpacedOptions& options) {
  OpenOptions open_options;
  open_options.engine.durability = options.durability;
  open_options.engine.reserve_count = 2 * options.resident_count;
  Result<Opened> opened = open(options.directory, std::move(open_options));
  if (!opened.ok()) {
    return opened.status();
  }
  Engine& engine = *opened->engine;
  if (Status status = engine.start(); !status.ok()) {
    return status;
  }
  Producer producer(engine, options.seed);
  if (Status status = fill(engine, producer, options.resident_count); !status.ok()) {
    return status;
  }
  const Stats before = engine.stats();
  const SteadyClock::time_point begin = SteadyClock::now();
  if (Status status = produce(engine, producer, options); !status.ok()) {
    return status;
  }
  const SteadyClock::time_point end = SteadyClock::now();
  const Stats after_run = engine.stats();
  UnpacedResult result;
  result.elided_ops = after_run.elided - before.elided;
  result.logged_ops = after_run.ops - before.ops - result.elided_ops;
  result.syncs = after_run.journal.syncs - before.journal.syncs;
  result.seconds = std::chrono::duration<double>(end - begin).count();
  if (Status status = engine.stop(); !status.ok()) {
    return status;
  }
  return result;
}

}  // namespace countwheel::drill
