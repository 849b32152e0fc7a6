// Nonsense is refused by name, with the value given and the values allowed.
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <countwheel/wheel.h>

#include "wheel_testing.h"

namespace countwheel::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WheelOptions, TheDefaultIsLegal) {
  EXPECT_EQ(wheel_options_error({}), "");
}

TEST(WheelOptions, EachNonsenseIsNamed) {
  WheelOptions options;
  options.tick_ns = 0;
  EXPECT_THAT(wheel_options_error(options), AllOf(HasSubstr("tick_ns"), HasSubstr("0")));
  options.tick_ns = -5;
  EXPECT_THAT(wheel_options_error(options), AllOf(HasSubstr("tick_ns"), HasSubstr("-5")));
  options.tick_ns = 50 * kSecond;  // An offset of level 1 would not fit into 32 bits.
  EXPECT_THAT(wheel_options_error(options), AllOf(HasSubstr("tick_ns"), HasSubstr("42949672")));

  options = {};
  options.span[0] = 1;
  EXPECT_THAT(wheel_options_error(options), HasSubstr("span[0] is 1"));
  options = {};
  options.span[1] = 0;
  EXPECT_THAT(wheel_options_error(options), HasSubstr("span[1] is 0"));

  options = {};
  options.ring[0] = 200;
  EXPECT_THAT(wheel_options_error(options), AllOf(HasSubstr("ring[0]"), HasSubstr("power of two")));
  options = {};
  options.ring[0] = 128;
  EXPECT_THAT(wheel_options_error(options), AllOf(HasSubstr("ring[0]"), HasSubstr("200")));
  options = {};
  options.ring[1] = 4096;
  EXPECT_THAT(wheel_options_error(options), AllOf(HasSubstr("ring[1]"), HasSubstr("7200")));
  options = {};
  options.ring[2] = 0;
  EXPECT_THAT(wheel_options_error(options), HasSubstr("ring[2]"));
  options = {};
  options.ring[2] = 1U << 30;
  EXPECT_THAT(wheel_options_error(options), HasSubstr("ring[2]"));

  options = {};
  options.moves_per_tick_max = 0;
  EXPECT_THAT(wheel_options_error(options), HasSubstr("moves_per_tick_max"));
  options = {};
  options.precision = static_cast<Precision>(7);
  EXPECT_THAT(wheel_options_error(options), HasSubstr("precision"));
  options = {};
  options.tick_ns = kSecond;
  options.span = {4, 524'288};
  options.ring = {8, 1U << 20, 4};
  EXPECT_EQ(wheel_options_error(options), "");  // A slot of level 2 is 24 days.
  options.tick_ns = 2 * kSecond;
  options.span = {2, 524'288};
  options.ring[0] = 4;
  EXPECT_EQ(wheel_options_error(options), "");
}

TEST(WheelOptions, OtherTicksAreAsExact) {
  for (const std::int64_t tick_ns : {std::int64_t{1}, std::int64_t{7}, kMs, 42 * kMs}) {
    WheelOptions options;
    options.tick_ns = tick_ns;
    ASSERT_EQ(wheel_options_error(options), "");
    TimingWheel wheel(options, 0);
    std::vector<std::uint64_t> expected;
    for (std::uint64_t i = 0; i < 40; ++i) {
      wheel.schedule((std::int64_t{1} << i) + 3, i);
      expected.push_back(i);
    }
    std::vector<std::uint64_t> values;
    for (std::uint64_t i = 0; i < 40; ++i) {
      const std::int64_t deadline_ns = (std::int64_t{1} << i) + 3;
      EXPECT_TRUE(expire(wheel, deadline_ns - 1).empty());
      const std::vector<Expiry> fired = expire(wheel, deadline_ns);
      ASSERT_EQ(fired.size(), 1U) << "tick " << tick_ns << ", timer " << i;
      values.push_back(fired[0].value);
    }
    EXPECT_EQ(values, expected);
    EXPECT_TRUE(is_intact(wheel));
  }
}

TEST(WheelGeometry, DividesLikeTheMachine) {
  for (const std::uint64_t divisor : std::vector<std::uint64_t>{
           1, 2, 3, 7, 10, 64, 100, 1'000, 3'600, 10'000'000, 1'000'000'000, 3'600'000'000'000}) {
    const detail::Divider divider(divisor);
    for (int shift = 0; shift < 63; ++shift) {
      const std::uint64_t power = std::uint64_t{1} << shift;
      const std::uint64_t multiple = power / divisor * divisor;
      for (const std::uint64_t value :
           {power - 1, power, power + 1, 2 * power - 1, multiple, multiple + divisor - 1}) {
        ASSERT_EQ(divider.divide(value), value / divisor) << value << " / " << divisor;
      }
    }
  }
}

}  // namespace
}  // namespace countwheel::testing
