// Small drills with the real command: one kill, the options, and what wrong usage answers.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "command.h"

namespace countwheel::drill {
namespace {

std::uint64_t number(const boost::json::object& object, const char* field) {
  const boost::json::value* value = object.if_contains(field);
  if (value == nullptr || !value->is_number()) {
    ADD_FAILURE() << field << " is missing";
    return 0;
  }
  return value->to_number<std::uint64_t>();
}

void expect_kept(const boost::json::object& report) {
  for (const char* field : {"lost", "duplicated", "early", "inconsistent"}) {
    EXPECT_EQ(number(report, field), 0U)
        << field << ": " << boost::json::serialize(report.at("problems"));
  }
  EXPECT_EQ(number(report, "scheduled"),
            number(report, "cancelled") + number(report, "filled") + number(report, "expired") +
                number(report, "unknown"));
}

void expect_recovered(const boost::json::object& report, std::size_t kills, bool synced) {
  const boost::json::array& recoveries = report.at("recoveries").as_array();
  ASSERT_EQ(recoveries.size(), kills);
  for (const boost::json::value& value : recoveries) {
    const boost::json::object& recovery = value.as_object();
    EXPECT_GT(number(recovery, "unacked"), 0U);
    EXPECT_GT(number(recovery, "running"), 0U);
    EXPECT_GT(recovery.at("ms").to_number<double>(), 0.0);
    EXPECT_GE(number(recovery, "live"), number(recovery, "pending"));
    EXPECT_LE(number(recovery, "live"),
              number(recovery, "pending") + number(recovery, "uncertain"));
    if (synced) {
      EXPECT_EQ(number(recovery, "unsynced"), 0U);
    }
  }
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = testing::TempDir() + "drill-test-XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Drill, TwoThousandOrdersAndOneKill) {
  const CommandResult result = run_command(
      "drill --preset equity --orders 2000 --speed 60 --kill-at 40% --no-unpaced --json "
      "2>/dev/null");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const boost::json::object report = result.json();
  expect_kept(report);
  expect_recovered(report, 1, true);
  EXPECT_EQ(number(report, "scheduled") + number(report, "never_sent"), 2000U);
  EXPECT_GT(number(report, "cancelled"), 0U);
  EXPECT_GT(number(report, "filled"), 0U);
  EXPECT_GT(number(report, "expired"), 0U);
  EXPECT_GT(number(report, "redelivered"), 0U);
}

TEST(Drill, EveryDurabilityAndPrecisionIsKept) {
  for (const char* options : {"--durability os", "--durability memory", "--precision tick"}) {
    const CommandResult result = run_command(
        std::string("drill --preset crypto --orders 2000 --speed 1000 --kill-at 50% --no-unpaced "
                    "--json 2>/dev/null ") +
        options);
    EXPECT_EQ(result.exit_code, 0) << options << result.output;
    const boost::json::object report = result.json();
    expect_kept(report);
    expect_recovered(report, 1, false);
  }
}

TEST(Drill, AGivenDirectoryIsKeptAndATemporaryOneIsNot) {
  const TemporaryDirectory directory;
  const std::string log = directory.path() + "/log";
  const CommandResult result = run_command(
      "drill --orders 500 --speed 200 --kill-at none --no-unpaced --dir '" + log + "' 2>/dev/null");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("passed"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find(log), std::string::npos) << result.output;
  EXPECT_TRUE(std::filesystem::exists(log));
  EXPECT_FALSE(std::filesystem::exists(log + ".unpaced"));
  EXPECT_EQ(run_command("check '" + log + "' >/dev/null").exit_code, 0);
}

TEST(Drill, ARecordingIsDrilledFromAFileAndFromStandardInput) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/orders.csv";
  std::ofstream out(file);
  out << "id,timestamp,exchange.timestamp,price,volume,action,direction\n";
  for (int i = 0; i < 400; ++i) {
    out << i << "," << 1000 + i * 100 << ",0,236.47,500,created,bid\n";
    if (i >= 20 && i % 4 != 0) {
      out << i - 20 << "," << 1050 + i * 100 << ",0,236.47," << (i % 5 == 0 ? 0 : 500)
          << ",deleted,bid\n";
    }
  }
  out.close();
  const std::string options = " --speed 20 --kill-at none --no-unpaced --json 2>/dev/null";
  for (const std::string& input :
       {"--bitstamp '" + file + "'" + options, "--bitstamp -" + options + " < '" + file + "'"}) {
    const CommandResult result = run_command("drill " + input);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    const boost::json::object report = result.json();
    expect_kept(report);
    EXPECT_EQ(number(report, "scheduled"), 400U);
    EXPECT_GT(number(report, "filled"), 0U);
    EXPECT_GT(number(report, "expired"), 90U);
  }
}

TEST(Drill, WrongUsageExitsWithTwoAndABadFileWithThree) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/bad.csv";
  std::ofstream(file) << "1,2,3\n";
  EXPECT_EQ(run_command("drill --preset gold 2>/dev/null").exit_code, 2);
  EXPECT_EQ(run_command("drill --kill-at 30%,20% 2>/dev/null").exit_code, 2);
  EXPECT_EQ(run_command("drill --kill-at half 2>/dev/null").exit_code, 2);
  EXPECT_EQ(run_command("drill --orders 0 2>/dev/null").exit_code, 2);
  EXPECT_EQ(run_command("drill --preset equity --lobster x 2>/dev/null").exit_code, 2);
  EXPECT_EQ(run_command("drill --lobster /nowhere/file 2>/dev/null").exit_code, 2);
  const CommandResult bad = run_command("drill --bitstamp '" + file + "' 2>&1");
  EXPECT_EQ(bad.exit_code, 3);
  EXPECT_NE(bad.output.find("bad.csv:1: 7 fields"), std::string::npos) << bad.output;
}

}  // namespace
}  // namespace countwheel::drill
