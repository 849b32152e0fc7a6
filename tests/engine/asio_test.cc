// countwheel/asio.h: every kind of token, and what it is told when things go wrong.
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include <countwheel/asio.h>

#include "asio_testing.h"
#include "testing/engine_fixture.h"

namespace countwheel {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using boost::system::error_code;
using testing::eventually;
using testing::Heard;
using testing::HostEngine;
using testing::in_an_hour;

using Asio = testing::AsioOperations;

TEST_F(Asio, CallbackRunsOnTheExecutorGivenWhenTheTaskIsDurable) {
  Heard<TaskId> heard;
  std::thread::id where;
  async_schedule(io_.get_executor(), engine(), in_an_hour("a"), [&](error_code error, TaskId id) {
    where = std::this_thread::get_id();
    heard.handler()(error, id);
  });
  EXPECT_EQ(heard.count, 0);
  EXPECT_EQ(io_.run(), 1U) << "run() has work until the handler has been called";
  EXPECT_EQ(heard.count, 1);
  EXPECT_FALSE(heard.error) << heard.error.message();
  EXPECT_EQ(where, std::this_thread::get_id());
  const Result<TaskInfo> task = engine().find("a");
  ASSERT_TRUE(task.ok());
  EXPECT_EQ(task->id, heard.value);
  EXPECT_GE(engine().durable_lsn(), task->order_lsn);
}

TEST_F(Asio, FutureHasTheIdOrThrowsTheCode) {
  std::future<TaskId> good = async_schedule(engine(), in_an_hour(), asio::use_future);
  EXPECT_TRUE(engine().find(good.get()).ok());
  std::future<TaskId> bad =
      async_schedule(engine(), {.type = "", .deadline = after(1h)}, asio::use_future);
  try {
    bad.get();
    FAIL() << "the type has no name";
  } catch (const boost::system::system_error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_EQ(error.code(), boost::system::errc::invalid_argument);
    EXPECT_STREQ(error.code().category().name(), "countwheel");
    EXPECT_EQ(error.code().message(), "invalid_argument");
  }
}

TEST_F(Asio, CoroutineSchedulesMovesAndCancels) {
  std::exception_ptr failure;
  bool done = false;
  asio::co_spawn(
      io_,
      [&]() -> asio::awaitable<void> {
        const auto executor = co_await asio::this_coro::executor;
        const TaskId id =
            co_await async_schedule(executor, engine(), in_an_hour("order"), asio::use_awaitable);
        Change change = co_await async_reschedule(engine(), id, after(2h), asio::use_awaitable);
        EXPECT_TRUE(change);
        change = co_await async_reschedule(
            engine(), "order", after(3h), Durability::kOs, asio::use_awaitable);
        EXPECT_TRUE(change);
        change = co_await async_cancel(
            executor, engine(), "order", Durability::kMemory, asio::use_awaitable);
        EXPECT_EQ(change.status.code(), Code::kCancelled);
        EXPECT_EQ(change.id, id);
        co_await async_wait_durable(engine(), change.lsn, asio::use_awaitable);
        change = co_await async_cancel(engine(), id, asio::use_awaitable);
        EXPECT_EQ(change.status.code(), Code::kNotFound) << "an outcome, not an error";
        done = true;
      },
      [&](std::exception_ptr thrown) { failure = thrown; });
  io_.run();
  EXPECT_TRUE(done);
  EXPECT_FALSE(failure);
}

TEST_F(Asio, DefaultTokenOfTheExecutorApplies) {
  using Executor = asio::use_awaitable_t<>::executor_with_default<asio::io_context::executor_type>;
  const Executor executor(io_.get_executor());
  TaskId id;
  asio::co_spawn(
      io_,
      [&]() -> asio::awaitable<void> {
        id = co_await async_schedule(executor, engine(), in_an_hour());
        EXPECT_TRUE(co_await async_reschedule(executor, engine(), id, after(2h)));
        const Change change = co_await async_cancel(executor, engine(), id, Durability::kOs);
        co_await async_wait_durable(executor, engine(), change.lsn);
      },
      asio::detached);
  io_.run();
  EXPECT_TRUE(id);
  EXPECT_EQ(engine().stats().pending, 0U);
}

TEST_F(Asio, DeferredOperationBeginsWhenItIsCalledAndOwnsWhatItNeeds) {
  auto key = std::make_unique<std::string>("a key that is too long to be kept in place");
  auto operation = async_schedule(io_.get_executor(), engine(), in_an_hour(*key), asio::deferred);
  auto cancel = async_cancel(io_.get_executor(), engine(), *key, asio::deferred);
  // A policy that makes no sense: it is refused, as long as it is still there.
  auto policy = std::make_unique<RetryPolicy>();
  policy->jitter = 2.0;
  TaskSpec spec = in_an_hour();
  spec.retry = policy.get();
  auto refused = async_schedule(io_.get_executor(), engine(), spec, asio::deferred);
  const std::string copy = *key;
  key.reset();
  policy.reset();
  EXPECT_FALSE(engine().find(copy).ok());
  Heard<TaskId> heard;
  std::move(operation)(heard.handler());
  io_.run();
  EXPECT_FALSE(heard.error);
  EXPECT_TRUE(engine().find(copy).ok());
  Heard<Change> cancelled;
  std::move(cancel)(cancelled.handler());
  io_.restart();
  io_.run();
  EXPECT_EQ(cancelled.value.status.code(), Code::kCancelled);
  std::move(refused)(heard.handler());
  io_.restart();
  io_.run();
  EXPECT_TRUE(heard.error);
  EXPECT_FALSE(heard.value);
}

TEST_F(Asio, HandlerThatOnlyMovesAndOneWithoutAType) {
  int called = 0;
  auto token = std::make_unique<int>(7);
  async_schedule(io_.get_executor(),
                 engine(),
                 in_an_hour(),
                 [&, token = std::move(token)](error_code, TaskId) { called += *token; });
  asio::any_completion_handler<void(error_code, TaskId)> any(
      asio::bind_executor(io_, [&](error_code, TaskId) { ++called; }));
  async_schedule(engine(), in_an_hour(), std::move(any));
  io_.run();
  EXPECT_EQ(called, 8);
}

TEST_F(Asio, FailureKnownAtOnceIsPostedToo) {
  ASSERT_TRUE(engine().stop().ok());
  Heard<TaskId> scheduled;
  Heard<Change> cancelled;
  async_schedule(io_.get_executor(), engine(), in_an_hour(), scheduled.handler());
  async_cancel(io_.get_executor(), engine(), TaskId{1}, cancelled.handler());
  EXPECT_EQ(scheduled.count + cancelled.count, 0);
  io_.run();
  EXPECT_EQ(scheduled.error, Code::kStopped);
  EXPECT_FALSE(scheduled.value);
  EXPECT_EQ(cancelled.error, Code::kStopped);
  EXPECT_EQ(cancelled.value.status.code(), Code::kStopped);
}

TEST_F(Asio, RolledBackOperationReportsItsFailure) {
  const TaskId kept = host_.schedule(after(1h), "kept");
  hold();
  Heard<TaskId> scheduled;
  Heard<Change> cancelled;
  async_schedule(io_.get_executor(), engine(), in_an_hour("new"), scheduled.handler());
  async_cancel(io_.get_executor(), engine(), "kept", cancelled.handler());
  EXPECT_FALSE(engine().find(kept).ok());
  faults_.answer(Code::kNoSpace);
  faults_.release();
  io_.run();
  EXPECT_EQ(scheduled.error, Code::kNoSpace);
  EXPECT_EQ(scheduled.error, boost::system::errc::no_space_on_device);
  EXPECT_TRUE(scheduled.value);
  EXPECT_EQ(cancelled.error, Code::kNoSpace);
  EXPECT_FALSE(cancelled.value) << cancelled.value.status.text();
  EXPECT_FALSE(engine().find("new").ok());
  EXPECT_TRUE(engine().find(kept).ok()) << "a cancel that failed has cancelled nothing";
}

TEST_F(Asio, OperationOfUnknownOutcomeReportsTheLogAndItsId) {
  hold();
  Heard<TaskId> heard;
  async_schedule(io_.get_executor(), engine(), in_an_hour(), heard.handler());
  faults_.answer(Code::kJournalFailed);
  faults_.release();
  io_.run();
  EXPECT_EQ(heard.error, Code::kJournalFailed);
  EXPECT_TRUE(engine().find(heard.value).ok()) << "in memory it stays as it was decided";
}

TEST_F(Asio, EngineThatStopsEndsTheWaits) {
  faults_.answer(Code::kNoSpace);
  const Result<Submitted> kept =
      engine().submit({.type = "test", .deadline = after(1h), .durability = Durability::kMemory});
  ASSERT_TRUE(kept.ok());
  std::optional<error_code> heard;
  async_wait_durable(
      io_.get_executor(), engine(), kept->lsn, [&](error_code error) { heard = error; });
  ASSERT_TRUE(eventually([&] { return engine().stats().health == Health::kDegraded; }));
  EXPECT_EQ(io_.poll(), 0U);
  ASSERT_TRUE(engine().stop().ok());
  EXPECT_EQ(io_.poll(), 1U);
  EXPECT_EQ(heard, error_code(Code::kStopped));
}

TEST(AsioOfAHost, OperationsCompleteWithPoll) {
  HostEngine host;
  host.run();
  asio::io_context io;
  Heard<TaskId> heard;
  async_schedule(io.get_executor(), *host.engine, in_an_hour(), heard.handler());
  EXPECT_EQ(io.poll(), 0U);
  host.engine->poll();
  io.restart();
  EXPECT_EQ(io.poll(), 1U);
  EXPECT_FALSE(heard.error);
  EXPECT_TRUE(host.engine->find(heard.value).ok());
}

TEST(AsioOfAHost, AtMemoryNobodyNeedCommit) {
  HostEngine host;
  host.run();
  asio::io_context io;
  Heard<TaskId> heard;
  TaskSpec spec = in_an_hour();
  spec.durability = Durability::kMemory;
  async_schedule(io.get_executor(), *host.engine, spec, heard.handler());
  EXPECT_EQ(heard.count, 0) << "posted all the same";
  EXPECT_EQ(io.poll(), 1U);
  EXPECT_FALSE(heard.error);
}

}  // namespace
}  // namespace countwheel
