// AppLog: a log with tables of the application beside it, for tests of what both do to each other.
#ifndef COUNTWHEEL_TESTS_WAL_APP_LOG_H_
#define COUNTWHEEL_TESTS_WAL_APP_LOG_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <countwheel/rocksdb.h>

#include "wal/log_writer.h"

namespace countwheel::testing {

inline WalOptions with_tables(WalOptions options = small_options()) {
  options.app_column_families = {{"orders"}, {"trades"}};
  return options;
}

// The rows of a table.
using Rows = std::map<std::string, std::string>;

class AppLog : public LogWriter {
 public:
  explicit AppLog(const std::string& directory, const WalOptions& options = with_tables())
      : LogWriter(directory, options) {}

  AppDatabase& data() { return *journal().app_database(); }
  rocksdb::ColumnFamilyHandle* table(std::string_view name = "orders") {
    return data().family(name);
  }

  // One blob: a schedule with a payload, and a row that says the same.
  Status commit_row(const std::string& key, const std::string& row, bool sync = true) {
    rocksdb::WriteBatch batch;
    EXPECT_TRUE(batch.Put(table(), key, row).ok());
    return commit_with(batch.Data(), row, sync);
  }
  // One blob: a schedule with a payload, and these writes.
  Status commit_with(std::string_view writes, const std::string& payload, bool sync = true) {
    BatchBuilder builder(next_lsn());
    builder.write_with(&builder.schedule(next_id(), {}, payload), writes);
    return commit(builder, sync);
  }
  using LogWriter::commit;

  Rows rows(std::string_view name = "orders") {
    Rows rows;
    const std::unique_ptr<rocksdb::Iterator> all(data().db().NewIterator({}, table(name)));
    for (all->SeekToFirst(); all->Valid(); all->Next()) {
      rows[all->key().ToString()] = all->value().ToString();
    }
    EXPECT_TRUE(all->status().ok());
    return rows;
  }
};

// Opens a log as a restart does. Its payloads and its rows must be the same: those of the tasks
// that have one. Answers how many.
inline std::size_t expect_no_divergence(const std::string& directory) {
  AppLog log(directory);
  const Status opened = log.open();
  EXPECT_EQ(opened.text(), "ok");
  if (!opened.ok()) {
    return 0;
  }
  std::multimap<std::string, int> rows;
  for (const auto& [key, row] : log.rows()) {
    rows.emplace(row, 0);
  }
  std::multimap<std::string, int> payloads;
  for (const std::string& payload : log.content().payloads) {
    if (!payload.empty()) {
      payloads.emplace(payload, 0);
    }
  }
  EXPECT_EQ(rows, payloads);
  return rows.size();
}

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_WAL_APP_LOG_H_
