// TimerService: the wheel behind every countwheel::timer of one execution context. Part of
// countwheel/asio.h: include that.
//
// However many timers there are, Asio sees one: a steady_timer that sleeps to the wheel's next
// wake-up. A timer that is set later, set again or cancelled touches the wheel alone; only a timer
// that is now the first moves the sleeper. When nothing is waited for the sleeper is cancelled too,
// so that run() can return, but not in the same breath: most timers are cancelled to be set again.
#ifndef COUNTWHEEL_ASIO_TIMER_SERVICE_H_
#define COUNTWHEEL_ASIO_TIMER_SERVICE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/system/error_code.hpp>

#include <countwheel/assert.h>
#include <countwheel/wheel.h>

namespace countwheel::detail {

// One async_wait in progress.
class TimerWait {
 public:
  virtual ~TimerWait() = default;
  // Ends it: its handler is posted, or never called. The object is gone afterwards.
  virtual void complete(const boost::system::error_code& error) noexcept = 0;
  virtual void abandon() noexcept = 0;

  std::uint64_t key = 0;  // names it in its service, for ever; 0 when nobody will ask
  TimerWait* next = nullptr;
};

// Waits in the order in which they began. Owns none: they end through complete() or abandon().
class TimerWaits {
 public:
  TimerWaits() = default;
  TimerWaits(TimerWaits&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)), last_(std::exchange(other.last_, nullptr)) {}
  TimerWaits& operator=(TimerWaits&&) = delete;

  bool empty() const noexcept { return first_ == nullptr; }

  void push_back(TimerWait* wait) noexcept {
    wait->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = wait;
    last_ = wait;
  }
  void append(TimerWaits&& others) noexcept {
    if (!others.empty()) {
      (first_ == nullptr ? first_ : last_->next) = others.first_;
      last_ = others.last_;
      others.first_ = nullptr;
    }
  }
  // Null when there is none.
  TimerWait* pop_front() noexcept {
    TimerWait* const wait = first_;
    if (wait != nullptr) {
      first_ = wait->next;
    }
    return wait;
  }
  // Null when there is none with that key.
  TimerWait* remove(std::uint64_t key) noexcept {
    TimerWait* before = nullptr;
    for (TimerWait* wait = first_; wait != nullptr; before = wait, wait = wait->next) {
      if (wait->key == key) {
        (before == nullptr ? first_ : before->next) = wait->next;
        last_ = last_ == wait ? before : last_;
        return wait;
      }
    }
    return nullptr;
  }

  // Empties it; answers how many there were.
  std::size_t complete(const boost::system::error_code& error) noexcept {
    std::size_t count = 0;
    for (; TimerWait* const wait = pop_front(); ++count) {
      wait->complete(error);
    }
    return count;
  }
  void abandon() noexcept {
    while (TimerWait* const wait = pop_front()) {
      wait->abandon();
    }
  }

 private:
  TimerWait* first_ = nullptr;
  TimerWait* last_ = nullptr;  // meaningless while first_ is null
};

// What a timer has in the service from its first wait on. It stays in the wheel when its waits are
// cancelled: to set it again is then one store (wheel.h), and if nobody does, nobody hears of its
// expiry.
struct alignas(64) TimerState {  // one line of the cache
  TimingWheel::Handle handle;
  TimerWaits waits;
  bool counted = false;  // among those that are waited for
  TimerState* next_free = nullptr;
};

// Thread contract: safe for concurrent use; one TimerState is one thread's at a time, but for
// cancel_one_wait(). Handlers are posted and waits abandoned outside its lock.
class TimerService final : public boost::asio::execution_context::service {
 public:
  using key_type = TimerService;
  using Clock = std::chrono::steady_clock;

  // The expiry of a timer that only waits to be cancelled.
  static constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

  inline static boost::asio::execution_context::id id;

  explicit TimerService(boost::asio::execution_context& context)
      : service(context), wheel_({}, now_ns()) {}

  // The service of the executor's context. The first executor lends the sleeper its context; a
  // strand among them is bypassed.
  template <class Executor>
  static TimerService& of(const Executor& executor) {
    namespace asio = boost::asio;
    auto& service =
        asio::use_service<TimerService>(asio::query(executor, asio::execution::context));
    const std::lock_guard lock(service.mutex_);
    if (!service.sleeper_ && !service.closed_) {
      service.sleeper_.emplace(asio::any_io_executor(
          asio::prefer(executor, asio::execution::outstanding_work.untracked)));
    }
    return service;
  }

