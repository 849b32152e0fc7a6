// What the handlers of a state machine do. Each kind of answer is an entry of answers(), each kind
// of call from inside a handler one of calls_from_handlers().
#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "testing/state_machine.h"

namespace countwheel::testing {
namespace {

using std::chrono::milliseconds;

constexpr auto kHang = std::chrono::seconds(20);
constexpr std::size_t kKeptMax = 8;

template <class Entry>
const Entry& choose(const std::vector<Entry>& entries, std::mt19937_64& random) {
  std::uint64_t total = 0;
  for (const Entry& entry : entries) {
    total += entry.weight;
  }
  std::uint64_t chosen = random() % total;
  for (const Entry& entry : entries) {
    if (chosen < entry.weight) {
      return entry;
    }
    chosen -= entry.weight;
  }
  return entries.front();
}

}  // namespace

const std::vector<StateMachine::AnswerEntry>& StateMachine::answers() {
  static const std::vector<AnswerEntry> entries = {
      {"done", 45, &StateMachine::done},
      {"fail", 16, &StateMachine::fail},
      {"retry", 10, &StateMachine::retry},
      {"drop", 5, &StateMachine::drop},
      {"throw", 5, &StateMachine::throw_it},
      {"keep, and answer later", 15, &StateMachine::keep},
      {"wait until callers have made calls", 4, &StateMachine::wait_for_calls},
  };
  return entries;
}

const std::vector<StateMachine::FromHandlerEntry>& StateMachine::calls_from_handlers() {
  static const std::vector<FromHandlerEntry> entries = {
      {"schedule its own key", 3, &StateMachine::schedule_own_key},
      {"cancel itself", 1, &StateMachine::cancel_itself},
      {"extend its lease", 2, &StateMachine::extend_itself},
      {"find itself", 2, &StateMachine::look_at_itself},
  };
  return entries;
}

void StateMachine::handle(Life& life, Delivery delivery) {
  Attempt attempt;
  attempt.id = delivery.id();
  attempt.type = delivery.type();
  attempt.key = delivery.key();
  attempt.payload = delivery.payload();
  attempt.attempt = delivery.attempt();
  attempt.epoch = delivery.fencing_token().epoch;
  attempt.sequence = delivery.sequence();
  attempt.wall_deadline_ns = delivery.deadline().time_since_epoch().count();
  attempt.leased = attempt.type == "lease";
  for (std::size_t i = 0; i < attempt.durable_lsn.size(); ++i) {
    attempt.durable_lsn[i] = life.engine->durable_lsn(static_cast<Durability>(i)).value;
  }
  attempt.at = clock_.now();
  // What an attempt does follows from the seed and the task, whichever thread runs it.
  Caller caller{
      std::mt19937_64(plan_.seed ^ (std::hash<std::string>()(attempt.payload) + attempt.attempt))};
  const auto index = record_.starts(std::move(attempt), life.number);
  if (!draining_ && caller.one_in(4)) {
    (this->*choose(calls_from_handlers(), caller.random).make)(life, delivery, caller);
  }
  (this->*choose(answers(), caller.random).give)(life, {std::move(delivery), index}, caller);
}

// -- Calls from handlers: nobody waits for their durability --

void StateMachine::schedule_own_key(Life& life, Delivery& delivery, Caller& caller) {
  if (!delivery.key().empty()) {
    schedule_with(
        life, caller, std::string(delivery.key()), static_cast<KeyPolicy>(caller.below(3)));
  }
}

void StateMachine::cancel_itself(Life& life, Delivery& delivery, Caller& caller) {
  cancel_noted(life, caller, delivery.id(), {});
}

void StateMachine::extend_itself(Life&, Delivery& delivery, Caller&) {
  (void)delivery.extend_lease(milliseconds(20));
}

void StateMachine::look_at_itself(Life& life, Delivery& delivery, Caller&) {
  (void)look_at(life, delivery.id());
}

// -- Answers --

// What is noted of a throw or a drop is that it comes next. Whether one that has a lease is
// accepted, nobody is told.
void StateMachine::answer(Life&, Kept kept, AnswerKind kind, Caller& caller) {
  Answer answer;
  answer.kind = kind;
  answer.at = clock_.now();
  answer.delay_ns = static_cast<std::int64_t>(caller.below(8)) * 1'000'000;
  const bool leased = kept.delivery.type() == "lease";
  const bool unheard = kind == AnswerKind::kDrop || kind == AnswerKind::kThrow;
  answer.code = Code::kTimedOut;
  const auto index = record_.answers(kept.attempt, answer);
  Code code = unheard && leased ? Code::kTimedOut : Code::kOk;
  if (kind == AnswerKind::kDone) {
    code = kept.delivery.done().code();
  } else if (kind == AnswerKind::kFail) {
    code = kept.delivery.fail("failed").code();
  } else if (kind == AnswerKind::kRetry) {
    code = kept.delivery.retry(std::chrono::nanoseconds(answer.delay_ns), "again").code();
  }
  record_.answered(kept.attempt, index, code);
  if (kind == AnswerKind::kThrow) {
    throw std::runtime_error("thrown");
  }
}

void StateMachine::done(Life& life, Kept kept, Caller& caller) {
  answer(life, std::move(kept), AnswerKind::kDone, caller);
}
void StateMachine::fail(Life& life, Kept kept, Caller& caller) {
  answer(life, std::move(kept), AnswerKind::kFail, caller);
}
void StateMachine::retry(Life& life, Kept kept, Caller& caller) {
  answer(life, std::move(kept), AnswerKind::kRetry, caller);
}
void StateMachine::drop(Life& life, Kept kept, Caller& caller) {
  answer(life, std::move(kept), AnswerKind::kDrop, caller);
}
void StateMachine::throw_it(Life& life, Kept kept, Caller& caller) {
  answer(life, std::move(kept), AnswerKind::kThrow, caller);
}

void StateMachine::keep(Life& life, Kept kept, Caller& caller) {
  if (!draining_) {
    const std::lock_guard lock(life.mutex);
    if (!life.closing && life.kept.size() < kKeptMax) {
      record_.kept(kept.attempt);
      life.kept.push_back(std::move(kept));
      return;
    }
  }
  answer(life, std::move(kept), AnswerKind::kDone, caller);
}

// No call blocks on a handler: while this one waits, others come back.
void StateMachine::wait_for_calls(Life& life, Kept kept, Caller& caller) {
  const int enough = made_ + 5;
  const auto give_up = std::chrono::steady_clock::now() + kHang;
  while (plan_.threads && calling_ > 0 && made_ < enough && !over_ && !draining_) {
    if (std::chrono::steady_clock::now() > give_up) {
      record_.hung("no call has returned while a handler waited");
      break;
    }
    std::this_thread::yield();
  }
  answer(life, std::move(kept), AnswerKind::kDone, caller);
}

}  // namespace countwheel::testing
