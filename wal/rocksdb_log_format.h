// RocksDB's log format, as much of it as is needed to find our blobs in a log file.
//
//   file   = block*                          a block is 32,768 bytes, the last may be shorter
//   block  = fragment* zeroes                no fragment starts in the last 6 bytes
//   fragment = crc:4 length:2 type:1 [log number:4] data[length]
//   record = full | first middle* last       types 1 to 4; 5 to 8 carry the log number
// The checksum is a masked crc32c of everything behind it up to the end of the data. The data of a
// record is a write batch (rocksdb_write_batch.h). Ours puts one blob, and behind it what the
// application writes with it; RocksDB may have put what another thread wrote before it.
#ifndef COUNTWHEEL_WAL_ROCKSDB_LOG_FORMAT_H_
#define COUNTWHEEL_WAL_ROCKSDB_LOG_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace countwheel::wal {

inline constexpr std::size_t kLogBlockBytes = 32768;
inline constexpr std::size_t kLogHeaderBytes = 7;
inline constexpr std::size_t kLogNumberedHeaderBytes = 11;

enum class FragmentType : std::uint8_t {
  kZero = 0,
  kFull = 1,
  kFirst = 2,
  kMiddle = 3,
  kLast = 4,
  kNumberedFull = 5,
  kNumberedFirst = 6,
  kNumberedMiddle = 7,
  kNumberedLast = 8,
};

struct Fragment {
  FragmentType type = FragmentType::kZero;  // the numbered ones as their plain twins
  std::string_view data;
  std::size_t bytes = 0;  // with its header; 0 is no fragment
};

// The fragment at the start of `block`, which is the rest of a block. `bytes` is 0 when it does not
// check out.
Fragment parse_fragment(std::string_view block) noexcept;

// The blob in the data of a record, or nothing when there is none.
std::string_view blob_in_record(std::string_view record) noexcept;

// Keys of blobs: 'L' and the sequence, big-endian, so that their order is that of the log.
inline constexpr char kBlobKeyPrefix = 'L';
inline constexpr std::size_t kBlobKeyBytes = 9;

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_ROCKSDB_LOG_FORMAT_H_
