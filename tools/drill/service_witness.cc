#include "service_witness.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace countwheel::drill {

namespace {

// How long an answer is under way when a kill is near.
constexpr std::chrono::milliseconds kLingeringAnswer(20);

// How often ended handlers are looked after and the log's marks are published.
constexpr std::chrono::milliseconds kSettleInterval(1);

}  // namespace

Witness::Witness(Region& region, Engine& engine)
    : region_(region), engine_(engine), ring_(region.ring()), life_(region.control().life.load()) {}

Witness::~Witness() {
  stop();
}

void Witness::start() {
  answering_ = std::thread([this] { answer_calls(); });
  settling_ = std::thread([this] { settle_ended(); });
}

void Witness::stop() {
  stopping_.store(true);
  {
    const std::lock_guard lock(calls_mutex_);
    closing_ = true;
  }
  calls_changed_.notify_all();
  if (answering_.joinable()) {
    answering_.join();
  }
  if (settling_.joinable()) {
    settling_.join();
  }
}

void Witness::await(const OpenCall& call) {
  {
    const std::lock_guard lock(calls_mutex_);
    calls_.push_back(call);
  }
  calls_changed_.notify_one();
}

void Witness::answer_calls() {
  for (;;) {
    std::deque<OpenCall> calls;
    {
      std::unique_lock lock(calls_mutex_);
      calls_changed_.wait(lock, [this] { return closing_ || !calls_.empty(); });
      if (calls_.empty()) {
        return;
      }
      calls.swap(calls_);
    }
    if (region_.control().linger.load(std::memory_order_relaxed)) {
      std::this_thread::sleep_for(kLingeringAnswer);
    }
    for (const OpenCall& call : calls) {
      answer(call);
    }
  }
}

void Witness::answer(const OpenCall& call) {
  const Durability durability = region_.control().durability;
  Status status = engine_.wait_durable(call.lsn, durability, std::chrono::seconds(10));
  if (status.code() == Code::kTimedOut || status.code() == Code::kStopped) {
    return;  // No return seen: its fate is unknown.
  }
  const Code code = status.ok() ? call.code : status.code();
  ring_.push(call.kind, call.order, life_, static_cast<std::uint8_t>(code), call.lsn.value);
}

void Witness::ended(std::uint32_t order, TaskId id) {
  const std::lock_guard lock(ended_mutex_);
  ended_.push_back({order, id});
}

void Witness::settle_ended() {
  while (!stopping_.load()) {
    std::this_thread::sleep_for(kSettleInterval);
    Control& control = region_.control();
    control.written_lsn.store(engine_.durable_lsn(Durability::kOs).value);
    control.synced_lsn.store(engine_.durable_lsn(Durability::kDisk).value);
    collect_gone();
    stamp_durable();
  }
}

void Witness::collect_gone() {
  {
    const std::lock_guard lock(ended_mutex_);
    not_gone_.insert(not_gone_.end(), ended_.begin(), ended_.end());
    ended_.clear();
  }
  if (not_gone_.empty()) {
    return;
  }
  Recorded recorded;
  std::vector<Ended> still_there;
  for (const Ended& ended : not_gone_) {
    if (engine_.find(ended.id).ok()) {
      still_there.push_back(ended);
    } else {
      recorded.orders.push_back(ended.order);
    }
  }
  not_gone_ = std::move(still_there);
  if (!recorded.orders.empty()) {
    recorded.lsn = engine_.stats().next_lsn - 1;
    recorded_.push_back(std::move(recorded));
  }
}

void Witness::stamp_durable() {
  const std::uint64_t written = engine_.durable_lsn(Durability::kOs).value;
  while (!recorded_.empty() && recorded_.front().lsn <= written) {
    for (const std::uint32_t order : recorded_.front().orders) {
      ring_.push(StampKind::kDoneDurable, order, life_);
    }
    recorded_.pop_front();
  }
}

}  // namespace countwheel::drill
