// The wheel inside a host that is built without exceptions and without run-time types.
#include <gtest/gtest.h>

#include "wheel_noexcept_part.h"

namespace countwheel::testing {
namespace {

TEST(WheelNoexcept, RunsWithoutExceptionsAndRunTimeTypes) {
  const NoexceptRun run = run_without_exceptions(10'000);
  EXPECT_EQ(run.scheduled, 10'000U);
  EXPECT_EQ(run.cancelled, 5'000U);
  EXPECT_EQ(run.expired, 5'000U);
  EXPECT_TRUE(run.ordered);
}

}  // namespace
}  // namespace countwheel::testing
