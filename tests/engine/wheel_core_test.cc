// WheelCore on another home: one like the engine's, where nodes lie elsewhere, a reschedule inserts
// a new entry, and cancels and moves come from other threads at any moment.
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <countwheel/wheel_core.h>

#include "wheel_testing.h"

namespace countwheel::testing {
namespace {

class TableHome {
 public:
  static constexpr bool kLazyMoves = false;

  explicit TableHome(std::size_t count) : nodes_(count) {}

  std::int64_t deadline_of(std::uint32_t index) const noexcept {
    if (unsteady_ && ++questions_ % 5 == 0) {
      const_cast<TableHome*>(this)->interfere(index);
    }
    return nodes_[index].deadline_ns;
  }
  std::uint64_t sequence_of(std::uint32_t index) const noexcept { return nodes_[index].sequence; }
  std::int64_t slack_of(std::uint32_t) const noexcept { return 0; }
  std::size_t live_count() const noexcept { return live_; }
  void prefetch(std::uint32_t index) const noexcept { __builtin_prefetch(&nodes_[index]); }

  void set(std::uint32_t index, std::int64_t deadline_ns) {
    live_ += nodes_[index].deadline_ns == kNotAlive ? 1U : 0U;
    nodes_[index] = {deadline_ns, ++sequence_};
  }
  void clear(std::uint32_t index) {
    live_ -= nodes_[index].deadline_ns == kNotAlive ? 0U : 1U;
    nodes_[index].deadline_ns = kNotAlive;
  }
  bool is_live(std::uint32_t index) const { return nodes_[index].deadline_ns != kNotAlive; }
  std::size_t size() const { return nodes_.size(); }

  // From now on every fifth question finds the node cancelled or moved just before. Moves are
  // remembered: their entries arrive later, as they do from another thread.
  void set_unsteady(bool unsteady) { unsteady_ = unsteady; }
  std::vector<std::pair<std::uint32_t, std::int64_t>> take_moves() {
    return std::exchange(moves_, {});
  }

 private:
  struct Node {
    std::int64_t deadline_ns = kNotAlive;
    std::uint64_t sequence = 0;
  };

  void interfere(std::uint32_t index) {
    if (nodes_[index].deadline_ns == kNotAlive) {
      return;
    }
    if (questions_ % 2 == 0) {
      clear(index);
    } else {
      set(index, nodes_[index].deadline_ns + static_cast<std::int64_t>(questions_ % 7) * kTick);
      moves_.push_back({index, nodes_[index].deadline_ns});
    }
  }

  std::vector<Node> nodes_;
  std::size_t live_ = 0;
  std::uint64_t sequence_ = 0;
  bool unsteady_ = false;
  mutable std::uint64_t questions_ = 0;
  std::vector<std::pair<std::uint32_t, std::int64_t>> moves_;
};

std::vector<CoreDue> advance(WheelCore<TableHome>& core, TableHome& home, std::int64_t now_ns) {
  std::vector<CoreDue> all;
  core.advance(
      now_ns,
      [&](std::span<const CoreDue> batch) {
        for (const CoreDue& due : batch) {
          all.push_back(due);
          home.clear(due.index);
        }
      },
      std::numeric_limits<std::size_t>::max());
  return all;
}

TEST(WheelCore, MovesInsertAndOldEntriesAreDropped) {
  TableHome home(4);
  WheelCore<TableHome> core({}, 0, home);
  for (const std::int64_t deadline_ns : {5 * kSecond, 9 * kSecond, 2 * kSecond, 7 * kSecond}) {
    home.set(0, deadline_ns);
    core.insert(0, deadline_ns);
  }
  EXPECT_EQ(core.counters().entry_count, 4U);
  EXPECT_EQ(core.next_deadline(), 7 * kSecond);
  EXPECT_TRUE(advance(core, home, 7 * kSecond - 1).empty());
  const std::vector<CoreDue> due = advance(core, home, 7 * kSecond);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].deadline_ns, 7 * kSecond);
  EXPECT_TRUE(advance(core, home, kHour).empty());
  EXPECT_EQ(core.counters().entry_count, 0U);
  EXPECT_EQ(core.next_deadline(), kNothingPending);
  EXPECT_EQ(core.next_wake(), kNothingPending);
}

