// Anything to anything, a thousand times, and every promise checked (testing/state_machine.h).
//
// COUNTWHEEL_SEED=n runs that seed alone, on threads 50 times; COUNTWHEEL_SEEDS=n so many seeds.
#include "testing/state_machine.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "testing/record_check.h"

namespace countwheel::testing {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kSeeds = 300;
#else
constexpr std::uint64_t kSeeds = 1000;
#endif

std::uint64_t number_from_environment(const char* name, std::uint64_t fallback) {
  const char* given = std::getenv(name);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : fallback;
}

// Empty when all is well; the first line repeats it.
std::string run(std::uint64_t seed) {
  StateMachine machine(plan_of(seed));
  const std::vector<std::string> broken = machine.run();
  if (broken.empty()) {
    return {};
  }
  std::string text = "COUNTWHEEL_SEED=" + std::to_string(seed) +
                     " state_machine_test --gtest_filter='StateMachine.KeepsEveryPromise'\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(broken.size(), 8); ++i) {
    text += "  " + broken[i] + "\n";
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(broken.size(), 2); ++i) {
    if (const std::size_t named = broken[i].find(" task "); named != std::string::npos) {
      const TaskId id{std::strtoull(broken[i].c_str() + named + 6, nullptr, 10)};
      text += "  task " + std::to_string(id.value) + ":\n" + story_of(machine.record(), id);
    }
  }
  return text;
}

TEST(StateMachine, KeepsEveryPromise) {
  if (std::getenv("COUNTWHEEL_SEED") != nullptr) {
    const std::uint64_t seed = number_from_environment("COUNTWHEEL_SEED", 0);
    // Threads meet differently each time.
    for (int repeat = 0; repeat < (plan_of(seed).threads ? 50 : 1); ++repeat) {
      ASSERT_EQ(run(seed), "");
    }
    return;
  }
  const std::uint64_t seeds = number_from_environment("COUNTWHEEL_SEEDS", kSeeds);
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  std::vector<std::string> failed;  // guarded by mutex
  // Those that wait for space to return leave the machine to others.
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t seed = next++; seed < seeds; seed = next++) {
        if (std::string text = run(seed); !text.empty()) {
          const std::lock_guard lock(mutex);
          failed.push_back(std::move(text));
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const std::string& text : failed) {
    ADD_FAILURE() << text;
  }
}

std::ptrdiff_t entries_of(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory),
                       std::filesystem::directory_iterator());
}

TEST(StateMachine, I20_LeavesNoThreadAndNoDescriptor) {
  const std::ptrdiff_t threads = entries_of("/proc/self/task");
  const std::ptrdiff_t descriptors = entries_of("/proc/self/fd");
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    EXPECT_EQ(run(seed), "");
  }
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
}

// What a record says, but for what real time decides: how soon something was synced.
std::string text_of(const Record& record) {
  std::string text;
  for (const Call& call : record.calls) {
    text += std::to_string(call.id.value) + " " + std::string(to_string(call.code)) + " " +
            std::to_string(call.deadline_ns) + " " + call.payload + "\n";
  }
  for (const Attempt& attempt : record.attempts) {
    text += std::to_string(attempt.id.value) + " " + std::to_string(attempt.attempt) + " " +
            std::to_string(attempt.at.boot_ns) + " " + std::to_string(attempt.sequence) + " " +
            std::to_string(attempt.answers.size()) + "\n";
  }
  return text;
}

TEST(StateMachine, I29_SameSeedSameHistory) {
  for (const std::uint64_t seed : {1U, 3U, 5U, 21U}) {
    Plan plan = plan_of(seed);
    ASSERT_FALSE(plan.threads || plan.refuse);
    plan.crash = false;  // what a power failure leaves, real time decides too
    StateMachine first(plan);
    StateMachine second(plan);
    EXPECT_EQ(first.run(), std::vector<std::string>{});
    EXPECT_EQ(second.run(), std::vector<std::string>{});
    EXPECT_EQ(text_of(first.record()), text_of(second.record()));
  }
}

// A machine that never does what it is for proves nothing. Hosts do the same each time.
TEST(StateMachine, DoesEverything) {
  std::uint64_t cancelled = 0;
  std::uint64_t moved = 0;
  std::uint64_t changed = 0;
  std::uint64_t replaced = 0;
  std::uint64_t kept = 0;
  std::uint64_t requeued = 0;
  std::uint64_t stale = 0;
  std::uint64_t late = 0;
  std::uint64_t retried = 0;
  std::uint64_t redelivered = 0;
  std::uint64_t refused = 0;
  for (std::uint64_t seed = 1; seed < 200; seed += 2) {
    StateMachine machine(plan_of(seed));
    EXPECT_EQ(machine.run(), std::vector<std::string>{}) << seed;
    const Record& record = machine.record();
    for (const Call& call : record.calls) {
      cancelled += call.code == Code::kCancelled;
      moved += call.kind == CallKind::kReschedule && call.succeeded();
      changed += call.code == Code::kChanged;
      replaced += call.replaced;
      kept += call.kept;
      requeued += call.kind == CallKind::kRequeue && call.succeeded();
      refused += call.code == Code::kNoSpace || call.settled == Settled::kRefused;
    }
    for (const Attempt& attempt : record.attempts) {
      retried += attempt.attempt > 1;
      redelivered += attempt.attempt > 1 && attempt.life == 1;
      for (const Answer& answer : attempt.answers) {
        stale += answer.code == Code::kStaleLease;
      }
    }
    for (const Look& letter : record.letters) {
      late += letter.reason == DeadReason::kLate;
    }
  }
  for (const std::uint64_t count : {cancelled,
                                    moved,
                                    changed,
                                    replaced,
                                    kept,
                                    requeued,
                                    stale,
                                    late,
                                    retried,
                                    redelivered,
                                    refused}) {
    EXPECT_GT(count, 0U);
  }
  std::printf(
      "%llu cancelled, %llu moved, %llu changed, %llu replaced, %llu kept, %llu requeued, "
      "%llu stale, %llu late, %llu retried, %llu after a crash, %llu refused\n",
      static_cast<unsigned long long>(cancelled),
      static_cast<unsigned long long>(moved),
      static_cast<unsigned long long>(changed),
      static_cast<unsigned long long>(replaced),
      static_cast<unsigned long long>(kept),
      static_cast<unsigned long long>(requeued),
      static_cast<unsigned long long>(stale),
      static_cast<unsigned long long>(late),
      static_cast<unsigned long long>(retried),
      static_cast<unsigned long long>(redelivered),
      static_cast<unsigned long long>(refused));
}

}  // namespace
}  // namespace countwheel::testing
