// Reading recordings of Bitstamp. The real file is not in the repository: name it in
// COUNTWHEEL_BITSTAMP_FILE and its facts are checked too.
#include "tools/drill/bitstamp.h"

#include <cstdlib>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace countwheel::drill {
namespace {

constexpr char kHeader[] = "id,timestamp,exchange.timestamp,price,volume,action,direction\n";

Result<Flow> read(const std::string& text, RecordingFacts* facts, std::uint64_t limit = 1'000'000) {
  std::istringstream input(text);
  CsvReader reader(input, "orders.csv");
  return read_bitstamp(reader, limit, facts);
}

TEST(Bitstamp, AFillHasNothingLeftAndACancelHas) {
  RecordingFacts facts;
  const Result<Flow> flow = read(std::string(kHeader) +
                                     "1,1000,1000,236.47,500,created,bid\n"
                                     "2,1500,1500,236.50,700,created,ask\n"
                                     "1,2000,2000,236.47,0,deleted,bid\n"
                                     "2,2500,2500,236.50,700,deleted,ask\n",
                                 &facts);
  ASSERT_TRUE(flow.ok()) << flow.status().text();
  ASSERT_EQ(flow->orders.size(), 2U);
  EXPECT_EQ(flow->orders[0].end, LifeEnd::kFill);
  EXPECT_EQ(flow->orders[0].arrive_ns, 0);
  EXPECT_EQ(flow->orders[0].end_ns, 1'000'000'000);
  EXPECT_TRUE(flow->orders[0].buy);
  EXPECT_EQ(flow->orders[1].end, LifeEnd::kCancel);
  EXPECT_EQ(flow->orders[1].arrive_ns, 500'000'000);
  EXPECT_EQ(flow->orders[1].price, 236'500'000'000);
  EXPECT_EQ(facts.fill_count, 1U);
  EXPECT_EQ(facts.cancel_count, 1U);
}

TEST(Bitstamp, TheFirstOfTwoDeletionsCounts) {
  RecordingFacts facts;
  const Result<Flow> flow = read(
      "1,1000,0,10,500,created,bid\n"
      "1,2000,0,10,500,deleted,bid\n"
      "1,3000,0,10,0,deleted,bid\n",
      &facts);
  ASSERT_TRUE(flow.ok()) << flow.status().text();
  EXPECT_EQ(flow->orders[0].end, LifeEnd::kCancel);
  EXPECT_EQ(flow->orders[0].end_ns, 1'000'000'000);
  EXPECT_EQ(facts.repeated_end_count, 1U);
  EXPECT_EQ(facts.cancel_count, 1U);
  EXPECT_EQ(facts.fill_count, 0U);
}

TEST(Bitstamp, OrdersFromBeforeTheFileAreCountedAndLeftOut) {
  RecordingFacts facts;
  const Result<Flow> flow = read(
      "9,1000,0,10,500,deleted,bid\n"
      "8,1000,0,10,400,changed,bid\n"
      "9,1010,0,10,500,created,bid\n"
      "1,1020,0,10,500,created,ask\n",
      &facts);
  ASSERT_TRUE(flow.ok()) << flow.status().text();
  EXPECT_EQ(flow->orders.size(), 1U);
  EXPECT_EQ(flow->orders[0].end, LifeEnd::kRests);
  EXPECT_EQ(facts.earlier_count, 2U);
  EXPECT_EQ(facts.id_count, 3U);
}

TEST(Bitstamp, AChangeIsAPartialFill) {
  RecordingFacts facts;
  const Result<Flow> flow = read(
      "1,1000,0,10,500,created,bid\n"
      "1,1100,0,10,300,changed,bid\n"
      "1,1200,0,10,400,changed,bid\n",
      &facts);
  ASSERT_TRUE(flow.ok()) << flow.status().text();
  ASSERT_EQ(flow->reductions.size(), 1U);  // More than before is not a fill.
  EXPECT_EQ(flow->reductions[0].quantity, 200);
  EXPECT_EQ(flow->reductions[0].at_ns, 100'000'000);
  EXPECT_TRUE(flow->reductions[0].traded);
}

TEST(Bitstamp, ALimitLeavesLaterOrdersOut) {
  RecordingFacts facts;
  const Result<Flow> flow = read(
      "1,1000,0,10,500,created,bid\n"
      "2,2000,0,10,500,created,bid\n"
      "3,90000,0,10,500,created,bid\n",
      &facts,
      2);
  ASSERT_TRUE(flow.ok()) << flow.status().text();
  EXPECT_EQ(flow->orders.size(), 2U);
  EXPECT_EQ(flow->close_ns, 2'000'000'000);
}

TEST(Bitstamp, BadLinesNameFileAndLine) {
  const struct {
    const char* line;
    const char* what;
  } kCases[] = {
      {"1,1000,0,10,500,created", "7 fields"},
      {"1,1000,0,10,500,created,bid,", "7 fields"},
      {"x,1000,0,10,500,created,bid", "an id"},
      {"1,-5,0,10,500,created,bid", "milliseconds"},
      {"1,99999999999999,0,10,500,created,bid", "milliseconds"},
      {"1,1000,0,ten,500,created,bid", "a price"},
      {"1,1000,0,10,-1,created,bid", "volume"},
      {"1,1000,0,10,1e3,created,bid", "volume"},
      {"1,1000,0,10,500,invented,bid", "action"},
      {"1,1000,0,10,500,created,up", "direction"},
  };
  for (const auto& bad : kCases) {
    const Result<Flow> flow =
        read(std::string(kHeader) + "1,1000,0,10,500,created,bid\n\n" + bad.line + "\n", nullptr);
    ASSERT_FALSE(flow.ok()) << bad.line;
    EXPECT_EQ(flow.code(), Code::kInvalidArgument);
    EXPECT_NE(flow.status().text().find("orders.csv:4: "), std::string::npos)
        << flow.status().text();
    EXPECT_NE(flow.status().text().find(bad.what), std::string::npos) << flow.status().text();
  }
}

TEST(Bitstamp, AFileWithoutOrdersIsRefused) {
  EXPECT_FALSE(read(kHeader, nullptr).ok());
  EXPECT_FALSE(read("", nullptr).ok());
}

TEST(Bitstamp, AMissingFileIsNamed) {
  CsvReader reader("/nowhere/orders.csv");
  const Result<Flow> flow = read_bitstamp(reader, 1, nullptr);
  ASSERT_FALSE(flow.ok());
  EXPECT_EQ(flow.code(), Code::kNotFound);
  EXPECT_NE(flow.status().text().find("/nowhere/orders.csv"), std::string::npos);
}

TEST(Bitstamp, TheRealFileHasItsKnownFacts) {
  const char* path = std::getenv("COUNTWHEEL_BITSTAMP_FILE");
  if (path == nullptr) {
    GTEST_SKIP() << "COUNTWHEEL_BITSTAMP_FILE names no file";
  }
  CsvReader reader(path);
  RecordingFacts facts;
  const Result<Flow> flow = read_bitstamp(reader, 1'000'000, &facts);
  ASSERT_TRUE(flow.ok()) << flow.status().text();
  EXPECT_EQ(facts.event_count, 50'414U);
  EXPECT_EQ(facts.id_count, 25'076U);
  EXPECT_EQ(facts.fill_count + facts.cancel_count, 24'897U);
  EXPECT_EQ(facts.fill_count, 580U);
  EXPECT_EQ(facts.cancel_count, 24'317U);
  EXPECT_EQ(facts.repeated_end_count, 21U);
  EXPECT_EQ(facts.earlier_count, 187U);
  EXPECT_EQ(flow->orders.size(), 25'076U - 187U);
  // 1.3 % of the orders were changed on their way.
  EXPECT_NEAR(static_cast<double>(facts.reduction_count) / 24'889.0, 0.02, 0.01);
}

}  // namespace
}  // namespace countwheel::drill
