// Handler and Delivery: what a handler is given and may answer.
//
//   engine.on("order.expire", [&](countwheel::Delivery delivery) {
//     book.expire(delivery.key());
//     delivery.done();
//   });
//
// Delivery is at-least-once: a handler may see a task again after a crash between its effect and
// the record of done(). A Delivery that is dropped without an answer, and a handler that throws,
// are failed attempts and follow the type's RetryPolicy.
#ifndef COUNTWHEEL_HANDLER_H_
#define COUNTWHEEL_HANDLER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <countwheel/retry.h>
#include <countwheel/status.h>
#include <countwheel/task.h>
#include <countwheel/writes.h>

namespace countwheel {

namespace detail {
class Dispatcher;
struct InFlight;
}  // namespace detail

// Orders attempts across restarts: a later attempt has the greater token.
struct FencingToken {
  std::uint64_t epoch = 0;    // of this start of the engine
  std::uint64_t attempt = 0;  // of the task: run << 16 | attempt within it
  friend constexpr auto operator<=>(FencingToken, FencingToken) noexcept = default;
};

// One attempt at one task. Movable: keep it and answer later, from any thread, but before the
// engine is destroyed. Answering twice answers `stale_lease` the second time.
//
// Thread contract: distinct objects: safe. Shared objects: unsafe.
class Delivery {
 public:
  Delivery(Delivery&& other) noexcept
      : dispatcher_(other.dispatcher_), in_flight_(std::exchange(other.in_flight_, nullptr)) {}
  Delivery& operator=(Delivery&& other) noexcept;
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;
  ~Delivery();  // without an answer: fail("dropped")

  // It has been answered, or moved away.
  bool answered() const noexcept { return in_flight_ == nullptr; }

  // -- Until the answer: neither these calls nor what they returned may be used after it --

  TaskId id() const noexcept;
  std::string_view type() const noexcept;
  std::string_view key() const noexcept;
  std::string_view payload() const noexcept;
  // On the wall clock; for `after` tasks as computed when they were scheduled.
  WallTime deadline() const noexcept;
  // Start of this handler minus the deadline, on the task's own clock; never negative.
  std::chrono::nanoseconds lateness() const noexcept;
  // 1 for the first start.
  std::uint32_t attempt() const noexcept;
  // Of a recurring task: 1, 2, ... An upsert does not start over. 1 for others.
  std::uint64_t run() const noexcept;
  FencingToken fencing_token() const noexcept;
  // Was already due when the engine started or when the task was scheduled.
  bool overdue() const noexcept;
  // Position in the order of hand-over, ascending by one within this start of the engine.
  std::uint64_t sequence() const noexcept;
  // Somebody called cancel() while this attempt ran, so there will be no retry, or its lease is
  // over: nobody waits for the result any more.
  bool cancel_requested() const noexcept;

  // The lease ends `by` from now, or later if it would have anyway. Without TypePolicy::lease there
  // is nothing to do. `stale_lease` when it is over already, `out_of_range` outside (0, 30 days].
  Status extend_lease(std::chrono::nanoseconds by);

  // -- The answer --

  // The task is finished. Durable soon, not on return: a crash before that delivers it again.
  // `stale_lease` when this attempt is no longer the current one (its lease was over), or has been
  // answered.
  Status done();
  // The same, with writes of the application that commit with the record, or not at all: with
  // them the effect of the handler happens once, however often it runs. They can be read once the
  // record is written, soon, not on return. None of them is applied when the answer is not ok;
  // after `invalid_argument` or `too_large` (countwheel/rocksdb.h says when) the attempt is still
  // unanswered.
  Status done(const Writes& writes);
  // A failed attempt, tried again after the policy's backoff, or a dead letter after the last.
  Status fail(std::string_view reason);
  // A failed attempt, tried again after `delay` instead.
  // Not now: the task is due again at `until`, which counts as no failure; `out_of_range` leaves
  // the delivery as it is.
  Status keep(Deadline until);
  // The same with the deadline it has: it is handed over again in a later step. For hosts, which
  // decide when that is; with threads that is at once.
  Status not_now();
  Status retry(std::chrono::nanoseconds delay, std::string_view reason = {});

 private:
  friend class detail::Dispatcher;
  Delivery(detail::Dispatcher* dispatcher, detail::InFlight* in_flight) noexcept
      : dispatcher_(dispatcher), in_flight_(in_flight) {}

  detail::Dispatcher* dispatcher_;
  detail::InFlight* in_flight_;
};

using Handler = std::function<void(Delivery)>;
// Deliveries that it does not move away are answered for it when it returns.
using BatchHandler = std::function<void(std::span<Delivery>)>;

// What becomes of tasks that fell due while no process had the log. (Runs of a recurring task are
// caught up as its own rule says.)
struct MisfirePolicy {
  enum class Kind : std::uint8_t {
    kRun = 0,  // They run, overdue ones first.
    kSpread,   // They run one after the other, evenly over `span` from the start on.
    kDrop,     // Those that were due more than `span` ago are cancelled, the others run.
    kBury,     // Those become dead letters with reason `missed`, the others run.
  };
  Kind kind = Kind::kRun;
  std::chrono::nanoseconds span{0};

  static MisfirePolicy spread(std::chrono::nanoseconds span) { return {Kind::kSpread, span}; }
  static MisfirePolicy drop(std::chrono::nanoseconds older_than) {
    return {Kind::kDrop, older_than};
  }
  static MisfirePolicy bury(std::chrono::nanoseconds older_than) {
    return {Kind::kBury, older_than};
  }
};

// How tasks of one type are treated.
struct TypePolicy {
  RetryPolicy retry = {};
  // How long a task may wait beyond its deadline so that wake-ups coalesce. Default: the engine's
  // slack. Unit: nanoseconds, kept in microseconds. Price: lateness up to the slack.
  std::optional<std::chrono::nanoseconds> slack = {};
  // Later than this after its deadline a task is not run any more: it becomes a dead letter with
  // reason `late`. Default: 0, no limit.
  std::chrono::nanoseconds max_lateness{0};
  // Attempts of this type at a time, from the start of the handler to the answer.
  // Default: 0, as many as there are workers. 1 orders the effects of a type as its starts are
  // ordered: by (deadline, order of scheduling). Price: claims of one task.
  std::uint32_t max_concurrent = 0;
  // Starts of this type a second; up to `burst` at once after a quiet time. What has to wait is
  // backlog. Default: 0, no limit. Range: up to 1,000,000. Price: claims of one task.
  double max_per_second = 0.0;
  std::uint32_t burst = 1;
  // Default: run them all, at once. What falls due in the meantime does not wait behind them.
  MisfirePolicy misfire = {};
  // Of a batch handler: tasks it is given at most. Default: 64. Range: [1, 64]. With a limit on
  // attempts or starts it is given one at a time.
  std::size_t max_batch = 64;
  // How long an attempt may take, from the start of its handler to its answer. When it is over the
  // attempt has failed with the text "lease_expired", its answer is refused as `stale_lease`, and
  // the task is due at once as the next attempt; the handler's thread cannot be taken back
  // (Stats::stuck). Time in which the whole engine stood still does not count.
  // Default: 0, no lease. Range: up to 30 days. Price: a copy of key and payload and two locks for
  // each attempt, and claims of one task.
  std::chrono::nanoseconds lease{0};
};

}  // namespace countwheel

#endif  // COUNTWHEEL_HANDLER_H_