  TimerState* make_state();
  // Cancels what waits and takes the state back.
  void free_state(TimerState* state) noexcept;
  // For TimerWait::key.
  std::uint64_t next_key() noexcept;

  // `wait` ends when the clock has reached `expiry_ns`, which is the same for all waits of a state.
  void wait(TimerState& state, std::int64_t expiry_ns, TimerWait* wait) noexcept;
  // Answer how many waits were cancelled; those complete with operation_aborted.
  std::size_t cancel(TimerState& state) noexcept;
  std::size_t cancel_first(TimerState& state) noexcept;
  // Also of a state that has been freed, or is another timer's by now: a key is never used again.
  void cancel_one_wait(TimerState& state, std::uint64_t wait_key) noexcept;

 private:
  // The sleeper's wake-up in `armed_ns_` while there is none because a thread is awake.
  static constexpr std::int64_t kAwake = std::numeric_limits<std::int64_t>::min();
  // Timers handed over in one hold of the lock.
  static constexpr std::size_t kExpiryBatch = 1024;
  // So many timers may be added before the wheel is asked again when it wants to work: a later
  // timer never makes the next expiry earlier, but can make the cascade begin earlier.
  static constexpr std::uint32_t kLookEvery = 64;

  static std::int64_t now_ns() noexcept {
    return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  }

  void shutdown() noexcept override;

  // Under mutex_:
  void enter_wheel(TimerState& state, std::int64_t expiry_ns) noexcept;
  void note_unwaited(TimerState& state) noexcept;
  bool is_armed() const noexcept { return armed_ns_ != kNothingPending && armed_ns_ != kAwake; }
  void wake_for(std::int64_t expiry_ns) noexcept;
  void arm(std::int64_t wake_ns) noexcept;

  void wake(std::uint64_t number) noexcept;
  void rest() noexcept;

  // Guards everything below.
  std::mutex mutex_;
  TimingWheel wheel_;
  std::deque<TimerState> states_;  // given back to the system with the service
  TimerState* free_states_ = nullptr;
  std::size_t waited_for_ = 0;  // timers in the wheel that somebody waits for
  std::uint64_t last_key_ = 0;
  std::optional<boost::asio::steady_timer> sleeper_;
  std::int64_t armed_ns_ = kNothingPending;  // when the sleeper wakes
  std::uint64_t arm_number_ = 0;             // tells its wake-up from those that came too late
  std::uint32_t unlooked_ = 0;               // timers since the wheel was asked
  bool rest_posted_ = false;
  bool closed_ = false;
};

// Implementation

inline TimerState* TimerService::make_state() {
  const std::lock_guard lock(mutex_);
  if (free_states_ == nullptr) {
    return &states_.emplace_back();
  }
  return std::exchange(free_states_, free_states_->next_free);
}

inline void TimerService::free_state(TimerState* state) noexcept {
  TimerWaits cancelled;
  {
    const std::lock_guard lock(mutex_);
    if (!state->waits.empty()) {
      cancelled.append(std::move(state->waits));
      note_unwaited(*state);
    }
    if (state->handle) {
      const bool left = wheel_.cancel(std::exchange(state->handle, {}));
      COUNTWHEEL_ASSERT(left);
    }
    state->next_free = std::exchange(free_states_, state);
  }
  cancelled.complete(boost::asio::error::operation_aborted);
}

inline std::uint64_t TimerService::next_key() noexcept {
  const std::lock_guard lock(mutex_);
  return ++last_key_;
}

inline void TimerService::wait(TimerState& state,
                               std::int64_t expiry_ns,
                               TimerWait* wait) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      const bool first = state.waits.empty();
      state.waits.push_back(wait);
      if (first && expiry_ns != kForever) {
        ++waited_for_;
        enter_wheel(state, expiry_ns);
        wake_for(expiry_ns);
      }
      return;
    }
  }
  wait->abandon();
}

inline std::size_t TimerService::cancel(TimerState& state) noexcept {
  TimerWaits cancelled;
  {
    const std::lock_guard lock(mutex_);
    if (!state.waits.empty()) {
      cancelled.append(std::move(state.waits));
      note_unwaited(state);
    }
  }
  return cancelled.complete(boost::asio::error::operation_aborted);
}

inline std::size_t TimerService::cancel_first(TimerState& state) noexcept {
  TimerWaits cancelled;
  {
    const std::lock_guard lock(mutex_);
    if (TimerWait* const first = state.waits.pop_front()) {
      cancelled.push_back(first);
      note_unwaited(state);
    }
  }
  return cancelled.complete(boost::asio::error::operation_aborted);
}

