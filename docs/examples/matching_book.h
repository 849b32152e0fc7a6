// A limit order book of one symbol whose orders expire. It is kept in two tables of the database in
// which the expiries are logged: `orders` has a row for each order that rests, `ledger` a line for
// each thing that has happened to one. An order rests with its expiry or not at all, and goes with
// it; whatever kills the process, no order is without an expiry and none expires twice.
//
// Prices are in ticks. One mutex decides what comes first: a fill, a cancel or an expiry.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <countwheel/recovery.h>
#include <countwheel/rocksdb.h>

namespace example {

struct Order {
  std::string id;
  bool is_buy = false;
  long long price = 0;
  long long quantity = 0;
  unsigned long long sequence = 0;  // earlier orders of a price are first
};

struct Fill {
  std::string maker;
  long long price = 0;
  long long quantity = 0;
};

class Book {
 public:
  static inline const std::vector<countwheel::AppColumnFamily> kTables = {{"orders"}, {"ledger"}};

  // `engine` comes from open() with kTables, is not started yet, and is stopped before the book
  // goes. `on_expiry` hears of each expiry that is decided; a crash may still bring the order back.
  explicit Book(countwheel::Engine& engine, std::function<void(const Order&, int)> on_expiry = {})
      : engine_(engine),
        db_(engine.app_database()->db()),
        orders_(engine.app_database()->family("orders")),
        ledger_(engine.app_database()->family("ledger")),
        on_expiry_(std::move(on_expiry)) {
    load();
    (void)engine.on("order.expire", [this](countwheel::Delivery d) { expire(std::move(d)); });
  }

  // Matches what crosses, then rests the remainder until `deadline`.
  countwheel::Result<std::vector<Fill>> add(Order order, countwheel::Deadline deadline) {
    const std::lock_guard lock(mutex_);
    std::vector<Fill> fills;
    if (places_.contains(order.id)) return countwheel::Status(countwheel::Code::kExists);
    Side& makers = side(!order.is_buy);
    for (auto at = makers.begin(); at != makers.end() && order.quantity > 0;) {
      auto next = std::next(at);
      const Order maker = at->second;
      if (order.is_buy ? maker.price > order.price : maker.price < order.price) break;
      const Fill fill = {maker.id, maker.price, std::min(order.quantity, maker.quantity)};
      const countwheel::Status status = take(at, fill);
      if (status.ok()) {
        order.quantity -= fill.quantity;
        fills.push_back(fill);
      } else if (status.code() != countwheel::Code::kTooLate) {
        return status;
      }
      at = next;
    }
    if (order.quantity > 0) {
      order.sequence = ++sequence_;
      rocksdb::WriteBatch batch;
      put_row(batch, order);
      const auto rests = engine_.schedule(
          {.type = "order.expire", .deadline = deadline, .key = order.id},
          countwheel::writes_of(batch));
      if (!rests.ok()) return rests.status();
      insert(order);
    }
    return fills;
  }

  // `cancelled`, or `too_late` when it has expired, or `not_found`.
  countwheel::Status cancel(const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto place = places_.find(id);
    if (place == places_.end()) return countwheel::Status(countwheel::Code::kNotFound);
    return close(place->second.first->find(place->second.second), "cancelled");
  }

  std::vector<Order> orders() const {
    const std::lock_guard lock(mutex_);
    std::vector<Order> all;
    for (const Side* side : {&sells_, &buys_})
      for (const auto& [priority, order] : *side) all.push_back(order);
    return all;
  }

  // What has happened, from the table.
  std::vector<std::string> ledger() const {
    std::vector<std::string> lines;
    const std::unique_ptr<rocksdb::Iterator> all(db_.NewIterator({}, ledger_));
    for (all->SeekToFirst(); all->Valid(); all->Next()) lines.push_back(all->value().ToString());
    return lines;
  }

 private:
  // By price, the best first, then by time.
  using Side = std::map<std::pair<long long, unsigned long long>, Order>;

  Side& side(bool is_buy) { return is_buy ? buys_ : sells_; }

