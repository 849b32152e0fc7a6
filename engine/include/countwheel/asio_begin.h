// From a completion token to a call of the engine and the wait behind it. Part of
// countwheel/asio.h: include that.
//
//   token ──▶ handler ──▶ operation ──▶ submit...() ──▶ notify_durable() ──▶ post(handler)
//                         memory first: a call that cannot be waited for is not made
#ifndef COUNTWHEEL_ASIO_BEGIN_H_
#define COUNTWHEEL_ASIO_BEGIN_H_

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <boost/asio/async_result.hpp>

#include <countwheel/asio_error.h>
#include <countwheel/asio_operation.h>
#include <countwheel/engine.h>
#include <countwheel/retry.h>

namespace countwheel {

// A task by its id or by its key. Owns the key: with some tokens an operation begins later than the
// call that names its task.
class TaskName {
 public:
  TaskName(TaskId id) : id_(id) {}                         // NOLINT(google-explicit-constructor)
  TaskName(std::string_view key) : key_(key) {}            // NOLINT(google-explicit-constructor)
  TaskName(const std::string& key) : key_(key) {}          // NOLINT(google-explicit-constructor)
  TaskName(const char* key) : key_(std::in_place, key) {}  // NOLINT(google-explicit-constructor)

  // The key if it was named by one.
  const std::optional<std::string>& key() const noexcept { return key_; }
  // Otherwise the id.
  TaskId id() const noexcept { return id_; }

 private:
  TaskId id_;
  std::optional<std::string> key_;
};

namespace detail {

// What a call has decided. There is something to wait for unless lsn is 0.
template <class... Values>
struct Begun {
  Status status;
  Lsn lsn;
  Durability durability = Durability::kDisk;
  std::tuple<Values...> values;
};

// A TaskSpec that owns what it refers to.
class ScheduleCall {
 public:
  explicit ScheduleCall(const TaskSpec& spec) : spec_(spec) {
    // A field that is added stops the build here: what it refers to must be kept as well.
    const auto& [type,
                 deadline,
                 key,
                 payload,
                 policy,
                 durability,
                 slack,
                 lateness,
                 retry,
                 group,
                 recurrence,
                 window] = spec;
    bytes_.reserve(type.size() + key.size() + payload.size());
    bytes_.append(type).append(key).append(payload);
    if (retry != nullptr) {
      retry_ = *retry;
    }
    if (recurrence != nullptr) {
      recurrence_ = *recurrence;
    }
  }

  Begun<TaskId> operator()(Engine& engine) const {
    TaskSpec spec = spec_;
    const std::string_view bytes = bytes_;
    spec.type = bytes.substr(0, spec.type.size());
    spec.key = bytes.substr(spec.type.size(), spec.key.size());
    spec.payload = bytes.substr(spec.type.size() + spec.key.size());
    spec.retry = retry_ ? &*retry_ : nullptr;
    spec.recurrence = recurrence_ ? &*recurrence_ : nullptr;
    const Result<Submitted> submitted = engine.submit(spec);
    if (!submitted.ok()) {
      return {submitted.status(), {}, {}, {}};
    }
    const Durability level = spec.durability.value_or(engine.options().durability);
    return {{}, submitted->lsn, level, {submitted->id}};
  }

 private:
  TaskSpec spec_;      // its views are stale, their sizes are not
  std::string bytes_;  // type, key and payload
  std::optional<RetryPolicy> retry_;
  std::optional<Recurrence> recurrence_;
};

// What a change found out is its outcome; anything else means that there was none.
inline Begun<Change> begun(Change change, Durability durability) {
  const Code code = change.status.code();
  const bool outcome = code == Code::kOk || code == Code::kCancelled || code == Code::kTooLate ||
                       code == Code::kNotFound;
  const Lsn lsn = change.lsn;
  Status status = outcome ? Status() : change.status;
  return {std::move(status), lsn, durability, {std::move(change)}};
}

struct CancelCall {
  TaskName task;
  std::optional<Durability> level;

  Begun<Change> operator()(Engine& engine) const {
    const Durability durability = level.value_or(engine.options().durability);
    return begun(task.key() ? engine.submit_cancel(*task.key(), durability)
                            : engine.submit_cancel(task.id(), durability),
                 durability);
  }
};

struct RescheduleCall {
  TaskName task;
  Deadline deadline;
  std::optional<Durability> level;