inline void TimerService::cancel_one_wait(TimerState& state, std::uint64_t wait_key) noexcept {
  TimerWait* cancelled = nullptr;
  {
    const std::lock_guard lock(mutex_);
    cancelled = state.waits.remove(wait_key);
    if (cancelled != nullptr) {
      note_unwaited(state);
    }
  }
  if (cancelled != nullptr) {
    cancelled->complete(boost::asio::error::operation_aborted);
  }
}

inline void TimerService::enter_wheel(TimerState& state, std::int64_t expiry_ns) noexcept {
  state.counted = true;
  if (state.handle) {
    const bool moved = wheel_.reschedule(state.handle, expiry_ns);
    COUNTWHEEL_ASSERT(moved);
    return;
  }
  if (wheel_.size() == 0) {
    // Nothing is due, but the cursor may be hours behind.
    wheel_.advance(now_ns(), [](std::span<const TimingWheel::Expired>) {});
  }
  state.handle = wheel_.schedule(expiry_ns, reinterpret_cast<std::uintptr_t>(&state));
  COUNTWHEEL_ASSERT(state.handle);
}

// A wait has been cancelled: if it was the last of all, the sleeper must not keep run() from
// returning. Looked at later, by when the timer is most often set again.
inline void TimerService::note_unwaited(TimerState& state) noexcept {
  if (!state.waits.empty() || !std::exchange(state.counted, false)) {
    return;
  }
  if (--waited_for_ == 0 && is_armed() && !rest_posted_ && !closed_) {
    rest_posted_ = true;
    boost::asio::post(sleeper_->get_executor(), [this] { rest(); });
  }
}

inline void TimerService::rest() noexcept {
  const std::lock_guard lock(mutex_);
  rest_posted_ = false;
  if (waited_for_ == 0 && is_armed()) {
    armed_ns_ = kNothingPending;
    ++arm_number_;
    sleeper_->cancel();
  }
}

inline void TimerService::wake_for(std::int64_t expiry_ns) noexcept {
  if (expiry_ns >= armed_ns_ && ++unlooked_ < kLookEvery) {
    return;
  }
  unlooked_ = 0;
  if (armed_ns_ > now_ns()) {
    const std::int64_t wake_ns = wheel_.next_wake();
    if (wake_ns < armed_ns_) {
      arm(wake_ns);
    }
  }
}

inline void TimerService::arm(std::int64_t wake_ns) noexcept {
  armed_ns_ = wake_ns;
  sleeper_->expires_at(Clock::time_point(std::chrono::nanoseconds(wake_ns)));
  // The system executor runs it at once, on the thread of the context that saw the time pass.
  sleeper_->async_wait(boost::asio::bind_executor(
      boost::asio::system_executor(),
      [this, number = ++arm_number_](const boost::system::error_code&) { wake(number); }));
}

inline void TimerService::wake(std::uint64_t number) noexcept {
  for (bool more = true; more;) {
    TimerWaits expired;
    {
      const std::lock_guard lock(mutex_);
      if (number != arm_number_) {
        return;
      }
      armed_ns_ = kAwake;  // Nobody need arm it until this is done.
      const auto collect = [this, &expired](std::span<const TimingWheel::Expired> timers) {
        for (const TimingWheel::Expired& timer : timers) {
          auto* const state =
              reinterpret_cast<TimerState*>(static_cast<std::uintptr_t>(timer.value));
          state->handle = {};
          waited_for_ -= std::exchange(state->counted, false) ? 1U : 0U;
          expired.append(std::move(state->waits));
        }
      };
      more = wheel_.advance(now_ns(), collect, kExpiryBatch).more_due;
      if (!more) {
        armed_ns_ = kNothingPending;
        if (waited_for_ != 0) {
          arm(wheel_.next_wake());
        }
      }
    }
    expired.complete({});
  }
}

// The context is being destroyed: handlers are destroyed and not called. They may own timers.
inline void TimerService::shutdown() noexcept {
  TimerWaits abandoned;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    for (TimerState& state : states_) {
      abandoned.append(std::move(state.waits));
      if (state.handle) {
        wheel_.cancel(std::exchange(state.handle, {}));
      }
    }
    sleeper_.reset();
  }
  abandoned.abandon();
}

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ASIO_TIMER_SERVICE_H_
