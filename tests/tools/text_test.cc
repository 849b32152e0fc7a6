// Bytes and figures as the tools print them.
#include "tools/text.h"

#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace countwheel::tools {
namespace {

TEST(Text, PrintableBytesStayAndOthersAreEscaped) {
  EXPECT_EQ(escaped(""), "");
  EXPECT_EQ(escaped("order-42"), "order-42");
  EXPECT_EQ(escaped(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(escaped("\x1b[31m\"\\\xff"), "\\x1b[31m\\\"\\\\\\xff");
}

TEST(Text, LongTextIsCutAtTheLimit) {
  EXPECT_EQ(escaped(std::string(64, 'k')), std::string(64, 'k'));
  std::string shortened(61, 'k');
  shortened.append(3, '.');
  EXPECT_EQ(escaped(std::string(65, 'k')), shortened);
  for (std::size_t length = 0; length < 80; ++length) {
    EXPECT_LE(escaped(std::string(length, '\n')).size(), 64U);
    std::string text(length, 'x');
    text.append(3, '\n');
    EXPECT_LE(escaped(text).size(), 64U);
  }
  // No escape is cut in half.
  EXPECT_EQ(escaped(std::string(20, '\n'), 16), "\\x0a\\x0a\\x0a...");
}

TEST(Text, HexHasTwoDigitsAByte) {
  EXPECT_EQ(hex(std::string_view("\x00\x7f\xff", 3)), "007fff");
}

TEST(Text, IdsAreReadInHexadecimal) {
  EXPECT_EQ(parse_id("0000000100000002"), 0x100000002U);
  EXPECT_EQ(parse_id("0x1f"), 0x1fU);
  EXPECT_EQ(parse_id("ffffffffffffffff"), std::numeric_limits<std::uint64_t>::max());
  for (const char* nonsense : {"", "0x", "g", "1 ", "-1", "10000000000000000"}) {
    EXPECT_FALSE(parse_id(nonsense).has_value()) << nonsense;
  }
}

TEST(Text, MomentsAreIso8601InUtc) {
  EXPECT_EQ(utc(0), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(utc(1'767'603'600'000'000'001), "2026-01-05T09:00:00.000000001Z");
  EXPECT_EQ(utc(-1), "1969-12-31T23:59:59.999999999Z");
  EXPECT_EQ(utc(std::numeric_limits<std::int64_t>::max()), "2262-04-11T23:47:16.854775807Z");
}

}  // namespace
}  // namespace countwheel::tools
