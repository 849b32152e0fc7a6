// The wheels of the textbooks that the benchmarks compare ours with: a comparison with something
// that is wrong would say nothing. The libraries are checked likewise by timer_peers_check, which
// is built where they are.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "peers/cascading_wheel.h"
#include "peers/hashed_wheel.h"
#include "peers/peer_oracle.h"
#include "peers/priority_queue_timers.h"

namespace countwheel::bench {
namespace {

std::uint64_t seed() {
  const char* const text = std::getenv("COUNTWHEEL_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

TEST(TextbookWheels, HashedWheelExpiresWhatAMultimapDoes) {
  EXPECT_EQ(differs_from_multimap<HashedWheel>(seed(), 400), "");
}

TEST(TextbookWheels, CascadingWheelExpiresWhatAMultimapDoes) {
  EXPECT_EQ(differs_from_multimap<CascadingWheel>(seed(), 400), "");
}

TEST(TextbookWheels, PriorityQueueWithLazyDeletionExpiresWhatAMultimapDoes) {
  EXPECT_EQ(differs_from_multimap<PriorityQueueTimers>(seed(), 400), "");
}

TEST(TextbookWheels, CascadeMovesAFullHourInOneTick) {
  constexpr std::uint32_t kTimers = 1000;
  constexpr std::int64_t kHour = 3'600'000'000'000;
  CascadingWheel wheel(kTimers);
  for (std::uint32_t i = 0; i < kTimers; ++i) {
    wheel.schedule(i, 2 * kHour + i * 3'000'000'000LL);
  }
  wheel.advance(2 * kHour - kPeerTickNs);
  EXPECT_EQ(wheel.moved_max(), 0U);
  wheel.advance(2 * kHour);
  EXPECT_EQ(wheel.moved_max(), kTimers);
}

}  // namespace
}  // namespace countwheel::bench
