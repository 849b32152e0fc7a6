// Writes: the application's own writes to the database of the log. They commit with the record of a
// task in one step: after any crash both are there or neither is.
//
//   rocksdb::WriteBatch batch;
//   batch.Put(orders, "order-42", row);
//   engine.schedule({.type = "order.expire", .deadline = at(close), .key = "order-42"},
//                   countwheel::writes_of(batch));
//   ...
//   batch.Delete(orders, delivery.key());
//   delivery.done(countwheel::writes_of(batch));   // a handler whose effect happens once
//
// The engine only carries the bytes: a WriteBatch of RocksDB, whose column families are of
// WalOptions::app_column_families. countwheel/rocksdb.h has writes_of() and the database;
// docs/guide.md shows a whole program. An engine without a log on disk refuses writes.
//
// The alternative would be a database of the application's and two commits; whatever is done first,
// a crash between them leaves one without the other.
#ifndef COUNTWHEEL_WRITES_H_
#define COUNTWHEEL_WRITES_H_

#include <string_view>

namespace countwheel {

struct Writes {
  // rocksdb::WriteBatch::Data(). Needs to live only until the call returns. Empty: no writes.
  std::string_view bytes = {};

  bool empty() const noexcept { return bytes.empty(); }
};

}  // namespace countwheel

#endif  // COUNTWHEEL_WRITES_H_
