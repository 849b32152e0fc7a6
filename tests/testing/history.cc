#include "testing/history.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <gtest/gtest.h>

namespace countwheel::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::uint32_t kMaxAttempts = 3;

std::int64_t wall_ns(const ManualClock& clock) {
  return clock.now().wall_ns;
}

}  // namespace

std::string describe(const TaskInfo& info) {
  std::string text;
  text += info.state == State::kDead ? "dead" : "live";
  text += info.clock == ClockKind::kBoot ? " boot " + std::to_string(info.boot_deadline_ns) : "";
  text += " wall " + std::to_string(info.deadline.time_since_epoch().count());
  text += " order " + std::to_string(info.order_lsn.value);
  text += " type " + info.type + " key " + info.key + " payload " + info.payload;
  text += " attempts " + std::to_string(info.attempts);
  text += " failures " + std::to_string(info.failures);
  text += " crashes " + std::to_string(info.crashes);
  text += " error '" + info.last_error + "'";
  return text;
}

std::map<std::uint64_t, std::string> describe_all(const Engine& engine) {
  std::map<std::uint64_t, std::string> all;
  TaskId after{};
  for (;;) {
    const std::vector<TaskInfo> page = engine.list(after, 100);
    if (page.empty()) {
      return all;
    }
    for (const TaskInfo& info : page) {
      all[info.id.value] = describe(info);
    }
    after = page.back().id;
  }
}

EngineOptions History::options() {
  EngineOptions options;
  options.drive = Drive::kHost;
  return options;
}

History::History(std::uint64_t seed) : random_(seed) {
  EngineParts parts;
  parts.clock = &clock_;
  parts.executor = &executor_;
  parts.journal = log_.journal();
  engine_ = std::move(*Engine::create(options(), std::move(parts)));
  TypePolicy policy;
  policy.retry = RetryPolicy::exponential(seconds(1), 2.0, seconds(60));
  policy.retry.max_attempts = kMaxAttempts;
  for (const char* type : {"alpha", "beta", "gamma"}) {
    EXPECT_TRUE(engine_
                    ->on(
                        type, [this](Delivery d) { handle(std::move(d)); }, policy)
                    .ok());
  }
  EXPECT_TRUE(engine_->start().ok());
}

void History::step() {
  switch (random(10)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return schedule();
    case 4:
      return cancel();
    case 5:
      return reschedule();
    case 6:
      clock_.advance(nanoseconds(random(800'000'000)));
      return;
    case 7:
      if (!kept_.empty() && random(2) == 0) {
        Delivery delivery = std::move(kept_.back());
        kept_.pop_back();
        return answer(std::move(delivery));
      }
      return;
    case 8:
      EXPECT_TRUE(engine_->flush(random(2) == 0 ? Durability::kDisk : Durability::kOs).ok());
      return;
    default:
      engine_->poll();
      return;
  }
}

void History::settle() {
  EXPECT_TRUE(engine_->flush(Durability::kDisk).ok());
}

void History::answer_all() {
  while (!kept_.empty()) {
    Delivery delivery = std::move(kept_.back());
    kept_.pop_back();
    answer(std::move(delivery));
  }
}