  countwheel::Status take(Side::iterator at, const Fill& fill) {
    Order& maker = at->second;
    // From its deadline on it is not matched, even though its expiry is handed over only later.
    const auto due = engine_.is_due(maker.id);
    if (!due.ok() || *due) return countwheel::Status(countwheel::Code::kTooLate);
    const std::string what = "filled " + std::to_string(fill.quantity) + " at " +
                             std::to_string(fill.price);
    if (fill.quantity == maker.quantity) {
      const countwheel::Status status = close(at, what);
      return status.code() == countwheel::Code::kCancelled ? countwheel::Status() : status;
    }
    // A partial fill leaves the one expiry as it is: for the rest. These are writes of our own.
    Order rest = maker;
    rest.quantity -= fill.quantity;
    rocksdb::WriteBatch batch;
    put_row(batch, rest);
    put_line(batch, maker.id, what);
    rocksdb::WriteOptions options;
    options.sync = true;
    if (!db_.Write(options, &batch).ok()) return countwheel::Status(countwheel::Code::kNoSpace);
    maker = rest;
    return {};
  }

  // Takes an order out together with its expiry; if that runs already, it comes first.
  countwheel::Status close(Side::iterator at, const std::string& what) {
    rocksdb::WriteBatch batch;
    (void)batch.Delete(orders_, at->second.id);
    put_line(batch, at->second.id, what);
    const countwheel::Change change =
        engine_.cancel(at->second.id, countwheel::writes_of(batch));
    if (change) erase(at);
    return change.status;
  }

  void expire(countwheel::Delivery delivery) {
    const std::lock_guard lock(mutex_);
    const auto place = places_.find(std::string(delivery.key()));
    if (place == places_.end()) return (void)delivery.done();
    const auto at = place->second.first->find(place->second.second);
    rocksdb::WriteBatch batch;
    (void)batch.Delete(orders_, at->second.id);
    put_line(batch, at->second.id, "expired with " + std::to_string(at->second.quantity));
    const int attempt = static_cast<int>(delivery.attempt());
    if (!delivery.done(countwheel::writes_of(batch)).ok()) return;
    if (on_expiry_) on_expiry_(at->second, attempt);
    erase(at);
  }

  void put_row(rocksdb::WriteBatch& batch, const Order& order) const {
    (void)batch.Put(orders_, order.id,
                    (order.is_buy ? "buy " : "sell ") + std::to_string(order.price) + " " +
                        std::to_string(order.quantity) + " " + std::to_string(order.sequence));
  }
  void put_line(rocksdb::WriteBatch& batch, const std::string& id, const std::string& what) {
    char number[21];
    (void)std::snprintf(number, sizeof number, "%020llu", ++lines_);
    (void)batch.Put(ledger_, number, id + " " + what);
  }

  void insert(const Order& order) {
    Side& its_side = side(order.is_buy);
    const Side::key_type priority = {order.is_buy ? -order.price : order.price, order.sequence};
    its_side.emplace(priority, order);
    places_[order.id] = {&its_side, priority};
  }
  void erase(Side::iterator at) {
    Side& its_side = side(at->second.is_buy);
    places_.erase(at->second.id);
    its_side.erase(at);
  }

  void load() {
    std::unique_ptr<rocksdb::Iterator> row(db_.NewIterator({}, orders_));
    for (row->SeekToFirst(); row->Valid(); row->Next()) {
      Order order;
      char name[5] = {};
      order.id = row->key().ToString();
      (void)std::sscanf(row->value().ToString().c_str(), "%4s %lld %lld %llu", name, &order.price,
                        &order.quantity, &order.sequence);
      order.is_buy = name[0] == 'b';
      sequence_ = std::max(sequence_, order.sequence);
      insert(order);
    }
    row.reset(db_.NewIterator({}, ledger_));
    row->SeekToLast();
    if (row->Valid()) (void)std::sscanf(row->key().ToString().c_str(), "%llu", &lines_);
  }

  countwheel::Engine& engine_;
  rocksdb::DB& db_;
  rocksdb::ColumnFamilyHandle* orders_;
  rocksdb::ColumnFamilyHandle* ledger_;
  std::function<void(const Order&, int attempt)> on_expiry_;

  mutable std::mutex mutex_;
  Side buys_, sells_;
  std::map<std::string, std::pair<Side*, Side::key_type>> places_;
  unsigned long long sequence_ = 0, lines_ = 0;
};

}  // namespace example
