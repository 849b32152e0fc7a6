// What every asynchronous operation of ours owes to its handler. Part of countwheel/asio.h: include
// that.
//
// The handler is called once, as if by post, on its associated executor (the operation's own if it
// has none): never inside the call that began the operation and never on a thread of the engine.
// Until it is posted both executors have work, and the handler's own until it is called, so that
// run() does not return. Memory comes from the associated allocator and is given back before the
// handler is called. Its cancellation slot is touched by the call that begins the operation and
// right before the handler, nowhere else.
#ifndef COUNTWHEEL_ASIO_OPERATION_H_
#define COUNTWHEEL_ASIO_OPERATION_H_

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution/executor.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/asio/require.hpp>
#include <boost/system/error_code.hpp>

#include <countwheel/assert.h>

namespace countwheel::detail {

using ErrorCode = boost::system::error_code;

// What a wait that was cancelled completes with.
inline ErrorCode aborted() noexcept {
  return boost::asio::error::operation_aborted;
}

// Every kind of cancellation ends a wait: it has no effects to keep or to undo.
inline bool ends_a_wait(boost::asio::cancellation_type type) noexcept {
  using boost::asio::cancellation_type;
  return (type & (cancellation_type::terminal | cancellation_type::partial |
                  cancellation_type::total)) != cancellation_type::none;
}

// The executor, with work that run() of its context waits for. Executors of the networking TS count
// by hand.
template <class Executor>
auto with_work(const Executor& executor) {
  namespace asio = boost::asio;
  if constexpr (asio::execution::is_executor_v<Executor>) {
    return asio::prefer(executor, asio::execution::outstanding_work.tracked);
  } else {
    return asio::executor_work_guard<Executor>(executor);
  }
}
template <class Executor>
using WithWork = decltype(with_work(std::declval<const Executor&>()));

// The same without: what is posted is work by itself.
template <class Working>
auto without_work(const Working& working) {
  namespace asio = boost::asio;
  if constexpr (asio::execution::is_executor_v<Working>) {
    return asio::prefer(working, asio::execution::outstanding_work.untracked);
  } else {
    return working.get_executor();
  }
}

// The system context starts its threads when it is first looked at. They take the name and the
// priority of the thread that does, which must not be one of the engine.
template <class Executor>
void wake_context(const Executor& executor) {
  namespace asio = boost::asio;
  if constexpr (asio::can_query_v<Executor, asio::execution::context_t>) {
    (void)asio::query(executor, asio::execution::context);
  }
}

// The base of operation `Op`, whose handler is called with an error code and `Values`. One object
// is one operation: made by make(), ended by post() or freed without a call.
template <class Op, class Handler, class IoExecutor, class... Values>
class AsioOperation {
 public:
  using Executor = boost::asio::associated_executor_t<Handler, IoExecutor>;
  // Without one of its own, the cache of blocks of the thread that runs a context.
  using Allocator =
      boost::asio::associated_allocator_t<Handler, boost::asio::recycling_allocator<void>>;

  struct Free {
    void operator()(Op* op) const noexcept { free(op); }
  };
  using Owner = std::unique_ptr<Op, Free>;

  AsioOperation(const AsioOperation&) = delete;
  AsioOperation& operator=(const AsioOperation&) = delete;

  // Op is constructed from the handler, the executor and `arguments`.
  template <class... Arguments>
  static Owner make(Handler handler, const IoExecutor& executor, Arguments&&... arguments) {
    Memory memory(allocator_of(handler));
    Op* const place = Traits::allocate(memory, 1);
    try {
      return Owner(new (static_cast<void*>(place))
                       Op(std::move(handler), executor, std::forward<Arguments>(arguments)...));
    } catch (...) {
      Traits::deallocate(memory, place, 1);
      throw;
    }
  }

  auto slot() const noexcept { return boost::asio::get_associated_cancellation_slot(handler_); }

  // The operation has ended: its handler will be called. From any thread; ends the process when
  // memory is lacking.
  static void post(Owner op, const ErrorCode& error) noexcept {
    op->error_ = error;
    // Kept until it is posted: without work a context stops.
    [[maybe_unused]] const std::unique_ptr<IoWork> io_work = std::move(op->io_work_);
    if (const auto* const known = op->io_context_executor()) {
      const auto executor = without_work(*known);
      [[maybe_unused]] const Work work = std::move(std::get<Work>(op->work_));
      op->work_.template emplace<Place>();  // What is posted is work, and needs the place.
      boost::asio::post(executor, InPlace{std::move(op)});
      return;
    }
    const auto executor = without_work(std::get<Work>(op->work_));
    if constexpr (kCanPost<decltype(executor)>) {
      boost::asio::post(executor, Completion{std::move(op)});
    } else {
      // That of any_completion_handler might run it in here: it gets it from the other executor.
      boost::asio::post(without_work(*io_work),
                        boost::asio::bind_executor(executor, Completion{std::move(op)}));
    }
  }

