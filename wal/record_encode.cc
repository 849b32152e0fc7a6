#include <array>
#include <cstring>
#include <tuple>

#include <countwheel/assert.h>

#include "bytes.h"
#include "crc32c.h"
#include "record.h"

namespace countwheel::wal {
namespace {

static_assert(header_at::kHeaderCrc + 4 == kHeaderBytes);
static_assert(header_at::kStore + std::tuple_size_v<StoreUuid> == header_at::kGenerationCeiling);

// The bytes behind the fields: of `data`, what this kind keeps.
std::string_view kept_data(const Op& op) noexcept {
  switch (op.kind) {
    case OpKind::kSchedule:
      return {op.data,
              std::size_t{op.key_bytes} + op.payload_bytes + op.text_bytes + op.attribute_bytes};
    case OpKind::kDone:
      return op.attributes();
    case OpKind::kRetry:
    case OpKind::kDead:
      return {op.text().data(), std::size_t{op.text_bytes} + op.attribute_bytes};
    case OpKind::kType:
      return op.payload();
    default:
      return {};
  }
}

char* store_byte(char* out, std::uint8_t value) noexcept {
  *out = static_cast<char>(value);
  return out + 1;
}

char* store_word(char* out, std::uint64_t value) noexcept {
  store_u64(out, value);
  return out + 8;
}

char* store_deadlines(char* out, const Op& op) noexcept {
  out = store_word(out, static_cast<std::uint64_t>(op.wall_deadline_ns));
  if (op.clock == ClockKind::kBoot) {
    out = store_word(out, static_cast<std::uint64_t>(op.boot_deadline_ns));
  }
  return out;
}

char* store_counters(char* out, const Op& op) noexcept {
  out = store_varint(out, op.failures);
  out = store_varint(out, op.attempts);
  return store_varint(out, op.crashes);
}

char* store_attribute_length(char* out, const Op& op) noexcept {
  return op.attribute_bytes == 0 ? out : store_varint(out, op.attribute_bytes);
}

std::uint8_t schedule_flags(const Op& op) noexcept {
  unsigned flags = op.clock == ClockKind::kBoot ? op_flag::kBootClock : 0U;
  flags |= op.slack_us != 0 ? op_flag::kSlack : 0U;
  flags |= op.base_lsn != op.lsn ? op_flag::kOrder : 0U;
  flags |= op.failures != 0 || op.attempts != 0 || op.crashes != 0 ? op_flag::kCounters : 0U;
  flags |= op.dead ? op_flag::kDead : 0U;
  flags |= op.text_bytes != 0 ? op_flag::kText : 0U;
  flags |= op.attribute_bytes != 0 ? op_flag::kAttributes : 0U;
  return static_cast<std::uint8_t>(flags);
}

char* store_schedule(char* out, const Op& op) noexcept {
  const std::uint8_t flags = schedule_flags(op);
  out = store_byte(out, flags);
  out = store_word(out, op.id.value);
  out = store_varint(out, op.type);
  out = store_deadlines(out, op);
  if ((flags & op_flag::kSlack) != 0) {
    out = store_varint(out, op.slack_us);
  }
  if ((flags & op_flag::kOrder) != 0) {
    COUNTWHEEL_ASSERT(op.base_lsn < op.lsn);
    out = store_varint(out, op.lsn - op.base_lsn);
  }
  if ((flags & op_flag::kCounters) != 0) {
    out = store_counters(out, op);
  }
  if ((flags & op_flag::kDead) != 0) {
    out = store_byte(out, static_cast<std::uint8_t>(op.reason));
  }
  if ((flags & op_flag::kText) != 0) {
    out = store_varint(out, op.text_bytes);
  }
  if ((flags & op_flag::kAttributes) != 0) {
    out = store_varint(out, op.attribute_bytes);
  }
  return store_varint(out, op.key_bytes);
}

// Everything but the data.
char* store_fixed(char* out, const Op& op, std::uint64_t gap) noexcept {
  const unsigned head = static_cast<unsigned>(op.kind) |
                        static_cast<unsigned>(op.durability) << op_head::kDurabilityShift |
                        (gap > 0 ? op_head::kGap : 0U);
  out = store_byte(out, static_cast<std::uint8_t>(head));
  if (gap > 0) {
    out = store_varint(out, gap);
  }
  const std::uint8_t clock = op.clock == ClockKind::kBoot ? op_flag::kBootClock : 0;
  switch (op.kind) {
    case OpKind::kSchedule:
      return store_schedule(out, op);
    case OpKind::kCancel:
    case OpKind::kDone:
    case OpKind::kCancelGroup:
      return store_word(out, op.id.value);
    case OpKind::kReschedule:
    case OpKind::kRescheduleGroup:
      return store_deadlines(store_word(store_byte(out, clock), op.id.value), op);
    case OpKind::kRetry: {
      const unsigned flags = clock | (op.attribute_bytes != 0 ? op_flag::kAttributes : 0U);
      out = store_byte(out, static_cast<std::uint8_t>(flags));
      out = store_counters(store_deadlines(store_word(out, op.id.value), op), op);
      return store_attribute_length(out, op);
    }
    case OpKind::kDead: {
      const unsigned reason = static_cast<unsigned>(op.reason) |
                              (op.attribute_bytes != 0 ? reason_flag::kAttributes : 0U);
      out = store_byte(store_word(out, op.id.value), static_cast<std::uint8_t>(reason));
      return store_attribute_length(store_counters(out, op), op);
    }
    case OpKind::kType:
      return store_varint(out, op.id.value);
    case OpKind::kNone:
      break;
  }
  COUNTWHEEL_ASSERT(false);
  return out;
}

char* store_op(char* out, const Op& op, std::uint64_t gap) noexcept {
  const std::string_view data = kept_data(op);
  char* end = nullptr;
  if (data.size() + kOpFixedBytesMax < 0x80) {
    // The length is one byte, whatever it will be: written in place, filled in afterwards.
    end = store_fixed(out + 1, op, gap);
    *out = static_cast<char>(static_cast<std::size_t>(end - out - 1) + data.size());
  } else {
    char fixed[kOpFixedBytesMax];
    const auto count = static_cast<std::size_t>(store_fixed(fixed, op, gap) - fixed);
    COUNTWHEEL_ASSERT(count <= sizeof(fixed));
    out = store_varint(out, count + data.size());
    std::memcpy(out, fixed, count);
    end = out + count;
  }
  if (!data.empty()) {
    std::memcpy(end, data.data(), data.size());
  }
  return end + data.size();
}

void store_header(const BlobHeader& header, const Batch& batch, std::string_view body, char* out) {
  unsigned flags = batch.clean_stop ? header_flag::kCleanStop : 0U;
  flags |= batch.sync ? header_flag::kSynced : 0U;
  std::memset(out, 0, kHeaderBytes);
  std::memcpy(out + header_at::kMagic, kMagic.data(), kMagic.size());
  out[header_at::kFormat] = static_cast<char>(kFormat);
  out[header_at::kFlags] = static_cast<char>(flags);
  out[header_at::kShardBits] = static_cast<char>(header.shard_bits);
  out[header_at::kSlotBits] = static_cast<char>(header.slot_bits);
  store_u32(out + header_at::kOpCount, batch.op_count);
  store_u32(out + header_at::kBodyBytes, static_cast<std::uint32_t>(body.size()));
  store_u64(out + header_at::kSequence, header.sequence);
  store_u64(out + header_at::kPrevious, header.previous);
  store_u64(out + header_at::kFirstLsn, batch.first_lsn);
  store_u64(out + header_at::kLastLsn, batch.last_lsn);
  store_u64(out + header_at::kLsnCeiling, batch.lsn_ceiling);
  store_u64(out + header_at::kEpoch, batch.epoch);
  store_u64(out + header_at::kSessionHash, batch.session_hash);
  store_u64(out + header_at::kWallNs, static_cast<std::uint64_t>(batch.wall_ns));
  store_u64(out + header_at::kLowWater, header.low_water);
  store_u64(out + header_at::kWatermark, header.watermark);
  std::memcpy(out + header_at::kStore, header.store.data(), header.store.size());
  store_u32(out + header_at::kGenerationCeiling, batch.generation_ceiling);
  store_u32(out + header_at::kBodyCrc, crc32c(body));
  store_u32(out + header_at::kHeaderCrc, crc32c({out, header_at::kHeaderCrc}));
}

}  // namespace

std::size_t encoded_bytes_max(const Batch& batch) noexcept {
  std::size_t bytes = kHeaderBytes;
  for (const Op& op : batch.ops) {
    bytes += kOpFixedBytesMax + std::size_t{op.key_bytes} + op.payload_bytes + op.text_bytes +
             op.attribute_bytes;
  }
  return bytes;
}

std::size_t encode(const BlobHeader& header, const Batch& batch, char* out) noexcept {
  char* const body = out + kHeaderBytes;
  char* end = body;
  std::uint64_t lsn = batch.first_lsn - 1;
  std::uint32_t count = 0;
  for (const Op& op : batch.ops) {
    if (op.kind == OpKind::kNone) {
      continue;
    }
    COUNTWHEEL_ASSERT(op.lsn > lsn && op.lsn <= batch.last_lsn);
    end = store_op(end, op, op.lsn - lsn - 1);
    lsn = op.lsn;
    ++count;
  }
  COUNTWHEEL_ASSERT(count == batch.op_count);
  const auto body_bytes = static_cast<std::size_t>(end - body);
  store_header(header, batch, {body, body_bytes}, out);
  return kHeaderBytes + body_bytes;
}

}  // namespace countwheel::wal
