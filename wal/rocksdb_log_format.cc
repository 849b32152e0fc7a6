#include "rocksdb_log_format.h"

#include "bytes.h"
#include "crc32c.h"
#include "record.h"
#include "rocksdb_write_batch.h"

namespace countwheel::wal {
namespace {

constexpr std::size_t kTypeAt = 6;

}  // namespace

Fragment parse_fragment(std::string_view block) noexcept {
  if (block.size() < kLogHeaderBytes) {
    return {};
  }
  const auto length =
      static_cast<std::size_t>(byte_at(block.data(), 4) | byte_at(block.data(), 5) << 8);
  auto type = static_cast<std::uint8_t>(byte_at(block.data(), kTypeAt));
  if (type < static_cast<std::uint8_t>(FragmentType::kFull) ||
      type > static_cast<std::uint8_t>(FragmentType::kNumberedLast)) {
    return {};
  }
  const bool numbered = type >= static_cast<std::uint8_t>(FragmentType::kNumberedFull);
  const std::size_t header = numbered ? kLogNumberedHeaderBytes : kLogHeaderBytes;
  if (block.size() < header + length) {
    return {};
  }
  const std::string_view checked = block.substr(kTypeAt, header + length - kTypeAt);
  if (load_u32(block.data()) != mask_crc32c(crc32c(checked))) {
    return {};
  }
  Fragment fragment;
  fragment.type = static_cast<FragmentType>(numbered ? type - 4 : type);
  fragment.data = block.substr(header, length);
  fragment.bytes = header + length;
  return fragment;
}

std::string_view blob_in_record(std::string_view record) noexcept {
  WriteBatchReader reader(record);
  WriteBatchEntry entry;
  while (reader.next(&entry)) {
    if (entry.kind == WriteBatchEntry::Kind::kPut && entry.key.size() == kBlobKeyBytes &&
        entry.key.front() == kBlobKeyPrefix && entry.value.starts_with(kMagic)) {
      return entry.value;
    }
  }
  return {};
}

}  // namespace countwheel::wal