Deadline History::random_deadline(Task* task) {
  const nanoseconds delay(static_cast<std::int64_t>(random(4'000'000'000)) - 200'000'000);
  const std::int64_t now = wall_ns(clock_);
  task->wall_deadline_ns = now + delay.count();
  if (random(2) == 0) {
    task->clock = ClockKind::kWall;
    return at(WallTime(nanoseconds(task->wall_deadline_ns)));
  }
  task->clock = ClockKind::kBoot;
  return after(delay);
}

void History::schedule() {
  constexpr const char* kTypes[] = {"alpha", "beta", "gamma", "nobody"};
  Task task;
  task.type = kTypes[random(4)];
  task.key = random(2) == 0 ? "" : "key" + std::to_string(random(40));
  task.payload = std::string(random(40), static_cast<char>('a' + random(26)));
  TaskSpec spec;
  spec.deadline = random_deadline(&task);
  spec.type = task.type;
  spec.key = task.key;
  spec.payload = task.payload;
  spec.key_policy = random(3) == 0 ? KeyPolicy::kReplace : KeyPolicy::kReject;
  spec.durability = random(2) == 0 ? Durability::kDisk : Durability::kMemory;
  const Result<Submitted> submitted = engine_->submit(spec);
  if (!submitted.ok()) {
    EXPECT_EQ(submitted.code(), Code::kExists) << submitted.status().text();
    return;
  }
  const auto known = tasks_.find(submitted->id.value);
  EXPECT_EQ(known != tasks_.end(), submitted->replaced);
  // A replacement starts over, but its fencing tokens must ascend while the id stays.
  task.attempts = known == tasks_.end() ? 0 : known->second.attempts;
  tasks_[submitted->id.value] = task;
}

std::uint64_t History::some_task() {
  if (tasks_.empty()) {
    return 0;
  }
  auto it = tasks_.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(random(tasks_.size())));
  return it->second.running ? 0 : it->first;
}

void History::cancel() {
  const std::uint64_t id = some_task();
  if (id == 0) {
    return;
  }
  const Change change = engine_->submit_cancel(TaskId{id});
  if (tasks_[id].dead) {
    EXPECT_FALSE(change) << change.status.text();
    return;
  }
  EXPECT_EQ(change.status.code(), Code::kCancelled) << change.status.text();
  EXPECT_EQ(change.deadline.time_since_epoch().count(), tasks_[id].wall_deadline_ns);
  tasks_.erase(id);
}

void History::reschedule() {
  const std::uint64_t id = some_task();
  if (id == 0) {
    return;
  }
  Task moved = tasks_[id];
  const Change change = engine_->submit_reschedule(TaskId{id}, random_deadline(&moved));
  if (tasks_[id].dead) {
    EXPECT_FALSE(change) << change.status.text();
    return;
  }
  EXPECT_TRUE(change) << change.status.text();
  tasks_[id] = moved;
}

bool History::has_successor(std::uint64_t id) const {
  const std::string& key = tasks_.at(id).key;
  return std::any_of(tasks_.begin(), tasks_.end(), [&](const auto& entry) {
    return entry.first != id && !key.empty() && entry.second.key == key && !entry.second.dead;
  });
}

void History::handle(Delivery delivery) {
  ++starts_;
  Task& task = tasks_.at(delivery.id().value);
  EXPECT_FALSE(task.running);
  EXPECT_EQ(delivery.key(), task.key);
  EXPECT_EQ(delivery.payload(), task.payload);
  EXPECT_LE(task.wall_deadline_ns, wall_ns(clock_));
  EXPECT_EQ(delivery.attempt(), ++task.attempts);
  task.running = true;
  if (random(4) == 0 && kept_.size() < 8) {
    kept_.push_back(std::move(delivery));
    return;
  }
  answer(std::move(delivery));
}

void History::answer(Delivery delivery) {
  const std::uint64_t id = delivery.id().value;
  Task& task = tasks_.at(id);
  task.running = false;
  if (random(2) == 0) {
    EXPECT_TRUE(delivery.done().ok());
    tasks_.erase(id);
    return;
  }
  if (has_successor(id)) {
    EXPECT_TRUE(delivery.fail("nobody wants it any more").ok());
    tasks_.erase(id);
    return;
  }
  ++task.failures;
  task.dead = task.failures >= kMaxAttempts;
  if (random(2) == 0) {
    EXPECT_TRUE(delivery.retry(milliseconds(300), "later").ok());
    task.wall_deadline_ns = task.dead ? task.wall_deadline_ns : wall_ns(clock_) + 300'000'000;
  } else {
    EXPECT_TRUE(delivery.fail("failure " + std::to_string(task.failures)).ok());
    const std::int64_t backoff_ns = std::int64_t{1'000'000'000} << (task.failures - 1);
    task.wall_deadline_ns = task.dead ? task.wall_deadline_ns : wall_ns(clock_) + backoff_ns;
  }
}

}  // namespace countwheel::testing
