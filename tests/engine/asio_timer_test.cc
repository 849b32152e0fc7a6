// countwheel::timer: what it shares with steady_timer is tested on both, by the same tests.
//
// Time is real here, since the wheel sleeps with Asio's own timer; the tests wait milliseconds for
// what must happen and compare with the clock only in the direction that no load can spoil.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include <countwheel/asio.h>

#include "testing/threaded_engine.h"

namespace countwheel {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using testing::eventually;

// -- Both timers --

template <class Timer>
class DropIn : public ::testing::Test {
 protected:
  // Notes `name` and how the wait ended.
  auto note(std::string name) {
    return [this, name = std::move(name)](error_code error) {
      heard_.push_back(name + (error == asio::error::operation_aborted ? " aborted"
                               : error                                 ? " failed"
                                                                       : ""));
    };
  }
  using Strings = std::vector<std::string>;

  asio::io_context io_;
  Strings heard_;
};

using BothTimers = ::testing::Types<timer, asio::steady_timer>;
TYPED_TEST_SUITE(DropIn, BothTimers);

TYPED_TEST(DropIn, TimersExpireInTheOrderOfTheirDeadlines) {
  const Clock::time_point now = Clock::now();
  TypeParam third(this->io_, now + 3ms);
  TypeParam first(this->io_, now + 1ms);
  TypeParam second(this->io_, now + 2ms);
  TypeParam past(this->io_, now - 1h);
  third.async_wait(this->note("third"));
  first.async_wait(this->note("first"));
  second.async_wait(this->note("second"));
  past.async_wait(this->note("past"));
  std::this_thread::sleep_until(now + 3ms);  // All are due: the order is the wheel's alone.
  this->io_.run();
  EXPECT_EQ(this->heard_, (std::vector<std::string>{"past", "first", "second", "third"}));
}

TYPED_TEST(DropIn, NothingExpiresEarly) {
  for (const Clock::duration delay : {Clock::duration(1),
                                      Clock::duration(1us),
                                      Clock::duration(1ms),
                                      Clock::duration(9'999'999)}) {
    TypeParam timer(this->io_);
    timer.expires_after(delay);
    bool expired = false;
    timer.async_wait([&](error_code error) {
      EXPECT_FALSE(error);
      EXPECT_GE(Clock::now(), timer.expiry());
      expired = true;
    });
    this->io_.restart();
    this->io_.run();
    EXPECT_TRUE(expired);
  }
}

TYPED_TEST(DropIn, TimerWithoutAnExpiryHasExpired) {
  TypeParam timer(this->io_);
  EXPECT_EQ(timer.expiry(), Clock::time_point());
  timer.async_wait(this->note("at once"));
  this->io_.run();
  EXPECT_EQ(this->heard_, (std::vector<std::string>{"at once"}));
}

TYPED_TEST(DropIn, CancelAnswersHowManyWaited) {
  TypeParam timer(this->io_, 1h);
  EXPECT_EQ(timer.cancel(), 0U);
  EXPECT_EQ(timer.cancel_one(), 0U);
  timer.async_wait(this->note("a"));
  timer.async_wait(this->note("b"));
  timer.async_wait(this->note("c"));
  EXPECT_EQ(timer.cancel_one(), 1U);
  EXPECT_EQ(timer.cancel(), 2U);
  EXPECT_TRUE(this->heard_.empty()) << "posted, not called";
  this->io_.run();
  EXPECT_EQ(this->heard_, (std::vector<std::string>{"a aborted", "b aborted", "c aborted"}));
  EXPECT_EQ(timer.cancel(), 0U);
}

TYPED_TEST(DropIn, SettingAgainCancels) {
  TypeParam timer(this->io_, 1h);
  timer.async_wait(this->note("old"));
  EXPECT_EQ(timer.expires_after(1ms), 1U);
  timer.async_wait(this->note("new"));
  this->io_.run();
  EXPECT_EQ(this->heard_, (std::vector<std::string>{"old aborted", "new"}));
  EXPECT_EQ(timer.expires_at(Clock::now()), 0U) << "too late: the handlers have been called";
}

TYPED_TEST(DropIn, TimerThatWaitsForeverOnlyEndsByCancel) {
  TypeParam timer(this->io_, Clock::time_point::max());
  timer.async_wait(this->note("woken"));
  TypeParam beyond(this->io_);
  beyond.expires_after(Clock::duration::max());
  EXPECT_EQ(beyond.expiry(), Clock::time_point::max());
  TypeParam other(this->io_, 1ms);
  other.async_wait([&](error_code) { timer.cancel_one(); });
  this->io_.run();
  EXPECT_EQ(this->heard_, (std::vector<std::string>{"woken aborted"}));
}

TYPED_TEST(DropIn, TimerThatIsDestroyedAbortsItsWaits) {
  std::optional<TypeParam> timer(std::in_place, this->io_, 1h);
  timer->async_wait(this->note("a"));
  timer->async_wait(this->note("b"));
  timer.reset();
  this->io_.run();
  EXPECT_EQ(this->heard_, (std::vector<std::string>{"a aborted", "b aborted"}));
}

TYPED_TEST(DropIn, WaitsMoveWithTheirTimer) {
  TypeParam from(this->io_, 1ms);
  from.async_wait(this->note("moved"));
  TypeParam to(std::move(from));
  EXPECT_EQ(from.cancel(), 0U);  // NOLINT(bugprone-use-after-move): it is as if newly constructed.
  TypeParam target(this->io_, 1h);
  target.async_wait(this->note("target"));
  target = std::move(to);
  from.expires_after(0ms);
  from.async_wait(this->note("again"));
  this->io_.run();
  std::sort(this->heard_.begin(), this->heard_.end());
  EXPECT_EQ(this->heard_, (std::vector<std::string>{"again", "moved", "target aborted"}));
}

TYPED_TEST(DropIn, SlotCancelsItsWaitAndNoOther) {
  TypeParam timer(this->io_, 2ms);
  asio::cancellation_signal signal;
  timer.async_wait(this->note("first"));
  timer.async_wait(asio::bind_cancellation_slot(signal.slot(), this->note("slot")));
  timer.async_wait(this->note("last"));
  signal.emit(asio::cancellation_type::total);
  this->io_.run();
  EXPECT_EQ(this->heard_, (std::vector<std::string>{"slot aborted", "first", "last"}));
  signal.emit(asio::cancellation_type::total);
  this->io_.restart();
  EXPECT_EQ(this->io_.poll(), 0U);
}

TYPED_TEST(DropIn, HandlersOfAContextThatGoesAwayAreDestroyed) {
  auto life = std::make_shared<int>(0);
  {
    asio::io_context io;
    auto owned = std::make_shared<TypeParam>(io, 1h);
    owned->async_wait([life, owned](error_code) { ++*life; });
    auto posted = std::make_shared<TypeParam>(io, 1h);
    posted->async_wait([life, posted](error_code) { ++*life; });
    posted->cancel();
    EXPECT_EQ(life.use_count(), 3);
  }
  EXPECT_EQ(life.use_count(), 1);
  EXPECT_EQ(*life, 0);
}

TYPED_TEST(DropIn, RunReturnsWhenTheLastWaitIsCancelled) {
  TypeParam timer(this->io_, 1h);
  timer.async_wait(this->note("hour"));
  this->io_.poll();  // It sleeps for an hour now, and the other comes first all the same.
  TypeParam other(this->io_, 1ms);
  other.async_wait([&](error_code) { timer.cancel(); });
  const Clock::time_point begin = Clock::now();
  this->io_.run();
  EXPECT_LT(Clock::now() - begin, 10min);
  EXPECT_EQ(this->heard_, (std::vector<std::string>{"hour aborted"}));
}

TYPED_TEST(DropIn, TimerWhoseWaitWasCancelledWaitsAgain) {
  TypeParam timer(this->io_, 1ms);
  timer.async_wait(this->note("cancelled"));
  timer.cancel();
  TypeParam other(this->io_, 2ms);
  other.async_wait([&](error_code) { timer.async_wait(this->note("again")); });
  this->io_.run();
  EXPECT_EQ(this->heard_, (std::vector<std::string>{"cancelled aborted", "again"}));
}

TYPED_TEST(DropIn, CoroutineWaits) {
  using Awaitable = asio::use_awaitable_t<>;
  int step = 0;
  asio::co_spawn(
      this->io_,
      [&]() -> asio::awaitable<void> {
        TypeParam plain(co_await asio::this_coro::executor, 1ms);
        co_await plain.async_wait(asio::use_awaitable);
        ++step;
        Awaitable::as_default_on_t<TypeParam> by_default(this->io_, 1ms);
        co_await by_default.async_wait();
        ++step;
        auto converted = asio::use_awaitable.as_default_on(TypeParam(this->io_, 1ms));
        co_await converted.async_wait();
        ++step;
      },
      asio::detached);
  this->io_.run();
  EXPECT_EQ(step, 3);
}

// -- Ours --

TEST(Timer, AHundredThousandSettingsLeaveOneExpiry) {
  asio::io_context io;
  timer heartbeat(io);
  int expired = 0;
  std::size_t cancelled = 0;
  for (int i = 0; i < 100'000; ++i) {
    cancelled += heartbeat.expires_after(i == 99'999 ? 1ms : 30s);
    heartbeat.async_wait([&](error_code error) { expired += error ? 0 : 1; });
    if (i % 1000 == 0) {
      io.poll();
    }
  }
  io.run();
  EXPECT_EQ(expired, 1);
  EXPECT_EQ(cancelled, 99'999U);
}

TEST(Timer, TwentyThousandTimersExpireInOrderAndNeverEarly) {
  constexpr std::size_t kCount = 20'000;
  std::minstd_rand random(7);
  asio::io_context io;
  std::vector<timer> timers;
  timers.reserve(kCount);
  std::size_t expired = 0;
  std::size_t early = 0;
  std::size_t disordered = 0;
  Clock::time_point last = Clock::time_point::min();
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = 0; i < kCount; ++i) {
    timer& added = timers.emplace_back(io, begin + std::chrono::microseconds(random() % 200'000));
    added.async_wait([&, expiry = added.expiry()](error_code error) {
      expired += error ? 0U : 1U;
      early += !error && Clock::now() < expiry ? 1U : 0U;
      disordered += expiry < last && !error ? 1U : 0U;
      last = error ? last : expiry;
    });
    if (i % 4 == 0) {
      added.cancel();
    }
  }
  io.run();
  EXPECT_EQ(expired, kCount - kCount / 4);
  EXPECT_EQ(early, 0U);
  EXPECT_EQ(disordered, 0U);
}

TEST(Timer, StrandOfTheFirstTimerDoesNotHoldUpOthers) {
  asio::thread_pool pool(2);
  const auto strand = asio::make_strand(pool);
  std::atomic<bool> freed{false};
  timer in_strand(strand, 1h);
  in_strand.async_wait([](error_code) {});
  asio::post(strand, [&] { EXPECT_TRUE(eventually([&] { return freed.load(); })); });
  timer other(pool, 1ms);
  other.async_wait([&](error_code) { freed = true; });
  EXPECT_TRUE(eventually([&] { return freed.load(); }));
  in_strand.cancel();
  pool.join();
}

TEST(Timer, HandlerRunsInTheStrandOfItsTimer) {
  asio::thread_pool pool(2);
  const auto strand = asio::make_strand(pool);
  std::atomic<int> outside{0};
  std::vector<std::unique_ptr<timer>> timers;
  for (int i = 0; i < 100; ++i) {
    timers.push_back(std::make_unique<timer>(strand, 1ms));
    timers.back()->async_wait(
        [&](error_code) { outside += strand.running_in_this_thread() ? 0 : 1; });
  }
  pool.join();
  EXPECT_EQ(outside, 0);
}

TEST(Timer, HandlerRunsOnItsOwnExecutorAndBothContextsHaveWork) {
  asio::io_context of_timer;
  asio::io_context of_handler;
  timer wait(of_timer, 1ms);
  bool called = false;
  wait.async_wait(asio::bind_executor(of_handler, [&](error_code) { called = true; }));
  EXPECT_EQ(of_handler.poll(), 0U);
  EXPECT_FALSE(of_handler.stopped());
  of_timer.run();
  EXPECT_FALSE(called);
  EXPECT_EQ(of_handler.run(), 1U);
  EXPECT_TRUE(called);
}

TEST(Timer, WorksOnTheSystemExecutor) {
  basic_timer<asio::system_executor> wait(asio::system_executor(), 1ms);
  wait.async_wait(asio::use_future).get();
  EXPECT_GE(Clock::now(), wait.expiry());
}

TEST(Timer, WaitBlocksUntilTheExpiry) {
  asio::io_context io;
  timer blocking(io, 1ms);
  blocking.wait();
  EXPECT_GE(Clock::now(), blocking.expiry());
}

TEST(Timer, ManyThreadsSetTheirOwnTimers) {
  constexpr int kThreads = 3;
  constexpr int kEach = 3000;
  asio::thread_pool pool(2);
  std::atomic<int> ended{0};
  std::atomic<int> early{0};
  {
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; ++number) {
      threads.emplace_back([&, number] {
        std::minstd_rand random(static_cast<unsigned>(number) + 1);
        std::vector<timer> timers;
        for (int i = 0; i < 16; ++i) {
          timers.emplace_back(pool);
        }
        for (int i = 0; i < kEach; ++i) {
          timer& used = timers[random() % timers.size()];
          used.expires_after(std::chrono::microseconds(random() % 2000));
          used.async_wait([&, expiry = used.expiry()](error_code error) {
            early += !error && Clock::now() < expiry ? 1 : 0;
            ++ended;
          });
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  pool.join();
  EXPECT_EQ(ended, kThreads * kEach);
  EXPECT_EQ(early, 0);
}

TEST(Timer, SlotOfAWaitWhoseTimerIsGoneIsNothing) {
  asio::io_context io;
  asio::cancellation_signal signal;
  int called = 0;
  {
    timer gone(io, 1h);
    gone.async_wait(asio::bind_cancellation_slot(signal.slot(), [&](error_code) { ++called; }));
  }
  timer heir(io, 1h);  // Has the place of the other.
  heir.async_wait([&](error_code) { called += 10; });
  signal.emit(asio::cancellation_type::terminal);
  io.poll();
  EXPECT_EQ(called, 1);
}

}  // namespace
}  // namespace countwheel
