#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "bytes.h"
#include "crc32c.h"
#include "record.h"

namespace countwheel::wal {
namespace {

Status corrupt(std::string text) {
  return Status(Code::kCorrupt, std::move(text));
}

Status newer(const std::string& what) {
  return Status(Code::kVersion, what + ": written by a newer version, this build reads format 1");
}

TaskId read_id(ByteReader& reader) noexcept {
  return TaskId{reader.u64()};
}

void read_deadlines(ByteReader& reader, Op* op) noexcept {
  op->wall_deadline_ns = static_cast<std::int64_t>(reader.u64());
  if (op->clock == ClockKind::kBoot) {
    op->boot_deadline_ns = static_cast<std::int64_t>(reader.u64());
  }
}

template <class Integer>
Integer read_small(ByteReader& reader) noexcept {
  return static_cast<Integer>(reader.varint_up_to(std::numeric_limits<Integer>::max()));
}

void read_counters(ByteReader& reader, Op* op) noexcept {
  op->failures = read_small<std::uint16_t>(reader);
  op->attempts = read_small<std::uint16_t>(reader);
  op->crashes = read_small<std::uint8_t>(reader);
}

// The clock and the flags this kind may have; false if there are others.
bool read_flags(ByteReader& reader, std::uint8_t known, std::uint8_t* flags, Op* op) noexcept {
  *flags = reader.u8();
  op->clock = (*flags & op_flag::kBootClock) != 0 ? ClockKind::kBoot : ClockKind::kWall;
  return (*flags & ~known) == 0;
}

// False when this build does not know it.
bool set_reason(int reason, Op* op) noexcept {
  op->reason = static_cast<DeadReason>(reason);
  return reason <= static_cast<int>(kLastDeadReason);
}

std::uint8_t known_flags(OpKind kind) noexcept {
  return kind == OpKind::kRetry ? op_flag::kBootClock | op_flag::kAttributes : op_flag::kBootClock;
}

Status read_schedule(ByteReader& reader, Op* op) {
  std::uint8_t flags = 0;
  if (!read_flags(reader, op_flag::kKnown, &flags, op)) {
    return newer("schedule with flags " + std::to_string(flags));
  }
  op->id = read_id(reader);
  op->type = read_small<std::uint16_t>(reader);
  read_deadlines(reader, op);
  if ((flags & op_flag::kSlack) != 0) {
    op->slack_us = read_small<std::uint32_t>(reader);
  }
  op->base_lsn = op->lsn;
  if ((flags & op_flag::kOrder) != 0) {
    op->base_lsn = op->lsn - reader.varint_up_to(op->lsn);
  }
  if ((flags & op_flag::kCounters) != 0) {
    read_counters(reader, op);
  }
  std::uint64_t text = 0;
  if ((flags & op_flag::kDead) != 0) {
    op->dead = true;
    if (!set_reason(reader.u8(), op)) {
      return newer("dead letter with an unknown reason");
    }
  }
  if ((flags & op_flag::kText) != 0) {
    text = read_small<std::uint16_t>(reader);
  }
  if ((flags & op_flag::kAttributes) != 0) {
    op->attribute_bytes = read_small<std::uint16_t>(reader);
  }
  op->key_bytes = read_small<std::uint16_t>(reader);
  if (!reader.ok() || op->key_bytes + text + op->attribute_bytes > reader.left()) {
    return corrupt("schedule shorter than it says");
  }
  op->text_bytes = static_cast<std::uint16_t>(text);
  op->payload_bytes =
      static_cast<std::uint32_t>(reader.left() - op->key_bytes - text - op->attribute_bytes);
  op->data = reader.rest().data();
  return {};
}

// What is left of a retry or a dead letter.
Status read_text(ByteReader& reader, bool has_attributes, Op* op) {
  if (has_attributes) {
    op->attribute_bytes = read_small<std::uint16_t>(reader);
  }
  if (!reader.ok() || op->attribute_bytes > reader.left()) {
    return corrupt("attributes longer than their operation");
  }
  const std::size_t text = reader.left() - op->attribute_bytes;
  if (text > std::numeric_limits<std::uint16_t>::max()) {
    return corrupt("text of " + std::to_string(text) + " bytes");
  }
  op->text_bytes = static_cast<std::uint16_t>(text);
  op->data = reader.rest().data();
  return {};
}

Status read_fields(ByteReader& reader, Op* op) {
  std::uint8_t flags = 0;
  switch (op->kind) {
    case OpKind::kSchedule:
      return read_schedule(reader, op);
    case OpKind::kCancel:
    case OpKind::kCancelGroup:
      op->id = read_id(reader);
      return {};
    case OpKind::kDone:
      op->id = read_id(reader);
      op->attribute_bytes = static_cast<std::uint16_t>(
          std::min<std::size_t>(reader.left(), std::numeric_limits<std::uint16_t>::max()));
      op->data = reader.rest().data();
      return {};
    case OpKind::kReschedule:
    case OpKind::kRescheduleGroup:
    case OpKind::kRetry:
      if (!read_flags(reader, known_flags(op->kind), &flags, op)) {
        return newer("operation with flags " + std::to_string(flags));
      }
      op->id = read_id(reader);
      read_deadlines(reader, op);
      if (op->kind != OpKind::kRetry) {
        return {};
      }
      read_counters(reader, op);
      return read_text(reader, (flags & op_flag::kAttributes) != 0, op);
    case OpKind::kDead: {
      op->id = read_id(reader);
      const std::uint8_t reason = reader.u8();
      if (!set_reason(reason & ~reason_flag::kAttributes, op)) {
        return newer("dead letter with an unknown reason");
      }
      read_counters(reader, op);
      return read_text(reader, (reason & reason_flag::kAttributes) != 0, op);
    }
    case OpKind::kType:
      op->id = TaskId{read_small<std::uint16_t>(reader)};
      op->payload_bytes = static_cast<std::uint32_t>(reader.left());
      op->data = reader.rest().data();
      return {};
    case OpKind::kNone:
      break;
  }
  return corrupt("operation of kind 0");
}

// One operation; `lsn` is that of the one before.
Status read_op(std::string_view body, std::uint64_t lsn, Op* op) {
  ByteReader reader(body);
  const std::uint8_t head = reader.u8();
  const std::uint8_t kind = head & op_head::kKindMask;
  const std::uint8_t durability = (head >> op_head::kDurabilityShift) & 3U;
  if (kind > static_cast<std::uint8_t>(kLastKind)) {
    return newer("operation of kind " + std::to_string(kind));
  }
  if (durability > static_cast<std::uint8_t>(kLastDurability)) {
    return newer("operation of durability " + std::to_string(durability));
  }
  op->kind = static_cast<OpKind>(kind);
  op->durability = static_cast<Durability>(durability);
  const std::uint64_t gap = (head & op_head::kGap) != 0 ? reader.varint() : 0;
  if (gap >= std::numeric_limits<std::uint64_t>::max() - lsn) {
    return corrupt("LSN beyond 64 bits");
  }
  op->lsn = lsn + 1 + gap;
  Status status = read_fields(reader, op);
  if (status.ok() && (!reader.ok() || reader.left() > 0)) {
    return corrupt("operation of kind " + std::to_string(kind) + " of the wrong length");
  }
  if (status.ok() && op->kind != OpKind::kType && op->id.value == 0) {
    return corrupt("operation on task 0");
  }
  return status;
}

Status check_header(const BlobHeader& header) {
  if (header.sequence == 0 || header.previous != header.sequence - 1) {
    return corrupt("blob " + std::to_string(header.sequence) + " follows blob " +
                   std::to_string(header.previous));
  }
  if (header.low_water == 0 || header.low_water > header.sequence) {
    return corrupt("low-water mark " + std::to_string(header.low_water));
  }
  if (header.watermark >= header.sequence) {
    return corrupt("watermark " + std::to_string(header.watermark));
  }
  if (header.op_count > 0 && (header.first_lsn == 0 || header.first_lsn > header.last_lsn)) {
    return corrupt("LSNs " + std::to_string(header.first_lsn) + " to " +
                   std::to_string(header.last_lsn));
  }
  return {};
}

void load_header(std::string_view blob, BlobHeader* header) {
  const char* bytes = blob.data();
  const auto flags = static_cast<std::uint8_t>(bytes[header_at::kFlags]);
  header->format = static_cast<std::uint8_t>(bytes[header_at::kFormat]);
  header->clean_stop = (flags & header_flag::kCleanStop) != 0;
  header->synced = (flags & header_flag::kSynced) != 0;
  header->shard_bits = static_cast<std::uint8_t>(bytes[header_at::kShardBits]);
  header->slot_bits = static_cast<std::uint8_t>(bytes[header_at::kSlotBits]);
  header->op_count = load_u32(bytes + header_at::kOpCount);
  header->generation_ceiling = load_u32(bytes + header_at::kGenerationCeiling);
  header->sequence = load_u64(bytes + header_at::kSequence);
  header->previous = load_u64(bytes + header_at::kPrevious);
  header->first_lsn = load_u64(bytes + header_at::kFirstLsn);
  header->last_lsn = load_u64(bytes + header_at::kLastLsn);
  header->lsn_ceiling = load_u64(bytes + header_at::kLsnCeiling);
  header->epoch = load_u64(bytes + header_at::kEpoch);
  header->session_hash = load_u64(bytes + header_at::kSessionHash);
  header->wall_ns = static_cast<std::int64_t>(load_u64(bytes + header_at::kWallNs));
  header->low_water = load_u64(bytes + header_at::kLowWater);
  header->watermark = load_u64(bytes + header_at::kWatermark);
  header->bytes = blob.size();
  std::memcpy(header->store.data(), bytes + header_at::kStore, header->store.size());
}

}  // namespace

Status decode_header(std::string_view blob, BlobHeader* header) {
  if (blob.size() < kHeaderBytes || blob.substr(0, kMagic.size()) != kMagic) {
    return corrupt("not a blob");
  }
  const auto format = static_cast<std::uint8_t>(blob[header_at::kFormat]);
  if (format == 0) {
    return corrupt("format 0");
  }
  if (format > kFormat) {
    return Status(Code::kVersion,
                  "written by format " + std::to_string(format) + ", this build reads format " +
                      std::to_string(kFormat));
  }
  if (load_u32(blob.data() + header_at::kHeaderCrc) !=
      crc32c(blob.substr(0, header_at::kHeaderCrc))) {
    return corrupt("checksum of the header does not match");
  }
  const auto flags = static_cast<std::uint8_t>(blob[header_at::kFlags]);
  if ((flags & ~header_flag::kKnown) != 0 || blob[header_at::kReserved] != 0 ||
      load_u32(blob.data() + header_at::kReserved2) != 0) {
    return newer("header with reserved bits set");
  }
  if (load_u32(blob.data() + header_at::kBodyBytes) != blob.size() - kHeaderBytes) {
    return corrupt("blob of " + std::to_string(blob.size()) + " bytes says otherwise");
  }
  if (load_u32(blob.data() + header_at::kBodyCrc) != crc32c(blob.substr(kHeaderBytes))) {
    return corrupt("checksum of the body does not match");
  }
  load_header(blob, header);
  return check_header(*header);
}

Status decode_ops(std::string_view blob, const BlobHeader& header, std::vector<Op>* ops) {
  ops->clear();
  ByteReader reader(blob.substr(kHeaderBytes));
  std::uint64_t lsn = header.first_lsn - 1;
  while (reader.left() > 0) {
    const std::string_view body = reader.bytes(reader.varint());
    Op& op = ops->emplace_back();
    Status status = reader.ok() ? read_op(body, lsn, &op) : corrupt("operation past the end");
    if (status.ok() && op.lsn > header.last_lsn) {
      status = corrupt("LSN " + std::to_string(op.lsn) + " above that of the header");
    }
    if (!status.ok()) {
      return Status(status.code(),
                    "operation " + std::to_string(ops->size() - 1) + ": " + status.detail());
    }
    lsn = op.lsn;
  }
  if (ops->size() != header.op_count) {
    return corrupt(std::to_string(ops->size()) + " operations instead of " +
                   std::to_string(header.op_count));
  }
  return {};
}

}  // namespace countwheel::wal