  Begun<Change> operator()(Engine& engine) const {
    const Durability durability = level.value_or(engine.options().durability);
    return begun(task.key() ? engine.submit_reschedule(*task.key(), deadline, durability)
                            : engine.submit_reschedule(task.id(), deadline, durability),
                 durability);
  }
};

struct WaitCall {
  Lsn lsn;
  Durability durability;

  Begun<> operator()(Engine&) const { return {{}, lsn, durability, {}}; }
};

// The wait has failed: what the values say of the outcome does not hold.
inline void note_failure(TaskId&, const Status&) {}
inline void note_failure(Change& change, const Status& status) {
  change.status = status;
}

// Waits for an LSN. The engine has it, as the argument of a notice, until it is durable.
template <class Handler, class Executor, class... Values>
class DurableOperation final : public AsioOperation<DurableOperation<Handler, Executor, Values...>,
                                                    Handler,
                                                    Executor,
                                                    Values...> {
 public:
  using Base = AsioOperation<DurableOperation, Handler, Executor, Values...>;
  using Owner = typename Base::Owner;

  DurableOperation(Handler&& handler, const Executor& executor)
      : Base(std::move(handler), executor) {}

  static void finish(Owner op, const Status& status, ErrorCode error) noexcept {
    if (error) {
      std::apply([&status](Values&... each) { (note_failure(each, status), ...); }, op->values);
    }
    Base::post(std::move(op), error);
  }
  static void finish(Owner op, const Status& status) noexcept {
    finish(std::move(op), status, status.ok() ? ErrorCode() : make_error_code(status.code()));
  }
  // A Notice.
  static void settled(void* argument, const Status& status) noexcept {
    finish(Owner(static_cast<DurableOperation*>(argument)), status);
  }
};

// Kept in a cancellation slot: ends the wait, unless it has ended. `op` may be gone: only the
// engine knows, so it is asked first.
template <class Operation>
struct CancelDurableWait {
  Engine* engine;
  Lsn lsn;
  Durability durability;
  Operation* op;

  void operator()(boost::asio::cancellation_type type) const noexcept {
    if (ends_a_wait(type) && engine->withdraw_notice(lsn, durability, {&Operation::settled, op})) {
      Operation::finish(typename Operation::Owner(op),
                        Status(Code::kTimedOut, "the wait was cancelled"),
                        aborted());
    }
  }
};

// What a completion token is given to begin with.
template <class Executor, class Call, class... Values>
struct Begin {
  using executor_type = Executor;
  const executor_type& get_executor() const noexcept { return executor; }

  template <class Handler>
  void operator()(Handler&& handler) const {
    using Operation = DurableOperation<std::decay_t<Handler>, Executor, Values...>;
    auto op = Operation::make(std::forward<Handler>(handler), executor);
    Begun<Values...> begun = call(*engine);
    op->values = std::move(begun.values);
    if (!begun.status.ok() || begun.lsn.value == 0) {
      Operation::finish(std::move(op), begun.status);
      return;
    }
    if (auto slot = op->slot(); slot.is_connected()) {
      using Cancel = CancelDurableWait<Operation>;
      slot.template emplace<Cancel>(Cancel{engine, begun.lsn, begun.durability, op.get()});
    }
    engine->notify_durable(begun.lsn, begun.durability, {&Operation::settled, op.release()});
  }

  Engine* engine;
  Executor executor;
  Call call;
};

// Tells a token from the durability that may stand before it.
template <class Token>
concept CompletionToken = !std::is_same_v<std::remove_cvref_t<Token>, Durability>;

template <class Executor>
using DefaultToken = typename boost::asio::default_completion_token<Executor>::type;

// Values are what `call` answers with.
template <class Token, class Executor, class Call, class... Values>
auto begin(Token& token, const Executor& executor, Engine& engine, Call call, Begun<Values...>*) {
  return boost::asio::async_initiate<Token, void(ErrorCode, Values...)>(
      Begin<Executor, Call, Values...>{&engine, executor, std::move(call)}, token);
}
template <class Token, class Executor, class Call>
auto begin(Token& token, const Executor& executor, Engine& engine, Call call) {
  using Answer = std::invoke_result_t<const Call&, Engine&>;
  return begin<Token>(token, executor, engine, std::move(call), static_cast<Answer*>(nullptr));
}

}  // namespace detail

}  // namespace countwheel

#endif  // COUNTWHEEL_ASIO_BEGIN_H_
