// The macros and the function are two copies of one number, and must stay so.
#include <string>

#include <gtest/gtest.h>

#include <countwheel/version.h>

namespace countwheel {
namespace {

TEST(Version, CompiledIsLinked) {
  EXPECT_EQ(version(), COUNTWHEEL_VERSION);
}

TEST(Version, NumbersMakeTheText) {
  const std::string text = std::to_string(COUNTWHEEL_VERSION_MAJOR) + "." +
                           std::to_string(COUNTWHEEL_VERSION_MINOR) + "." +
                           std::to_string(COUNTWHEEL_VERSION_PATCH);
  EXPECT_EQ(text, COUNTWHEEL_VERSION);
}

}  // namespace
}  // namespace countwheel
