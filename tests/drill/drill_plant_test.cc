// A service that commits one fault on purpose: the audit must find just that.
#include <string>

#include <gtest/gtest.h>

#include "command.h"

namespace countwheel::drill {
namespace {

class DrillPlant : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(DrillPlant, IsFound) {
  const auto [plant, field] = GetParam();
  const CommandResult result = run_command(
      std::string("drill --preset equity --orders 2000 --speed 60 --kill-at 40% --no-unpaced "
                  "--json --plant ") +
      plant + " 2>/dev/null");
  EXPECT_EQ(result.exit_code, 1) << result.output;
  const boost::json::object report = result.json();
  EXPECT_EQ(report.at("ok"), false);
  EXPECT_EQ(report.at(field).to_number<int>(), 1) << result.output;
  EXPECT_FALSE(report.at("problems").as_array().empty());
}

INSTANTIATE_TEST_SUITE_P(EveryFault,
                         DrillPlant,
                         testing::Values(std::pair("lost", "lost"),
                                         std::pair("dup", "duplicated"),
                                         std::pair("early", "early"),
                                         std::pair("revive", "revived")),
                         [](const auto& fault) { return std::string(fault.param.first); });

}  // namespace
}  // namespace countwheel::drill
