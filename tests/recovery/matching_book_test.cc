// The order book of docs/examples: orders that expire, kept in the database of their expiries. What
// venues promise of such orders, on a clock that stands still, and across kills.
#include "docs/examples/matching_book.h"

#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/directory.h"

namespace countwheel {
namespace {

using namespace std::chrono_literals;
using example::Book;
using example::Fill;
using example::Order;
using std::chrono::nanoseconds;
using testing::TempDirectory;

using Lines = std::vector<std::string>;

class MatchingBook : public ::testing::Test {
 protected:
  MatchingBook() { open(); }

  void open() {
    OpenOptions options;
    options.clock = &clock_;
    options.engine.drive = Drive::kHost;
    options.engine.wheel.precision = Precision::kTick;
    options.wal.app_column_families = Book::kTables;
    options.wal.attempt_cells = 64;
    Result<Opened> opened = countwheel::open(directory_, options);
    ASSERT_TRUE(opened.ok()) << opened.status().text();
    engine_ = std::move(opened->engine);
    book_ = std::make_unique<Book>(*engine_, [this](const Order& order, int) {
      expired_at_.emplace(order.id, clock_.now().boot_ns - began_ns_);
      expired_quantity_[order.id] = order.quantity;
    });
    ASSERT_TRUE(engine_->start().ok());
  }
  // kill -9: what was written stays, nothing else happens in this process.
  void kill() {
    const std::string image = temp_ / ("killed" + std::to_string(++kills_));
    testing::copy_directory(directory_, image);
    (void)engine_->stop();
    book_.reset();
    engine_.reset();
    directory_ = image;
    open();
  }

  void advance_to(nanoseconds since_begin) {
    clock_.advance(since_begin - nanoseconds(clock_.now().boot_ns - began_ns_));
    engine_->poll();
  }
  std::vector<Fill> add(Order order, Deadline deadline = after(1h)) {
    Result<std::vector<Fill>> fills = book_->add(std::move(order), deadline);
    EXPECT_TRUE(fills.ok()) << fills.status().text();
    return fills.ok() ? *fills : std::vector<Fill>();
  }
  bool is_due(const std::string& id) {
    const Result<bool> due = engine_->is_due(id);
    EXPECT_TRUE(due.ok()) << due.status().text();
    return due.ok() && *due;
  }
  long long resting(const std::string& id) const {
    for (const Order& order : book_->orders()) {
      if (order.id == id) {
        return order.quantity;
      }
    }
    return 0;
  }

