// A user with a table of his own in the database of the log.
#include <cstdio>
#include <filesystem>
#include <string>

#include <countwheel/recovery.h>
#include <countwheel/rocksdb.h>

int main() {
  const std::string directory = "log";
  std::filesystem::remove_all(directory);
  countwheel::OpenOptions options;
  options.wal.app_column_families = {{"orders"}};
  auto opened = countwheel::open(directory, options);
  if (!opened.ok()) {
    std::puts(opened.status().text().c_str());
    return 1;
  }
  const countwheel::AppDatabase& data = *opened->engine->app_database();
  rocksdb::WriteBatch batch;
  if (!batch.Put(data.family("orders"), "order-42", "100").ok()) {
    return 1;
  }
  const auto scheduled = opened->engine->schedule(
      {.type = "order.expire", .deadline = countwheel::after(std::chrono::hours(1))},
      countwheel::writes_of(batch));
  std::string row;
  const bool read = data.db().Get({}, data.family("orders"), "order-42", &row).ok();
  return scheduled.ok() && read && row == "100" ? 0 : 1;
}