  std::tuple<Values...> values;

 protected:
  AsioOperation(Handler&& handler, const IoExecutor& executor)
      : handler_(std::move(handler)),
        work_(std::in_place_type<Work>,
              with_work(boost::asio::get_associated_executor(handler_, executor))) {
    const auto& own = boost::asio::get_associated_executor(handler_, executor);
    wake_context(own);
    if constexpr (std::is_same_v<Executor, IoExecutor>) {
      if (own == executor) {
        return;
      }
    }
    wake_context(executor);
    io_work_ = std::make_unique<IoWork>(with_work(executor));
  }
  ~AsioOperation() = default;

 private:
  static Allocator allocator_of(const Handler& handler) noexcept {
    return boost::asio::get_associated_allocator(handler, boost::asio::recycling_allocator<void>());
  }

  using Work = WithWork<Executor>;
  using IoWork = WithWork<IoExecutor>;
  struct Place {
    alignas(std::max_align_t) std::byte bytes[48];
  };
  using IoContextExecutor = boost::asio::io_context::executor_type;

  template <class Posting>
  static constexpr bool kCanPost =
      !boost::asio::execution::is_executor_v<Posting> ||
      boost::asio::can_require_v<Posting, boost::asio::execution::blocking_t::never_t>;

  // The usual case, without the price of not knowing the type. Null if it is another.
  const WithWork<IoContextExecutor>* io_context_executor() const noexcept {
    if constexpr (std::is_same_v<Executor, IoContextExecutor>) {
      return &std::get<Work>(work_);
    } else if constexpr (std::is_same_v<Executor, boost::asio::any_io_executor>) {
      return std::get<Work>(work_).template target<WithWork<IoContextExecutor>>();
    }
    return nullptr;
  }

  using Memory = typename std::allocator_traits<Allocator>::template rebind_alloc<Op>;
  using Traits = std::allocator_traits<Memory>;

  // What is posted. Destroyed without a call when its executor never runs it.
  struct Completion {
    using allocator_type = Allocator;
    allocator_type get_allocator() const noexcept { return allocator_of(op->handler_); }
    void operator()() { call(std::move(op)); }
    Owner op;
  };

  // The same for an io_context, which gives memory back before it calls: what it needs to keep a
  // function fits into the operation.
  template <class T>
  struct InPlaceAllocator {
    using value_type = T;
    explicit InPlaceAllocator(Op* owner) noexcept : op(owner) {}
    template <class U>
    InPlaceAllocator(const InPlaceAllocator<U>& other) noexcept  // NOLINT: implicit, as it must be.
        : op(other.op) {}
    // Asio may be told to keep more about a function than usual.
    static constexpr bool kFits = sizeof(T) <= sizeof(Place) && alignof(T) <= alignof(Place);
    T* allocate(std::size_t n) {
      if constexpr (kFits) {
        COUNTWHEEL_ASSERT(n == 1);
        return reinterpret_cast<T*>(std::get<Place>(op->work_).bytes);
      } else {
        return std::allocator<T>().allocate(n);
      }
    }
    void deallocate(T* block, std::size_t n) noexcept {
      if constexpr (!kFits) {
        std::allocator<T>().deallocate(block, n);
      }
    }
    template <class U>
    bool operator==(const InPlaceAllocator<U>& other) const noexcept {
      return op == other.op;
    }
    Op* op;
  };
  struct InPlace {
    using allocator_type = InPlaceAllocator<char>;
    allocator_type get_allocator() const noexcept { return allocator_type(op.get()); }
    void operator()() { call(std::move(op)); }
    Owner op;
  };

  // The handler, of an operation that is gone: an allocator may be a part of it, and so it leaves
  // last.
  static Handler release(Op* op) noexcept {
    Handler handler(std::move(op->handler_));
    Memory memory(allocator_of(handler));
    op->~Op();
    Traits::deallocate(memory, op, 1);
    return handler;
  }
  static void free(Op* op) noexcept { (void)release(op); }

  static void call(Owner op) {
    if (auto slot = op->slot(); slot.is_connected()) {
      slot.clear();
    }
    const ErrorCode error = op->error_;
    std::tuple<Values...> values = std::move(op->values);
    Handler handler = release(op.release());
    std::apply([&](Values&... each) { std::move(handler)(error, std::move(each)...); }, values);
  }

  Handler handler_;
  std::variant<Work, Place> work_;
  std::unique_ptr<IoWork> io_work_;  // unless it is the same
  ErrorCode error_;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ASIO_OPERATION_H_