  TempDirectory temp_;
  std::string directory_ = temp_ / "book";
  ManualClock clock_;
  const std::int64_t began_ns_ = clock_.now().boot_ns;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Book> book_;
  std::multimap<std::string, std::int64_t> expired_at_;
  std::map<std::string, long long> expired_quantity_;
  int kills_ = 0;
};

TEST_F(MatchingBook, TheBestPriceIsFirstAndThenTheEarliest) {
  EXPECT_TRUE(add({"s102", false, 102, 10}).empty());
  EXPECT_TRUE(add({"s101", false, 101, 10}).empty());
  EXPECT_TRUE(add({"s101 later", false, 101, 10}).empty());
  const std::vector<Fill> fills = add({"b", true, 102, 25});
  ASSERT_EQ(fills.size(), 3U);
  EXPECT_EQ(fills[0].maker, "s101");
  EXPECT_EQ(fills[1].maker, "s101 later");
  EXPECT_EQ(fills[2].maker, "s102");
  EXPECT_EQ(fills[2].quantity, 5);
  EXPECT_EQ(resting("b"), 0);
  EXPECT_EQ(resting("s102"), 5);
  EXPECT_TRUE(add({"b101", true, 101, 1}).empty());
  EXPECT_EQ(book_->add({"b101", true, 101, 1}, after(1h)).code(), Code::kExists);
}

// Between the deadline, 1000.000001 ms, and the hand-over at the tick of 1010 ms an order rests and
// is due: is_due() says no, yes, yes, yes, and nobody is matched with it from the deadline on.
TEST_F(MatchingBook, B81_NoOrderIsMatchedFromItsDeadlineOnThoughTheHandOverIsLater) {
  add({"sell", false, 100, 10}, after(1'000'000'001ns));
  advance_to(1'000ms);
  EXPECT_FALSE(is_due("sell"));
  EXPECT_EQ(add({"before", true, 100, 1}).size(), 1U);
  advance_to(1'000'000'001ns);
  EXPECT_TRUE(is_due("sell"));
  EXPECT_TRUE(add({"at", true, 100, 1}).empty());
  advance_to(1'005ms);
  EXPECT_TRUE(is_due("sell"));
  EXPECT_TRUE(add({"after", true, 100, 1}).empty());
  EXPECT_EQ(resting("sell"), 9);  // still in the book, only not to be had
  EXPECT_EQ(expired_at_.size(), 0U);
  clock_.advance(5ms);
  EXPECT_TRUE(is_due("sell"));
  EXPECT_TRUE(add({"last", true, 100, 1}).empty());
  engine_->poll();
  EXPECT_EQ(resting("sell"), 0);
  ASSERT_EQ(expired_at_.count("sell"), 1U);
  EXPECT_EQ(expired_at_.find("sell")->second, 1'010'000'000);
  EXPECT_EQ(book_->ledger(), (Lines{"sell filled 1 at 100", "sell expired with 9"}));
}

TEST_F(MatchingBook, B84_APartialFillKeepsTheOneExpiryForTheRest) {
  add({"order", false, 100, 100}, after(5s));
  add({"filled", false, 101, 30}, after(5s));
  advance_to(1s);
  ASSERT_EQ(add({"b1", true, 100, 40}).size(), 1U);
  EXPECT_EQ(resting("order"), 60);
  EXPECT_EQ(engine_->stats().pending, 2U);
  advance_to(4'990ms);
  ASSERT_EQ(add({"b2", true, 101, 90}).size(), 2U);  // the rest of it, and the other one
  add({"order 2", false, 100, 100}, after(10ms));
  ASSERT_EQ(add({"b3", true, 100, 40}).size(), 1U);
  EXPECT_EQ(engine_->stats().pending, 1U);
  advance_to(60s);
  EXPECT_EQ(expired_at_.count("order"), 0U);  // filled fully at 4.99 s
  EXPECT_EQ(expired_at_.count("filled"), 0U);
  ASSERT_EQ(expired_at_.count("order 2"), 1U);
  EXPECT_EQ(expired_quantity_["order 2"], 60);
}

TEST_F(MatchingBook, B84_TheExpiryOfAPartialFillSurvivesAKill) {
  add({"order", false, 100, 100}, after(5s));
  advance_to(1s);
  ASSERT_EQ(add({"b1", true, 100, 40}).size(), 1U);
  kill();
  EXPECT_EQ(resting("order"), 60);
  advance_to(4'999ms);
  EXPECT_EQ(expired_at_.size(), 0U);
  advance_to(5s);
  ASSERT_EQ(expired_at_.count("order"), 1U);
  EXPECT_EQ(expired_at_.find("order")->second, 5'000'000'000);
  EXPECT_EQ(expired_quantity_["order"], 60);
  kill();
  advance_to(60s);
  EXPECT_EQ(expired_at_.size(), 1U);
  EXPECT_EQ(book_->ledger(), (Lines{"order filled 40 at 100", "order expired with 60"}));
}

// A random day with kills: whatever came in went out once, and the book is what the engine expires.
TEST_F(MatchingBook, NothingIsLostOrDoubledByKills) {
  std::mt19937_64 random(testing::seed_from_environment(84));
  std::map<std::string, long long> added;
  for (int step = 0; step < 600; ++step) {
    const bool is_buy = random() % 2 == 0;
    const auto price = static_cast<long long>(95 + random() % 10);
    const auto quantity = static_cast<long long>(1 + random() % 50);
    const std::string id = "o" + std::to_string(step);
    long long filled = 0;
    for (const Fill& fill :
         add({id, is_buy, price, quantity}, after(nanoseconds(random() % 2'000'000'000)))) {
      filled += fill.quantity;
    }
    added[id] = quantity - filled;
    if (random() % 4 == 0) {
      (void)book_->cancel("o" + std::to_string(random() % (static_cast<unsigned>(step) + 1)));
    }
    clock_.advance(nanoseconds(random() % 60'000'000));
    engine_->poll();
    if (random() % 60 == 0) {
      kill();
      ASSERT_FALSE(HasFatalFailure());
    }
  }
  std::map<std::string, long long> left;
  std::set<std::string> keys;
  for (const Order& order : book_->orders()) {
    left[order.id] = order.quantity;
    keys.insert(order.id);
  }
  std::set<std::string> expiries;
  for (const TaskInfo& task : engine_->list({}, 10'000)) {
    expiries.insert(task.key);
  }
  EXPECT_EQ(keys, expiries);
  std::map<std::string, int> ends;
  for (const std::string& line : book_->ledger()) {
    const std::string id = line.substr(0, line.find(' '));
    const std::string what = line.substr(id.size() + 1);
    if (what.starts_with("filled ")) {
      added[id] -= std::stoll(what.substr(7));
    } else {
      ++ends[id];
      const bool expired = what.starts_with("expired with ");
      added[id] = expired ? added[id] - std::stoll(what.substr(13)) : 0;
    }
  }
  for (const auto& [id, quantity] : added) {
    EXPECT_EQ(quantity, left[id]) << id;
    EXPECT_LE(ends[id], 1) << id;
  }
  EXPECT_GT(ends.size(), 50U);
}

}  // namespace
}  // namespace countwheel
