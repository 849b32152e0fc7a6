// TaskType and TypeRegistry: which handler a name stands for, and its queue of due tasks.
//
// Each type has its own queue, so that a type with slow handlers and a long backlog does not hold
// back another. A type is named once in the log and is a 16-bit number everywhere else.
#ifndef COUNTWHEEL_ENGINE_TASK_TYPE_H_
#define COUNTWHEEL_ENGINE_TASK_TYPE_H_

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <countwheel/handler.h>
#include <countwheel/status.h>

#include "due_ring.h"
#include "rate_limit.h"

namespace countwheel::detail {

struct TaskType {
  TaskType(std::string type_name, std::uint16_t type_number, std::uint32_t default_slack_us)
      : name(std::move(type_name)), number(type_number), slack_us(default_slack_us) {}

  const std::string name;
  const std::uint16_t number;

  // Written once by on(), before `ready`.
  Handler handler;
  BatchHandler batch_handler;  // one of both
  TypePolicy policy;
  std::atomic<std::uint32_t> slack_us;  // the policy's, or the engine's
  std::atomic<bool> ready{false};  // release in on(), acquire in the tick thread and in workers

  std::atomic<bool> paused{false};
  std::atomic<std::uint32_t> in_flight{0};  // attempts, counted while limited()
  RateLimit rate;
  bool limited() const noexcept { return policy.max_concurrent != 0; }
  // False while nothing of it may start, whatever the rate.
  bool open() const noexcept {
    return !paused.load() && (!limited() || in_flight.load() < policy.max_concurrent);
  }
  // Counts one more attempt, if one more may start.
  bool enter(std::int64_t boot_now_ns) noexcept {
    if (rate.limited() && !rate.take(boot_now_ns)) {
      return false;
    }
    std::uint32_t count = in_flight.load();
    while (limited()) {
      if (count >= policy.max_concurrent) {
        not_started();
        return false;
      }
      if (in_flight.compare_exchange_weak(count, count + 1)) {
        return true;
      }
    }
    return true;
  }
  // An attempt has ended.
  void leave() noexcept {
    if (limited()) {
      in_flight.fetch_sub(1);
    }
  }
  // What was entered for did not start.
  void not_started() noexcept {
    if (rate.limited()) {
      rate.give_back();
    }
  }
  // Tasks a claim may have that are given to one call of the handler.
  std::size_t batch() const noexcept {
    return batch_handler && !limited() && !rate.limited() ? policy.max_batch : 1;
  }
  // Tasks are claimed one by one.
  bool singly() const noexcept { return limited() || rate.limited() || policy.lease.count() != 0; }

  DueRing ring;                                // opened by on()
  std::atomic<std::uint32_t> quick_claims{0};  // of workers, in a row
  // The tick thread's: what the ring has no room for, or what no handler knows yet (parked).
  std::deque<DueEntry> overflow;
  std::deque<DueEntry> missed;       // those that are spread
  std::uint64_t missed_count = 0;    // found at open
  std::uint64_t missed_started = 0;  // of those that are spread, into the ring
  std::int64_t missed_since_ns = 0;  // on the boot clock
  std::atomic<std::size_t> overflow_count{0};
  std::atomic<bool> refill_asked{false};     // by a worker that saw the ring run low
  std::atomic<std::size_t> spread_count{0};  // of `missed`
};

// Thread contract: find() and at() lock-free from any thread; the others from any thread.
class TypeRegistry {
 public:
  static constexpr std::size_t kMaxTypes = 4096;
  static constexpr std::size_t kMaxNameBytes = 64;

  explicit TypeRegistry(std::uint32_t default_slack_us) : default_slack_us_(default_slack_us) {}

  // `announce` logs a new type, before anybody can see it.
  using Announce = std::function<void(const TaskType&)>;

  // The type of this name, made if it is new. `invalid_argument` for a bad name, `overloaded` for
  // one too many.
  Result<TaskType*> intern(std::string_view name, const Announce& announce);
  // At restore: a number and its name, as logged. False when they contradict what is known.
  bool restore(std::uint16_t number, std::string_view name);

  TaskType* find(std::string_view name) const noexcept;
  // REQUIRES: number < count().
  TaskType* at(std::uint16_t number) const noexcept {
    return by_number_[number].load(std::memory_order_acquire);
  }
  std::size_t count() const noexcept { return count_.load(std::memory_order_acquire); }

 private:
  void publish(std::unique_ptr<TaskType> type);

  static constexpr std::size_t kSlots = 2 * kMaxTypes;

  const std::uint32_t default_slack_us_;
  std::array<std::atomic<TaskType*>, kSlots> by_name_ = {};
  std::array<std::atomic<TaskType*>, kMaxTypes> by_number_ = {};
  std::atomic<std::size_t> count_{0};  // one above the highest number
  std::mutex mutex_;
  std::vector<std::unique_ptr<TaskType>> types_;  // guarded by mutex_
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_TASK_TYPE_H_
