// Reading recordings in the LOBSTER format.
#include "tools/drill/lobster.h"

#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace countwheel::drill {
namespace {

Result<Flow> read(const std::string& text, RecordingFacts* facts) {
  std::istringstream input(text);
  CsvReader reader(input, "message.csv");
  return read_lobster(reader, 1'000'000, facts);
}

TEST(Lobster, NanosecondsSurvive) {
  const Result<Flow> flow = read(
      "34200.004241176,1,16113575,18,5853300,1\n"
      "34200.004241177,3,16113575,18,5853300,1\n",
      nullptr);
  ASSERT_TRUE(flow.ok()) << flow.status().text();
  EXPECT_EQ(flow->orders[0].end_ns, 1);
  EXPECT_EQ(flow->orders[0].price, 5'853'300);
  EXPECT_EQ(flow->orders[0].quantity, 18);
  EXPECT_TRUE(flow->orders[0].buy);
}

TEST(Lobster, ExecutionsFillAnOrderPieceByPiece) {
  RecordingFacts facts;
  const Result<Flow> flow = read(
      "1.0,1,7,100,10,-1\n"
      "2.0,4,7,40,10,-1\n"
      "3.0,2,7,10,10,-1\n"
      "4.0,4,7,50,10,-1\n",
      &facts);
  ASSERT_TRUE(flow.ok()) << flow.status().text();
  ASSERT_EQ(flow->reductions.size(), 2U);
  EXPECT_EQ(flow->reductions[0].quantity, 40);
  EXPECT_TRUE(flow->reductions[0].traded);
  EXPECT_EQ(flow->reductions[1].quantity, 10);
  EXPECT_FALSE(flow->reductions[1].traded);
  EXPECT_EQ(flow->orders[0].end, LifeEnd::kFill);
  EXPECT_EQ(flow->orders[0].end_ns, 3'000'000'000);
  EXPECT_EQ(facts.fill_count, 1U);
}

TEST(Lobster, HiddenExecutionsCrossesAndHaltsTouchNoOrder) {
  RecordingFacts facts;
  const Result<Flow> flow = read(
      "1.0,1,7,100,10,1\n"
      "2.0,5,0,40,10,1\n"
      "2.5,6,-1,40,10,1\n"
      "3.0,7,0,0,-1,-1\n",
      &facts);
  ASSERT_TRUE(flow.ok()) << flow.status().text();
  EXPECT_EQ(facts.id_count, 1U);
  EXPECT_EQ(flow->orders[0].end, LifeEnd::kRests);
}

TEST(Lobster, OrdersFromBeforeTheFileAreCountedAndLeftOut) {
  RecordingFacts facts;
  const Result<Flow> flow = read(
      "1.0,3,5,100,10,1\n"
      "1.0,4,6,100,10,1\n"
      "2.0,1,7,100,10,1\n",
      &facts);
  ASSERT_TRUE(flow.ok()) << flow.status().text();
  EXPECT_EQ(flow->orders.size(), 1U);
  EXPECT_EQ(facts.earlier_count, 2U);
}

TEST(Lobster, AFirstLineMayNameTheColumns) {
  const Result<Flow> flow = read(
      "time,type,order_id,size,price,direction\n"
      "1.0,1,7,100,10,1\n",
      nullptr);
  EXPECT_TRUE(flow.ok()) << flow.status().text();
}

TEST(Lobster, BadLinesNameFileAndLine) {
  for (const char* line : {"1.0,1,7,100,10",
                           "time,1,7,100,10,1",
                           "1.0,8,7,100,10,1",
                           "1.0,0,7,100,10,1",
                           "1.0,1,7,100,10,0",
                           "1.0,1,seven,100,10,1",
                           "1.0,1,7,-100,10,1",
                           "-1.0,1,7,100,10,1",
                           "1.0x,1,7,100,10,1"}) {
    const Result<Flow> flow = read(std::string("1.0,1,7,100,10,1\n") + line + "\n", nullptr);
    ASSERT_FALSE(flow.ok()) << line;
    EXPECT_NE(flow.status().text().find("message.csv:2: "), std::string::npos)
        << flow.status().text();
  }
}

}  // namespace
}  // namespace countwheel::drill
