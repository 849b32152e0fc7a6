// RocksDB's write batch as bytes, as much of it as is needed to see what is in it.
//
//   batch = sequence:8 count:4 entry*        count: the entries that change something
//   entry = tag:1 [family:varint] fields     each field is length:varint bytes
// It is what a record of RocksDB's log holds, and what rocksdb::WriteBatch::Data() gives.
#ifndef COUNTWHEEL_WAL_ROCKSDB_WRITE_BATCH_H_
#define COUNTWHEEL_WAL_ROCKSDB_WRITE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bytes.h"

namespace countwheel::wal {

inline constexpr std::size_t kWriteBatchHeaderBytes = 12;
inline constexpr std::size_t kWriteBatchCountAt = 8;
inline constexpr std::uint8_t kPutInFamilyTag = 5;

struct WriteBatchEntry {
  // kOther: what no application writes by itself, as the marks of two-phase commits.
  enum class Kind : std::uint8_t {
    kPut,
    kDelete,
    kSingleDelete,
    kDeleteRange,
    kMerge,
    kLogData,
    kOther,
  };
  Kind kind = Kind::kOther;
  std::uint32_t family = 0;  // 0 is the default column family
  std::string_view key;      // kDeleteRange: the begin; kLogData: the data
  std::string_view value;    // kDeleteRange: the end

  // Whether the count of its batch counts it.
  bool counted() const noexcept { return kind < Kind::kLogData; }
};

// Any bytes may be given: nothing is read outside of them.
class WriteBatchReader {
 public:
  explicit WriteBatchReader(std::string_view batch) noexcept;

  // The next entry; false at the end, or where the bytes are no entry: ok() tells which.
  bool next(WriteBatchEntry* entry) noexcept;
  bool ok() const noexcept { return ok_; }
  // Of the header.
  std::uint32_t count() const noexcept { return count_; }

 private:
  ByteReader rest_;
  std::uint32_t count_ = 0;
  bool ok_ = true;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_ROCKSDB_WRITE_BATCH_H_
