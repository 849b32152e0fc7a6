#include "testing/state_machine.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "testing/record_check.h"

namespace countwheel::testing {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kCallers = 4;
constexpr auto kPatience = std::chrono::seconds(60);

EngineOptions options_of(const Plan& plan) {
  EngineOptions options;
  options.drive = plan.threads ? Drive::kThreads : Drive::kHost;
  options.workers = 2;
  return options;
}

}  // namespace

Plan plan_of(std::uint64_t seed) {
  Plan plan;
  plan.seed = seed;
  plan.threads = seed % 2 == 0;
  plan.crash = seed % 3 == 0;
  plan.power = seed % 12 < 6;
  plan.refuse = seed % 20 == 7 || seed % 20 == 14;
  return plan;
}

StateMachine::StateMachine(const Plan& plan) : plan_(plan) {
  for (std::uint64_t i = 0; i < kCallers; ++i) {
    callers_.push_back({std::mt19937_64(plan.seed * kCallers + i)});
  }
}

StateMachine::~StateMachine() {
  close();
}

std::vector<std::string> StateMachine::run() {
  open(std::make_unique<MemoryLog>());
  drive();
  if (over_) {
    close();
    over_ = false;
    paused_.clear();
    all_paused_ = false;
    open(std::move(image_));
    drive();
  }
  drain();
  finish();
  close();
  std::vector<std::string> broken = check(record_);
  broken.insert(broken.end(), failures_.begin(), failures_.end());
  return broken;
}

// Starts an engine on what is in `log`.
void StateMachine::open(std::unique_ptr<MemoryLog> log) {
  life_ = std::make_unique<Life>();
  life_->number = record_.life();
  life_->log = std::move(log);
  life_->log->before_append = [this](const Batch&) {
    if (!refuse_next_.exchange(false)) {
      return Status();
    }
    record_.write_refused();
    return Status(Code::kNoSpace, "the test said so");
  };
  Result<Recovered> recovered =
      recover(*life_->log, options_of(plan_), &clock_, plan_.threads ? nullptr : &life_->executor);
  COUNTWHEEL_ASSERT(recovered.ok());
  life_->engine = std::move(recovered->engine);
  TaskId after{};
  for (std::vector<TaskInfo> page = life_->engine->list(after, 1000); !page.empty();
       page = life_->engine->list(after, 1000)) {
    for (const TaskInfo& info : page) {
      life_->ids.push_back(info.id);
    }
    after = page.back().id;
  }
  register_handlers();
  COUNTWHEEL_ASSERT(life_->engine->start().ok());
}

// What runs is answered or dropped before the engine goes.
void StateMachine::close() {
  if (life_ != nullptr) {
    std::vector<Kept> kept;
    {
      const std::lock_guard lock(life_->mutex);
      life_->closing = true;
      kept.swap(life_->kept);
    }
    kept.clear();
    // Handlers use the engine until it has stopped.
    (void)life_->engine->stop(std::chrono::hours(1));
    life_->engine.reset();
    life_.reset();
  }
}

void StateMachine::register_handlers() {
  TypePolicy plain;
  plain.retry = RetryPolicy::fixed(milliseconds(5));
  plain.retry.max_attempts = 3;
  register_handler("plain", plain);
  TypePolicy slack = plain;
  slack.slack = milliseconds(4);
  register_handler("slack", slack);
  TypePolicy lease = plain;
  lease.lease = milliseconds(12);
  register_handler("lease", lease);
  TypePolicy late = plain;
  late.max_lateness = milliseconds(20);
  register_handler("late", late);
  TypePolicy single = plain;
  single.max_concurrent = 1;
  register_handler(kLimited, single);
  nobody_has_a_handler_ = false;
}

void StateMachine::register_handler(const char* type, const TypePolicy& policy) {
  Life* const life = life_.get();
  const Status status = life->engine->on(
      type, [this, life](Delivery delivery) { handle(*life, std::move(delivery)); }, policy);
  COUNTWHEEL_ASSERT(status.ok());
}

void StateMachine::drive() {
  for (Caller& caller : callers_) {
    caller.unsettled.clear();
  }
  if (plan_.threads) {
    drive_on_threads();
  } else {
    drive_as_host();
  }
}

