// Countwheel for programs built on Boost.Asio: nothing here blocks a thread.
//
//   boost::asio::awaitable<void> accept(countwheel::Engine& engine, Order order) {
//     countwheel::TaskId expiry = co_await countwheel::async_schedule(
//         engine, {.type = "order.expire", .deadline = order.deadline, .key = order.name},
//         boost::asio::use_awaitable);             // on disk when it resumes; throws otherwise
//     ...
//     countwheel::Change change = co_await countwheel::async_cancel(
//         engine, expiry, boost::asio::use_awaitable);
//     if (!change) ...                             // too_late: it has expired
//   }
//
// The third form of the engine's mutations. An operation decides when it begins, as submit...()
// does, and completes when its record has the durability asked for, as the plain form returns. Any
// completion token will do: a callback, use_future, use_awaitable, deferred. countwheel::timer
// (asio_timer.h) is a steady_timer on our wheel; AsioExecutor (asio_executor.h) runs handlers of
// tasks on an executor of Asio. This is the only header that needs Boost, and CMake's target
// countwheel::asio brings it.
//
// Why void(error_code, T) and not void(Result<T>): tokens of Asio turn an error code into an
// exception, a tuple or a future's failure by themselves, and would treat a Result as a success.
//
// Executors. Handlers run on their associated executor; without one on the executor given first, or
// on the system executor. They are posted, failures known at once too: never inside the call, never
// on a thread of the engine. Associated allocators are honoured.
//
// Cancellation. The slot ends the wait, whatever the type, with operation_aborted. It never takes
// back the operation, which has been decided: whether it becomes durable is unknown then, and
// find() shows what there is in memory. TaskId and Change are filled in all the same.
//
// Threads. Safe for concurrent use, as Engine is. The engine must outlive the waits, which stop()
// ends, and no slot may be told to cancel one when the engine is gone. Operations that begin before
// start() wait for it; with Drive::kHost they wait for poll().
#ifndef COUNTWHEEL_ASIO_H_
#define COUNTWHEEL_ASIO_H_

#include <utility>

#include <boost/asio/system_executor.hpp>

#include <countwheel/asio_begin.h>
#include <countwheel/asio_error.h>
#include <countwheel/asio_executor.h>
#include <countwheel/asio_timer.h>
#include <countwheel/engine.h>

namespace countwheel {

// Each comes in two forms: with an executor, whose default token applies, and without. The errors
// of all are what the plain form answers (asio_error.h), and
//   operation_aborted   the wait was cancelled; the outcome is unknown
//   stopped             refused, or the engine stopped during the wait; then unknown too
// What a change found out is no error: Change::status says cancelled, too_late or not_found.

// Completes with void(error_code, TaskId). The id is 0 if and only if the task was refused.
// `spec`'s views need to live only until this returns, whatever the token.
template <class Executor, detail::CompletionToken Token = detail::DefaultToken<Executor>>
auto async_schedule(const Executor& executor,
                    Engine& engine,
                    const TaskSpec& spec,
                    Token&& token = Token()) {
  return detail::begin<Token>(token, executor, engine, detail::ScheduleCall(spec));
}
template <detail::CompletionToken Token>
auto async_schedule(Engine& engine, const TaskSpec& spec, Token&& token) {
  return async_schedule(boost::asio::system_executor(), engine, spec, std::forward<Token>(token));
}

// Completes with void(error_code, Change). At EngineOptions::durability unless one is given.
template <class Executor, detail::CompletionToken Token = detail::DefaultToken<Executor>>
auto async_cancel(const Executor& executor,
                  Engine& engine,
                  TaskName task,
                  Durability durability,
                  Token&& token = Token()) {
  return detail::begin<Token>(
      token, executor, engine, detail::CancelCall{std::move(task), durability});
}
template <class Executor, detail::CompletionToken Token = detail::DefaultToken<Executor>>
auto async_cancel(const Executor& executor,
                  Engine& engine,
                  TaskName task,
                  Token&& token = Token()) {
  return detail::begin<Token>(token, executor, engine, detail::CancelCall{std::move(task), {}});
}
template <detail::CompletionToken Token>
auto async_cancel(Engine& engine, TaskName task, Durability durability, Token&& token) {
  return async_cancel(boost::asio::system_executor(),
                      engine,
                      std::move(task),
                      durability,
                      std::forward<Token>(token));
}
template <detail::CompletionToken Token>
auto async_cancel(Engine& engine, TaskName task, Token&& token) {
  return async_cancel(
      boost::asio::system_executor(), engine, std::move(task), std::forward<Token>(token));
}

// Completes with void(error_code, Change). At EngineOptions::durability unless one is given. A
// delay counts from when the operation begins.
template <class Executor, detail::CompletionToken Token = detail::DefaultToken<Executor>>
auto async_reschedule(const Executor& executor,
                      Engine& engine,
                      TaskName task,
                      Deadline deadline,
                      Durability durability,
                      Token&& token = Token()) {
  return detail::begin<Token>(
      token, executor, engine, detail::RescheduleCall{std::move(task), deadline, durability});
}
template <class Executor, detail::CompletionToken Token = detail::DefaultToken<Executor>>
auto async_reschedule(const Executor& executor,
                      Engine& engine,
                      TaskName task,
                      Deadline deadline,
                      Token&& token = Token()) {
  return detail::begin<Token>(
      token, executor, engine, detail::RescheduleCall{std::move(task), deadline, {}});
}
template <detail::CompletionToken Token>
auto async_reschedule(Engine& engine,
                      TaskName task,
                      Deadline deadline,
                      Durability durability,
                      Token&& token) {
  return async_reschedule(boost::asio::system_executor(),
                          engine,
                          std::move(task),
                          deadline,
                          durability,
                          std::forward<Token>(token));
}
template <detail::CompletionToken Token>
auto async_reschedule(Engine& engine, TaskName task, Deadline deadline, Token&& token) {
  return async_reschedule(boost::asio::system_executor(),
                          engine,
                          std::move(task),
                          deadline,
                          std::forward<Token>(token));
}

// Completes with void(error_code) when Engine::wait_durable() would return. For what submit...()
// has begun. At Durability::kDisk unless one is given.
template <class Executor, detail::CompletionToken Token = detail::DefaultToken<Executor>>
auto async_wait_durable(const Executor& executor,
                        Engine& engine,
                        Lsn lsn,
                        Durability durability,
                        Token&& token = Token()) {
  return detail::begin<Token>(token, executor, engine, detail::WaitCall{lsn, durability});
}
template <detail::CompletionToken Token>
auto async_wait_durable(Engine& engine, Lsn lsn, Durability durability, Token&& token) {
  return async_wait_durable(
      boost::asio::system_executor(), engine, lsn, durability, std::forward<Token>(token));
}
template <class Executor, detail::CompletionToken Token = detail::DefaultToken<Executor>>
auto async_wait_durable(const Executor& executor,
                        Engine& engine,
                        Lsn lsn,
                        Token&& token = Token()) {
  return detail::begin<Token>(token, executor, engine, detail::WaitCall{lsn, Durability::kDisk});
}
template <detail::CompletionToken Token>
auto async_wait_durable(Engine& engine, Lsn lsn, Token&& token) {
  return async_wait_durable(
      boost::asio::system_executor(), engine, lsn, Durability::kDisk, std::forward<Token>(token));
}

}  // namespace countwheel

#endif  // COUNTWHEEL_ASIO_H_
