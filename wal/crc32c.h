// CRC-32C (Castagnoli), the checksum of our blobs and of RocksDB's log records.
//
// One function for both. XXH3 would be as fast and one dependency more; 32 bits are enough because
// RocksDB's own checksum lies around ours.
#ifndef COUNTWHEEL_WAL_CRC32C_H_
#define COUNTWHEEL_WAL_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace countwheel::wal {

// The checksum of `bytes`, continued from `crc`, which is 0 at the start.
std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc = 0) noexcept;

// The same by table, for machines without the instruction. Apart for the test that compares them.
std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t crc = 0) noexcept;

// RocksDB stores checksums rotated and shifted, so that a checksum of a checksum is not degenerate.
constexpr std::uint32_t mask_crc32c(std::uint32_t crc) noexcept {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_CRC32C_H_