void StateMachine::drive_on_threads() {
  std::vector<std::thread> threads;
  calling_ = static_cast<int>(kCallers);
  for (Caller& caller : callers_) {
    threads.emplace_back([this, &caller] {
      while (!over_ && made_ < plan_.calls) {
        one_call(caller);
      }
      --calling_;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

void StateMachine::drive_as_host() {
  std::mt19937_64 random(plan_.seed);
  while (!over_ && made_ < plan_.calls) {
    one_call(callers_[random() % kCallers]);
  }
}

void StateMachine::one_call(Caller& caller) {
  unsigned total = 0;
  for (const CallEntry& entry : calls()) {
    total += entry.weight;
  }
  std::uint64_t chosen = caller.below(total);
  for (const CallEntry& entry : calls()) {
    if (chosen < entry.weight) {
      (this->*entry.make)(caller);
      break;
    }
    chosen -= entry.weight;
  }
  const int made = ++made_;
  if (made == plan_.calls / 2 && plan_.crash) {
    crash(caller);
  } else if (made == plan_.calls / 3 && plan_.refuse) {
    refuse_next_ = true;
  }
}

// The others go on meanwhile: what their engine does from now on has not happened.
void StateMachine::crash(Caller& caller) {
  record_.crash_begins(plan_.power);
  if (plan_.power) {
    const std::size_t synced = life_->log->synced_size();
    const std::size_t size = life_->log->size();
    image_ = life_->log->prefix(synced + caller.below(size - synced + 1));
  } else {
    image_ = life_->log->killed();
  }
  record_.crash_ends();
  over_ = true;
}

void StateMachine::poll() {
  Poll poll;
  poll.at = clock_.now();
  poll.all_paused = all_paused_;
  poll.paused.assign(paused_.begin(), paused_.end());
  poll.paused.emplace_back(kLimited);
  if (!nobody_has_a_handler_) {
    poll.paused.emplace_back(kParked);
  }
  const auto index = record_.begin(std::move(poll), life_->number);
  life_->engine->poll();
  const std::uint64_t handed_over = life_->engine->stats().handed_over;
  record_.end(&Record::polls, index, [&](Poll& noted) { noted.handed_over = handed_over; });
}

// Runs everything to its end.
void StateMachine::drain() {
  draining_ = true;
  Engine& engine = *life_->engine;
  (void)engine.resume();
  for (const char* type : kTypes) {
    (void)engine.resume(type);
  }
  all_paused_ = false;
  paused_.clear();
  TypePolicy policy;
  policy.retry = RetryPolicy::fixed(milliseconds(5));
  policy.retry.max_attempts = 3;
  register_handler(kParked, policy);
  nobody_has_a_handler_ = true;
  settle_all();
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    const Stats stats = engine.stats();
    bool none_kept = false;  // also of those whose lease is over, which nothing waits for
    {
      const std::lock_guard lock(life_->mutex);
      none_kept = life_->kept.empty();
    }
    if ((stats.pending == 0 && stats.running == 0 && none_kept) ||
        std::chrono::steady_clock::now() > give_up) {
      break;
    }
    answer_kept(callers_[0]);
    if (!plan_.threads) {
      clock_.advance(milliseconds(7));
      poll();
    } else if (stats.running == 0 && stats.backlog == 0) {
      clock_.advance(milliseconds(7));
    }
    std::this_thread::yield();
  }
  settle_all();
}

void StateMachine::settle_all() {
  for (Caller& caller : callers_) {
    settle(caller);
  }
}

void StateMachine::finish() {
  Engine& engine = *life_->engine;
  for (const TaskInfo& info : engine.list(TaskId{}, 100)) {
    if (info.state != State::kDead) {
      failures_.push_back("I2 task " + std::to_string(info.id.value) +
                          " never ends: " + std::string(to_string(info.state)) + " " + info.type);
    }
  }
  if (!engine.flush().ok()) {
    failures_.emplace_back("I24 the log is not written at rest");
  }
  for (const TaskInfo& info : engine.dead_letters(TaskId{}, 100'000)) {
    Look letter;
    letter.id = info.id;
    letter.state = info.state;
    letter.key = info.key;
    letter.payload = info.payload;
    letter.attempts = info.attempts;
    letter.failures = info.failures;
    letter.last_error = info.last_error;
    letter.reason = info.dead_reason;
    record_.letters.push_back(std::move(letter));
  }
  if (const std::string wrong = engine.check_invariants(); !wrong.empty()) {
    failures_.push_back("I14 " + wrong);
  }
  record_.at_rest = true;
  record_.final_stats = engine.stats();
  if (Status status = engine.stop(); !status.ok()) {
    failures_.push_back("I20 stop() answers " + status.text());
  }
  record_.stopped(life_->number);
  clock_.advance(std::chrono::hours(1));
  if (engine.submit({.type = "plain", .deadline = {}}).code() != Code::kStopped) {
    failures_.emplace_back("I20 schedule() after stop() is not refused");
  }
}

}  // namespace countwheel::testing