// What DECISIONS of the log call a failure with backoff: the first entry must not start it early.
TEST(WheelCore, FailureWithBackoffDoesNotStartEarly) {
  TableHome home(1);
  WheelCore<TableHome> core({}, 0, home);
  home.set(0, kSecond);
  core.insert(0, kSecond);
  core.insert(0, kSecond);  // A slot used again for the same shared deadline.
  EXPECT_EQ(advance(core, home, kSecond).size(), 1U);
  home.set(0, kSecond + 300 * kMs);
  core.insert(0, kSecond + 300 * kMs);
  EXPECT_TRUE(advance(core, home, kSecond + 300 * kMs - 1).empty());
  EXPECT_EQ(advance(core, home, kSecond + 300 * kMs).size(), 1U);
  EXPECT_TRUE(advance(core, home, kHour).empty());
}

TEST(WheelCore, EverySequenceOfMovesAgainstAMap) {
  constexpr std::size_t kCount = 300;
  std::mt19937_64 random(wheel_seed(11));
  TableHome home(kCount);
  WheelCore<TableHome> core({}, 0, home);
  std::map<std::pair<std::int64_t, std::uint64_t>, std::uint32_t> pending;
  std::vector<std::pair<std::int64_t, std::uint64_t>> orders(kCount);
  std::uint64_t sequence = 0;
  std::int64_t now_ns = 0;
  std::uint64_t expired = 0;
  for (int step = 0; step < 200'000; ++step) {
    const auto index = static_cast<std::uint32_t>(random() % kCount);
    switch (random() % 8) {
      case 0:
        home.clear(index);
        pending.erase(orders[index]);
        break;
      case 1: {
        now_ns += static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(kSecond));
        for (const CoreDue& due : advance(core, home, now_ns)) {
          ASSERT_FALSE(pending.empty());
          ASSERT_EQ(pending.begin()->second, due.index);
          ASSERT_EQ(pending.begin()->first.first, due.deadline_ns);
          ASSERT_LE(due.deadline_ns, now_ns);
          pending.erase(pending.begin());
          ++expired;
        }
        ASSERT_TRUE(pending.empty() || pending.begin()->first.first > now_ns);
        break;
      }
      default: {
        // Few distinct moments, so that instants are shared and entries repeat.
        const auto slots = static_cast<std::int64_t>(random() % 4'000);
        const std::int64_t deadline_ns = (now_ns / kSecond + slots % 64 * (slots / 64)) * kSecond;
        pending.erase(orders[index]);
        home.set(index, deadline_ns);
        orders[index] = {deadline_ns, ++sequence};
        pending[orders[index]] = index;
        core.insert(index, deadline_ns);
      }
    }
    if (step % 5'003 == 0) {
      std::string why;
      ASSERT_TRUE(core.check_invariants(&why)) << why;
    }
  }
  EXPECT_GT(expired, 1'000U);
  EXPECT_LE(core.counters().dead_count, home.live_count() + 64 * 1024);
}

// No answer of the home holds until the next question, and still: nothing early, nothing twice,
// nothing lost that was not cancelled.
TEST(WheelCore, HomeChangesBetweenAnyTwoQuestions) {
  constexpr std::uint32_t kCount = 20'000;
  std::mt19937_64 random(wheel_seed(12));
  TableHome home(kCount);
  WheelCore<TableHome> core({}, 0, home);
  for (std::uint32_t index = 0; index < kCount; ++index) {
    const std::int64_t deadline_ns = static_cast<std::int64_t>(random() % 8) * kHour +
                                     static_cast<std::int64_t>(random() % 1'000) * kTick;
    home.set(index, deadline_ns);
    core.insert(index, deadline_ns);
  }
  home.set_unsteady(true);
  std::uint64_t expired = 0;
  for (std::int64_t now_ns = 0; now_ns < 9 * kHour; now_ns += 50 * kMs) {
    core.advance(
        now_ns,
        [&](std::span<const CoreDue> batch) {
          for (const CoreDue& due : batch) {
            ASSERT_LE(due.deadline_ns, now_ns);
            if (home.is_live(due.index)) {
              home.clear(due.index);
              ++expired;
            }
          }
        },
        1'000);
    for (const auto& [index, deadline_ns] : home.take_moves()) {
      core.insert(index, deadline_ns);
    }
  }
  home.set_unsteady(false);
  for (std::int64_t now_ns = 9 * kHour; core.counters().entry_count > 0; now_ns += kHour) {
    expired += advance(core, home, now_ns).size();
    for (const auto& [index, deadline_ns] : home.take_moves()) {
      core.insert(index, deadline_ns);
    }
    ASSERT_LT(now_ns, kDay);
  }
  EXPECT_EQ(home.live_count(), 0U);
  EXPECT_GT(expired, kCount / 10);
  std::string why;
  EXPECT_TRUE(core.check_invariants(&why)) << why;
}

}  // namespace
}  // namespace countwheel::testing
