#include "rocksdb_write_batch.h"

#include <array>

namespace countwheel::wal {
namespace {

using Kind = WriteBatchEntry::Kind;

struct TagMeaning {
  Kind kind = Kind::kOther;
  bool in_family = false;
  std::int8_t fields = -1;  // with a length each; below 0 there is no such tag in a batch
};

// By tag. RocksDB writes them to disk, so that they keep their numbers.
constexpr std::array<TagMeaning, 24> kTags = {{
    {Kind::kDelete, false, 1},
    {Kind::kPut, false, 2},
    {Kind::kMerge, false, 2},
    {Kind::kLogData, false, 1},
    {Kind::kDelete, true, 1},
    {Kind::kPut, true, 2},
    {Kind::kMerge, true, 2},
    {Kind::kSingleDelete, false, 1},
    {Kind::kSingleDelete, true, 1},
    {Kind::kOther, false, 0},  // 0x9: begin prepare
    {Kind::kOther, false, 1},  // 0xA: end prepare
    {Kind::kOther, false, 1},  // 0xB: commit
    {Kind::kOther, false, 1},  // 0xC: rollback
    {Kind::kOther, false, 0},  // 0xD: nothing
    {Kind::kDeleteRange, true, 2},
    {Kind::kDeleteRange, false, 2},
    {Kind::kOther, true, 2},   // 0x10: a reference to a blob file
    {Kind::kOther, false, 2},  // 0x11
    {Kind::kOther, false, 0},  // 0x12: begin persisted prepare
    {Kind::kOther, false, 0},  // 0x13: begin unprepare
    {},
    {Kind::kOther, false, 2},  // 0x15: commit with a timestamp
    {Kind::kOther, false, 2},  // 0x16: wide columns
    {Kind::kOther, true, 2},   // 0x17
}};

}  // namespace

WriteBatchReader::WriteBatchReader(std::string_view batch) noexcept : rest_(batch) {
  (void)rest_.u64();
  count_ = rest_.u32();
  ok_ = rest_.ok();
}

bool WriteBatchReader::next(WriteBatchEntry* entry) noexcept {
  if (!ok_ || rest_.left() == 0) {
    return false;
  }
  const std::uint8_t tag = rest_.u8();
  const TagMeaning meaning = tag < kTags.size() ? kTags[tag] : TagMeaning{};
  if (meaning.fields < 0) {
    ok_ = false;
    return false;
  }
  *entry = {meaning.kind, 0, {}, {}};
  if (meaning.in_family) {
    entry->family = static_cast<std::uint32_t>(rest_.varint_up_to(0xffffffff));
  }
  if (meaning.fields > 0) {
    entry->key = rest_.bytes(rest_.varint());
  }
  if (meaning.fields > 1) {
    entry->value = rest_.bytes(rest_.varint());
  }
  ok_ = rest_.ok();
  return ok_;
}

}  // namespace countwheel::wal
