// AppFamilies: the application's column families beside the log, and what may be written to them.
//
// What RocksDB refuses inside of DB::Write() would end the log, because nobody knows then what of
// the batch is on disk. So every reason it could have is looked for before.
#ifndef COUNTWHEEL_WAL_APP_FAMILIES_H_
#define COUNTWHEEL_WAL_APP_FAMILIES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <rocksdb/db.h>

#include <countwheel/rocksdb.h>
#include <countwheel/status.h>
#include <countwheel/wal.h>

namespace countwheel::wal {

// `invalid_argument` names the family.
Status validate_families(const std::vector<AppColumnFamily>& families);
// Those of RocksDB where none are given.
rocksdb::ColumnFamilyOptions options_of(const AppColumnFamily& family);

// Thread contract: immutable once filled; safe for concurrent use.
class AppFamilies {
 public:
  void add(const AppColumnFamily& family, rocksdb::ColumnFamilyHandle* handle);

  // Journal::check_writes(). `path` names the log in the text.
  Status check(std::string_view batch, const std::string& path) const;

 private:
  struct Family {
    std::uint32_t id = 0;
    const rocksdb::Comparator* comparator = nullptr;
    bool can_merge = false;
    bool can_delete_ranges = false;
  };

  const Family* find(std::uint32_t id) const noexcept;

  std::vector<Family> families_;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_APP_FAMILIES_H_
