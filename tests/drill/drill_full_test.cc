// The drill at its full size, as it is shown: 200,000 orders, two kills, every field of the report.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "command.h"

namespace countwheel::drill {
namespace {

double number(const boost::json::object& object, const char* field) {
  const boost::json::value* value = object.if_contains(field);
  EXPECT_NE(value, nullptr) << field;
  return value == nullptr ? -1 : value->to_number<double>();
}

void expect_good(const CommandResult& result) {
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const boost::json::object report = result.json();
  for (const char* field : {"lost", "duplicated", "early", "inconsistent"}) {
    EXPECT_EQ(number(report, field), 0) << field << result.output;
  }
  for (const char* field : {"cancelled", "filled", "expired", "redelivered"}) {
    EXPECT_GT(number(report, field), 0) << field;
  }
  EXPECT_EQ(number(report, "scheduled"),
            number(report, "cancelled") + number(report, "filled") + number(report, "expired") +
                number(report, "unknown"));
  const boost::json::object& lateness = report.at("lateness_us").as_object();
  EXPECT_LE(number(lateness, "p50"), number(lateness, "p99"));
  EXPECT_LE(number(lateness, "p99"), number(lateness, "max"));
  EXPECT_GT(number(report, "durable_ops_per_s"), 0);
  EXPECT_GE(number(report, "elided_share"), 0);
  const boost::json::array& recoveries = report.at("recoveries").as_array();
  ASSERT_EQ(recoveries.size(), 2U);
  for (const boost::json::value& value : recoveries) {
    const boost::json::object& recovery = value.as_object();
    EXPECT_GT(number(recovery, "unacked"), 0);
    EXPECT_GT(number(recovery, "running"), 0);
    EXPECT_GE(number(recovery, "unsynced"), 0);
    EXPECT_GT(number(recovery, "ms"), 0);
    EXPECT_GT(number(recovery, "live"), 0);
  }
}

TEST(DrillFull, TwoHundredThousandOrdersOfEquity) {
  expect_good(
      run_command("drill --preset equity --orders 200000 --kill-at 30%,60% --json 2>/dev/null"));
}

TEST(DrillFull, TheOtherPresets) {
  for (const char* preset : {"crypto", "session-close"}) {
    expect_good(
        run_command(std::string("drill --orders 100000 --json 2>/dev/null --preset ") + preset));
  }
}

TEST(DrillFull, ARealRecording) {
  const char* file = std::getenv("COUNTWHEEL_BITSTAMP_FILE");
  if (file == nullptr) {
    GTEST_SKIP() << "COUNTWHEEL_BITSTAMP_FILE names no file";
  }
  expect_good(run_command(std::string("drill --kill-at 30%,60% --json 2>/dev/null --bitstamp '") +
                          file + "'"));
}

}  // namespace
}  // namespace countwheel::drill
