#include "testing/workload.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace countwheel::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

std::int64_t wall_now_ns() {
  return SystemClock::instance().now().wall_ns;
}

Deadline wall_deadline(std::int64_t ns) {
  return at(WallTime(nanoseconds(ns)));
}

}  // namespace

std::string payload_of(std::uint32_t number) {
  return std::to_string(number);
}

std::uint32_t number_of(std::string_view payload) {
  return static_cast<std::uint32_t>(std::stoul(std::string(payload)));
}

Workload::Workload(Engine& engine, Truth& truth, std::chrono::nanoseconds reach)
    : engine_(engine), truth_(truth), reach_ns_(reach.count()) {
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(milliseconds(3));
  policy.retry.max_attempts = 0;
  policy.retry.max_crashes = 255;
  const Status status = engine_.on(
      "work", [this](Delivery d) { handle(std::move(d)); }, policy);
  if (!status.ok()) {
    truth_.violation("on(): " + status.text());
  }
}

Workload::~Workload() {
  join();
}

std::int64_t Workload::random_deadline_ns(std::mt19937_64& random) const {
  const std::int64_t reach_ns = random() % 8 == 0 ? 20 * reach_ns_ : reach_ns_;
  return wall_now_ns() + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(reach_ns));
}

void Workload::drive(const std::vector<Durability>& durabilities, std::uint64_t seed) {
  for (const Durability durability : durabilities) {
    threads_.emplace_back([this, durability, seed = seed++] { run(durability, seed); });
  }
}

void Workload::join() {
  stop_ = true;
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

void Workload::run(Durability durability, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> mine;
  while (!stop_ && schedule(durability, random, &mine)) {
    const std::size_t recent = std::min<std::size_t>(mine.size(), 20);
    const std::uint32_t number = mine[mine.size() - 1 - random() % recent];
    switch (random() % 8) {
      case 0:
      case 1:
        cancel(number, durability);
        break;
      case 2:
        reschedule(number, durability, random);
        break;
      default:
        break;
    }
    if (durability == Durability::kMemory) {
      // What nobody waits for would fill the truth in no time.
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
}

bool Workload::schedule(Durability durability,
                        std::mt19937_64& random,
                        std::vector<std::uint32_t>* mine) {
  const std::uint32_t number = truth_.next++;
  if (number >= Truth::kCapacity) {
    truth_.violation("the truth is full");
    return false;
  }
  TruthTask& task = truth_.tasks[number];
  const std::int64_t deadline_ns = random_deadline_ns(random);
  task.deadline_ns = deadline_ns;
  task.begun = 1;
  const std::string payload = payload_of(number);
  const std::string key = "key" + payload;
  const Result<TaskId> id =
      engine_.schedule({.type = "work",
                        .deadline = wall_deadline(deadline_ns),
                        .key = number % 2 == 0 ? std::string_view(key) : std::string_view(),
                        .payload = payload,
                        .durability = durability});
  if (!id.ok()) {
    if (!abandoned_ && id.code() != Code::kStopped) {
      truth_.violation("schedule: " + id.status().text());
    }
    return false;
  }
  if (!abandoned_) {
    task.id = id->value;
    task.deadline_level = level_of(durability);
    task.schedule_level = level_of(durability);
    mine->push_back(number);
  }
  return !abandoned_;
}

void Workload::cancel(std::uint32_t number, Durability durability) {
  TruthTask& task = truth_.tasks[number];
  task.cancel_begun = 1;
  const Change change = number % 2 == 0 ? engine_.cancel("key" + payload_of(number), durability)
                                        : engine_.cancel(TaskId{task.id.load()}, durability);
  if (change && !abandoned_) {
    task.cancel_level = level_of(durability);
  }
}

void Workload::reschedule(std::uint32_t number, Durability durability, std::mt19937_64& random) {
  TruthTask& task = truth_.tasks[number];
  const std::int64_t deadline_ns = random_deadline_ns(random);
  task.moving_to_ns = deadline_ns;
  const Change change =
      engine_.reschedule(TaskId{task.id.load()}, wall_deadline(deadline_ns), durability);
  if (abandoned_) {
    return;
  }
  if (change) {
    task.deadline_level = level_of(durability);
    task.deadline_ns = deadline_ns;
  }
  task.moving_to_ns = 0;
}

void Workload::handle(Delivery delivery) {
  if (abandoned_) {
    return;  // dropped: whatever becomes of it, nobody will see it
  }
  const std::uint32_t number = number_of(delivery.payload());
  TruthTask& task = truth_.tasks[number];
  const std::uint32_t starts = ++task.starts;
  const std::int64_t moving_to_ns = task.moving_to_ns;
  const std::int64_t deadline_ns = task.deadline_ns;
  const std::int64_t earliest_ns =
      moving_to_ns == 0 ? deadline_ns : std::min(deadline_ns, moving_to_ns);
  const std::string name = "task " + std::to_string(number);
  if (wall_now_ns() < earliest_ns) {
    truth_.violation(name + " started early");
  }
  if (task.cancel_level != 0) {
    truth_.violation(name + " was cancelled and started");
  }
  if (task.gone != 0) {
    truth_.violation(name + " was gone and started");
  }
  const steady_clock::time_point until =
      steady_clock::now() + std::chrono::microseconds(number % 16 == 0 ? 1000 : 20);
  while (steady_clock::now() < until) {
  }
  if (number % 10 == 3 && starts == 1) {
    ++task.failures;
    (void)delivery.fail("the first time").ok();
    return;
  }
  task.finished = 1;
  const std::uint64_t id = delivery.id().value;
  if (delivery.done().ok()) {
    const std::lock_guard lock(mutex_);
    done_.push_back({number, id, 0});
  }
}

void Workload::sweep() {
  std::deque<Sweep> done;
  {
    const std::lock_guard lock(mutex_);
    done.swap(done_);
  }
  std::deque<Sweep> not_yet;
  for (Sweep& entry : done) {
    // The state changes in the same step that queues the record.
    if (engine_.find(TaskId{entry.id}).code() == Code::kNotFound) {
      unsynced_.push_back(entry);
    } else {
      not_yet.push_back(entry);
    }
  }
  const std::uint64_t last_lsn = engine_.stats().next_lsn;
  for (Sweep& entry : unsynced_) {
    entry.lsn = entry.lsn == 0 ? last_lsn : entry.lsn;
  }
  const std::uint64_t durable = engine_.durable_lsn().value;
  while (!unsynced_.empty() && unsynced_.front().lsn <= durable) {
    if (!abandoned_) {
      truth_.tasks[unsynced_.front().number].done_durable = 1;
    }
    unsynced_.pop_front();
  }
  const std::lock_guard lock(mutex_);
  done_.insert(done_.end(), not_yet.begin(), not_yet.end());
}

bool drain(Engine& engine, Workload& workload, int seconds) {
  const steady_clock::time_point until = steady_clock::now() + std::chrono::seconds(seconds);
  while (steady_clock::now() < until) {
    workload.sweep();
    if (engine.stats().pending == 0) {
      return true;
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  return false;
}

}  // namespace countwheel::testing
