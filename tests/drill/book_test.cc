// The book of record: who ends an order, and whether quantities add up.
#include "tools/drill/book.h"

#include <atomic>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

namespace countwheel::drill {
namespace {

class BookTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kOrders = 10'000;

  std::unique_ptr<BookWord[]> words_ = std::make_unique<BookWord[]>(kOrders);
  Book book_{words_.get(), kOrders};
};

TEST_F(BookTest, OnlyTheFirstEndCounts) {
  book_.rest(0, 100);
  EXPECT_EQ(book_.state(0), OrderState::kOpen);
  EXPECT_TRUE(book_.cancel(0));
  EXPECT_FALSE(book_.fill(0));
  EXPECT_FALSE(book_.expire(0));
  EXPECT_FALSE(book_.reduce(0, 1, true));
  EXPECT_EQ(book_.state(0), OrderState::kCancelled);
}

TEST_F(BookTest, AnOrderThatNeverArrivedCannotEnd) {
  EXPECT_FALSE(book_.expire(1));
  EXPECT_EQ(book_.state(1), OrderState::kAbsent);
}

TEST_F(BookTest, APartialFillLeavesTheRestOpen) {
  book_.rest(0, 100);
  EXPECT_TRUE(book_.reduce(0, 30, true));
  EXPECT_EQ(book_.state(0), OrderState::kOpen);
  EXPECT_TRUE(book_.reduce(0, 1'000, false));  // All but one: the last would be an end.
  EXPECT_EQ(book_.totals().open, 1);
  EXPECT_FALSE(book_.reduce(0, 1, true));
  EXPECT_TRUE(book_.expire(0));
  const BookTotals totals = book_.totals();
  EXPECT_EQ(totals.arrived, 100);
  EXPECT_EQ(totals.traded, 30);
  EXPECT_EQ(totals.withdrawn, 69);
  EXPECT_EQ(totals.expired, 1);
  EXPECT_EQ(totals.partial_fill_count, 1U);
}

TEST_F(BookTest, FillAndExpiryRaceToOneEndAndQuantitiesAddUp) {
  for (std::uint32_t i = 0; i < kOrders; ++i) {
    book_.rest(i, 1 + i % 7);
  }
  std::atomic<std::uint32_t> expired{0};
  std::thread handler([&] {
    for (std::uint32_t i = 0; i < kOrders; ++i) {
      expired += book_.expire(i) ? 1U : 0U;
    }
  });
  std::uint32_t filled = 0;
  for (std::uint32_t i = kOrders; i-- > 0;) {
    book_.reduce(i, 2, true);
    filled += book_.fill(i) ? 1U : 0U;
  }
  handler.join();
  EXPECT_EQ(expired + filled, kOrders);
  const BookTotals totals = book_.totals();
  EXPECT_EQ(totals.open, 0);
  EXPECT_EQ(totals.arrived, totals.traded + totals.expired);
}

}  // namespace
}  // namespace countwheel::drill
