// countwheel/asio.h: what an operation owes to its handler (executor, allocator, cancellation slot,
// thread), and the executor that goes the other way.
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <pthread.h>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include <countwheel/asio.h>

#include "asio_testing.h"

namespace countwheel {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using boost::system::error_code;
using testing::eventually;
using testing::Heard;
using testing::in_an_hour;

using AsioHandler = testing::AsioOperations;

// Counts what it has given out.
struct Ledger {
  std::atomic<int> given{0};
  std::atomic<int> live{0};
};
template <class T>
struct CountingAllocator {
  using value_type = T;
  explicit CountingAllocator(Ledger* kept) : ledger(kept) {}
  template <class U>
  CountingAllocator(const CountingAllocator<U>& other) : ledger(other.ledger) {}
  T* allocate(std::size_t n) {
    ++ledger->given;
    ++ledger->live;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* block, std::size_t n) {
    --ledger->live;
    std::allocator<T>().deallocate(block, n);
  }
  template <class U>
  bool operator==(const CountingAllocator<U>& other) const {
    return ledger == other.ledger;
  }
  Ledger* ledger;
};

TEST_F(AsioHandler, AssociatedExecutorWinsOverTheOneGiven) {
  asio::thread_pool pool(1);
  const std::thread::id there =
      asio::post(pool, asio::use_future([] { return std::this_thread::get_id(); })).get();
  std::promise<std::thread::id> where;
  async_schedule(io_.get_executor(),
                 engine(),
                 in_an_hour(),
                 asio::bind_executor(pool, [&](error_code, TaskId) {
                   where.set_value(std::this_thread::get_id());
                 }));
  EXPECT_EQ(where.get_future().get(), there);
  pool.join();
  io_.run();
}

TEST_F(AsioHandler, CancellationEndsTheWaitAndNotTheOperation) {
  for (const asio::cancellation_type type : {asio::cancellation_type::terminal,
                                             asio::cancellation_type::partial,
                                             asio::cancellation_type::total}) {
    hold();
    asio::cancellation_signal signal;
    Heard<TaskId> heard;
    async_schedule(io_.get_executor(),
                   engine(),
                   in_an_hour(),
                   asio::bind_cancellation_slot(signal.slot(), heard.handler()));
    signal.emit(asio::cancellation_type::none);
    EXPECT_EQ(io_.poll(), 0U);
    signal.emit(type);
    EXPECT_EQ(heard.count, 0) << "posted, not called";
    io_.restart();
    io_.run();
    EXPECT_EQ(heard.count, 1);
    EXPECT_EQ(heard.error, asio::error::operation_aborted);
    faults_.release();
    ASSERT_TRUE(engine().flush().ok());
    EXPECT_TRUE(engine().find(heard.value).ok());
    signal.emit(type);
    io_.restart();
    EXPECT_EQ(io_.poll(), 0U);
    EXPECT_EQ(heard.count, 1);
  }
}

TEST_F(AsioHandler, CancelledWaitForACancelDoesNotClaimThatItCancelled) {
  const TaskId id = host_.schedule(after(1h));
  hold();
  asio::cancellation_signal signal;
  Heard<Change> heard;
  async_cancel(io_.get_executor(),
               engine(),
               id,
               asio::bind_cancellation_slot(signal.slot(), heard.handler()));
  signal.emit(asio::cancellation_type::terminal);
  io_.run();
  EXPECT_EQ(heard.error, asio::error::operation_aborted);
  EXPECT_FALSE(heard.value);
  EXPECT_EQ(heard.value.id, id);
  faults_.release();
  ASSERT_TRUE(engine().flush().ok());
  EXPECT_FALSE(engine().find(id).ok());
}

TEST_F(AsioHandler, CancellationThatComesTooLateIsNothing) {
  asio::cancellation_signal signal;
  Heard<TaskId> heard;
  async_schedule(io_.get_executor(),
                 engine(),
                 in_an_hour(),
                 asio::bind_cancellation_slot(signal.slot(), heard.handler()));
  ASSERT_TRUE(engine().flush().ok());
  signal.emit(asio::cancellation_type::total);  // Settled, or about to be; called in neither case.
  io_.run();
  signal.emit(asio::cancellation_type::total);
  EXPECT_EQ(heard.count, 1);
  EXPECT_TRUE(!heard.error || heard.error == asio::error::operation_aborted);
}

TEST_F(AsioHandler, MemoryComesFromTheAllocatorAndIsBackBeforeTheHandlerIsCalled) {
  Ledger ledger;
  int live_in_handler = -1;
  const auto handler = [&] {
    return asio::bind_allocator(CountingAllocator<char>(&ledger),
                                [&](error_code, TaskId) { live_in_handler = ledger.live.load(); });
  };
  async_schedule(io_.get_executor(), engine(), in_an_hour(), handler());
  EXPECT_EQ(ledger.given, 1);
  io_.run();
  EXPECT_EQ(ledger.given, 1) << "one block does for the operation and for its post";
  EXPECT_EQ(live_in_handler, 0);

  live_in_handler = -1;
  asio::thread_pool pool(1);
  async_schedule(pool.get_executor(), engine(), in_an_hour(), handler());
  pool.join();
  EXPECT_EQ(ledger.given, 3) << "on other contexts the post has one of its own";
  EXPECT_EQ(live_in_handler, 0);
}

TEST_F(AsioHandler, HandlerNeverRunsOnAThreadOfTheEngine) {
  constexpr int kCount = 200;
  std::atomic<int> called{0};
  std::atomic<int> strangers{0};
  for (int i = 0; i < kCount; ++i) {
    async_schedule(engine(), in_an_hour(), [&](error_code, TaskId) {
      std::array<char, 16> name{};
      pthread_getname_np(pthread_self(), name.data(), name.size());
      strangers += std::string_view(name.data()).substr(0, 3) == "cw-" ? 1 : 0;
      ++called;
    });
  }
  ASSERT_TRUE(eventually([&] { return called == kCount; }));
  EXPECT_EQ(strangers, 0);
}

TEST_F(AsioHandler, HandlerOfAContextThatGoesAwayIsDestroyedAndNotCalled) {
  auto life = std::make_shared<int>(0);
  {
    asio::io_context short_lived;
    async_wait_durable(
        short_lived.get_executor(), engine(), Lsn{}, [life](error_code) { ++*life; });
    EXPECT_EQ(life.use_count(), 2);
  }
  EXPECT_EQ(life.use_count(), 1);
  EXPECT_EQ(*life, 0);
}

TEST_F(AsioHandler, ManyOperationsOfManyThreadsCompleteOnceEach) {
  constexpr int kThreads = 3;
  constexpr int kEach = 400;
  asio::thread_pool pool(2);
  std::atomic<int> scheduled{0};
  std::atomic<int> cancelled{0};
  std::vector<std::thread> callers;
  for (int number = 0; number < kThreads; ++number) {
    callers.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        async_schedule(
            pool.get_executor(), engine(), in_an_hour(), [&](error_code error, TaskId id) {
              scheduled += error ? 0 : 1;
              async_cancel(pool.get_executor(), engine(), id, [&](error_code, Change change) {
                cancelled += change ? 1 : 0;
              });
            });
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  pool.join();
  EXPECT_EQ(scheduled, kThreads * kEach);
  EXPECT_EQ(cancelled, kThreads * kEach);
  EXPECT_EQ(engine().stats().pending, 0U);
  EXPECT_EQ(engine().check_invariants(), "");
}

// Handlers of tasks on an executor of Asio.
template <class Executor>
std::thread::id where_a_task_runs(const Executor& executor) {
  AsioExecutor adapter(executor, 1);
  Result<std::unique_ptr<Engine>> engine = Engine::create({}, {.executor = &adapter});
  EXPECT_TRUE(engine.ok());
  std::promise<std::thread::id> where;
  EXPECT_TRUE((*engine)
                  ->on("test",
                       [&](Delivery delivery) {
                         EXPECT_TRUE(delivery.done().ok());
                         where.set_value(std::this_thread::get_id());
                       })
                  .ok());
  EXPECT_TRUE((*engine)->start().ok());
  EXPECT_TRUE((*engine)->schedule({.type = "test", .deadline = after(0s)}).ok());
  return where.get_future().get();
}

TEST(AsioExecutor, TasksRunOnAnyExecutor) {
  asio::io_context io;
  auto work = asio::make_work_guard(io);
  std::thread thread([&] { io.run(); });
  const std::thread::id there = thread.get_id();
  EXPECT_EQ(where_a_task_runs(io.get_executor()), there);
  EXPECT_EQ(where_a_task_runs(asio::make_strand(io)), there);
  EXPECT_EQ(where_a_task_runs(asio::any_io_executor(io.get_executor())), there);
  work.reset();
  thread.join();
}

TEST(AsioExecutor, IsWorkForItsContextWhileItLives) {
  asio::io_context io;
  {
    AsioExecutor adapter(io.get_executor(), 1);
    EXPECT_EQ(io.poll(), 0U);
    EXPECT_FALSE(io.stopped());
  }
  EXPECT_EQ(io.run(), 0U);
}

}  // namespace
}  // namespace countwheel
