// countwheel::timer: boost::asio::steady_timer on our wheel. Part of countwheel/asio.h: include
// that.
//
// Spelt as Asio spells it, so that changing one type changes a program: constructors, expires_at,
// expires_after, expiry, cancel, cancel_one, wait and async_wait mean what they mean there. In
// memory only: what must survive a restart is a task of the engine.
//
// What differs is what holds them. Asio keeps the timers of a context in a heap; here they are in a
// wheel (countwheel/wheel.h), where setting, setting again and cancelling do the same work for ten
// timers and for a million, and the operating system is told only when the first of all changes.
// Precision is that of steady_timer: to the nanosecond plus the machine's wake-up, never early.
#ifndef COUNTWHEEL_ASIO_TIMER_H_
#define COUNTWHEEL_ASIO_TIMER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution_context.hpp>

#include <countwheel/asio_operation.h>
#include <countwheel/asio_timer_service.h>

namespace countwheel {

namespace detail {

template <class Context>
concept ExecutionContext = std::is_convertible_v<Context&, boost::asio::execution_context&>;

template <class Handler, class Executor>
class TimerOperation final
    : public AsioOperation<TimerOperation<Handler, Executor>, Handler, Executor>,
      public TimerWait {
 public:
  using Base = AsioOperation<TimerOperation, Handler, Executor>;
  using Owner = typename Base::Owner;

  TimerOperation(Handler&& handler, const Executor& executor)
      : Base(std::move(handler), executor) {}

  void complete(const ErrorCode& error) noexcept override { Base::post(Owner(this), error); }
  void abandon() noexcept override { Owner(this).reset(); }
};

// Kept in a cancellation slot: ends the wait named.
struct CancelTimerWait {
  TimerService* service;
  TimerState* state;
  std::uint64_t key;

  void operator()(boost::asio::cancellation_type type) const noexcept {
    if (ends_a_wait(type)) {
      service->cancel_one_wait(*state, key);
    }
  }
};

}  // namespace detail

// A timer with an executor of Asio. Distinct objects: safe. Shared objects: unsafe. Must not
// outlive the executor's context.
template <class Executor = boost::asio::any_io_executor>
class basic_timer {  // NOLINT(readability-identifier-naming): Asio's spelling.
 public:
  using executor_type = Executor;
  using clock_type = std::chrono::steady_clock;
  using duration = clock_type::duration;
  using time_point = clock_type::time_point;

  template <class Other>
  struct rebind_executor {  // NOLINT(readability-identifier-naming): Asio's spelling.
    using other = basic_timer<Other>;
  };

  // Without an expiry a timer expires at once: clock_type's epoch is long ago.
  explicit basic_timer(const Executor& executor)
      : executor_(executor), service_(&detail::TimerService::of(executor)) {}
  basic_timer(const Executor& executor, const time_point& expiry) : basic_timer(executor) {
    expires_at(expiry);
  }
  basic_timer(const Executor& executor, const duration& expiry) : basic_timer(executor) {
    expires_after(expiry);
  }
  // From an io_context, a thread_pool: whatever has an executor.
  template <detail::ExecutionContext Context>
  explicit basic_timer(Context& context) : basic_timer(Executor(context.get_executor())) {}
  template <detail::ExecutionContext Context>
  basic_timer(Context& context, const time_point& expiry)
      : basic_timer(Executor(context.get_executor()), expiry) {}
  template <detail::ExecutionContext Context>
  basic_timer(Context& context, const duration& expiry)
      : basic_timer(Executor(context.get_executor()), expiry) {}

  // Waits move along; `other` is then as if newly constructed.
  basic_timer(basic_timer&& other) noexcept
      : executor_(other.executor_),
        service_(other.service_),
        state_(std::exchange(other.state_, nullptr)),
        expiry_(std::exchange(other.expiry_, time_point())) {}
  template <class Other>
  requires std::is_constructible_v<Executor, const Other&>
  explicit(!std::is_convertible_v<const Other&, Executor>) basic_timer(basic_timer<Other>&& other)
      : executor_(other.executor_),
        service_(other.service_),
        state_(std::exchange(other.state_, nullptr)),
        expiry_(std::exchange(other.expiry_, time_point())) {}
  // Waits of *this are cancelled first.
  basic_timer& operator=(basic_timer&& other) noexcept {
    if (this != &other) {
      free_state();
      executor_ = other.executor_;
      service_ = other.service_;
      state_ = std::exchange(other.state_, nullptr);
      expiry_ = std::exchange(other.expiry_, time_point());
    }
    return *this;
  }
  // Waits complete with operation_aborted.
  ~basic_timer() { free_state(); }

  const executor_type& get_executor() const noexcept { return executor_; }

  // Answers how many waits were cancelled, which complete with operation_aborted. One whose timer
  // has expired is not among them: its handler has been posted and will be called with success.
  std::size_t cancel() { return state_ == nullptr ? 0 : service_->cancel(*state_); }
  // The same for the wait that began first.
  std::size_t cancel_one() { return state_ == nullptr ? 0 : service_->cancel_first(*state_); }

  time_point expiry() const { return expiry_; }

  // Set the expiry; they cancel and answer as cancel() does. time_point::max() is never.
  std::size_t expires_at(const time_point& expiry) {
    const std::size_t cancelled = cancel();
    expiry_ = expiry;
    return cancelled;
  }
  // Beyond the end of time is never.
  std::size_t expires_after(const duration& expiry) {
    const time_point now = clock_type::now();
    return expires_at(expiry > time_point::max() - now ? time_point::max() : now + expiry);
  }

  // Blocks this thread until the expiry.
  void wait() {
    while (clock_type::now() < expiry_) {
      std::this_thread::sleep_until(expiry_);
    }
  }

  // Completes with void(error_code): success when the timer has expired, operation_aborted when it
  // was cancelled, set again or destroyed, or its cancellation slot was told to (any type).
  template <class Token = typename boost::asio::default_completion_token<Executor>::type>
  auto async_wait(
      Token&& token = typename boost::asio::default_completion_token<Executor>::type()) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code)>(Initiate{this},
                                                                               token);
  }

 private:
  template <class Other>
  friend class basic_timer;

  struct Initiate {
    using executor_type = Executor;
    const executor_type& get_executor() const noexcept { return self->executor_; }
    template <class Handler>
    void operator()(Handler&& handler) const {
      self->begin_wait(std::forward<Handler>(handler));
    }
    basic_timer* self;
  };

  template <class Handler>
  void begin_wait(Handler&& handler) {
    using Operation = detail::TimerOperation<std::decay_t<Handler>, Executor>;
    auto operation = Operation::make(std::forward<Handler>(handler), executor_);
    if (state_ == nullptr) {
      state_ = service_->make_state();
    }
    if (auto slot = operation->slot(); slot.is_connected()) {
      operation->key = service_->next_key();
      slot.template emplace<detail::CancelTimerWait>(
          detail::CancelTimerWait{service_, state_, operation->key});
    }
    const std::chrono::nanoseconds expiry = expiry_.time_since_epoch();
    service_->wait(*state_, expiry.count(), operation.release());
  }

  void free_state() noexcept {
    if (state_ != nullptr) {
      service_->free_state(std::exchange(state_, nullptr));
    }
  }

  Executor executor_;
  detail::TimerService* service_;
  detail::TimerState* state_ = nullptr;  // from the first wait on
  time_point expiry_;
};

// The usual one, on any executor.
using timer = basic_timer<>;  // NOLINT(readability-identifier-naming): Asio's spelling.

}  // namespace countwheel

#endif  // COUNTWHEEL_ASIO_TIMER_H_
