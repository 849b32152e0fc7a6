// Format 1 of a blob: one group commit as bytes. docs/log-format.md says the same in words.
//
//   blob   = header op*                    little-endian throughout
//   header = 128 bytes                     the offsets are below
//   op     = length:varint body[length]    a reader may skip what it does not know
//   body   = head [gap] fields
//   head   = kind:5 durability:2 gap:1     gap says that LSNs were passed over (elided)
//
// Pure functions over bytes. Any bytes may be given to the decoders: they answer with a Status,
// read nothing outside, and use memory in proportion to what they were given.
#ifndef COUNTWHEEL_WAL_RECORD_H_
#define COUNTWHEEL_WAL_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <countwheel/journal.h>
#include <countwheel/status.h>
#include <countwheel/wal.h>

namespace countwheel::wal {

inline constexpr std::uint8_t kFormat = 1;
inline constexpr std::string_view kMagic = "CWB";

// Places in the header. Persistent: do not change the values of existing ones.
namespace header_at {
inline constexpr std::size_t kMagic = 0;                // 3 bytes
inline constexpr std::size_t kFormat = 3;               // 1
inline constexpr std::size_t kFlags = 4;                // 1: clean_stop, synced
inline constexpr std::size_t kShardBits = 5;            // 1
inline constexpr std::size_t kSlotBits = 6;             // 1
inline constexpr std::size_t kReserved = 7;             // 1, zero
inline constexpr std::size_t kOpCount = 8;              // 4
inline constexpr std::size_t kBodyBytes = 12;           // 4: everything behind the header
inline constexpr std::size_t kSequence = 16;            // 8
inline constexpr std::size_t kPrevious = 24;            // 8
inline constexpr std::size_t kFirstLsn = 32;            // 8
inline constexpr std::size_t kLastLsn = 40;             // 8
inline constexpr std::size_t kLsnCeiling = 48;          // 8
inline constexpr std::size_t kEpoch = 56;               // 8
inline constexpr std::size_t kSessionHash = 64;         // 8
inline constexpr std::size_t kWallNs = 72;              // 8
inline constexpr std::size_t kLowWater = 80;            // 8
inline constexpr std::size_t kWatermark = 88;           // 8
inline constexpr std::size_t kStore = 96;               // 16
inline constexpr std::size_t kGenerationCeiling = 112;  // 4
inline constexpr std::size_t kReserved2 = 116;          // 4, zero
inline constexpr std::size_t kBodyCrc = 120;            // 4: crc32c of the body
inline constexpr std::size_t kHeaderCrc = 124;          // 4: crc32c of bytes 0 to 123
}  // namespace header_at
inline constexpr std::size_t kHeaderBytes = 128;

// The highest values that format 1 knows; higher ones are `version`.
inline constexpr OpKind kLastKind = OpKind::kRescheduleGroup;
inline constexpr Durability kLastDurability = Durability::kDisk;

namespace header_flag {
inline constexpr std::uint8_t kCleanStop = 1;
inline constexpr std::uint8_t kSynced = 2;
inline constexpr std::uint8_t kKnown = kCleanStop | kSynced;
}  // namespace header_flag

// The head byte of an operation.
namespace op_head {
inline constexpr std::uint8_t kKindMask = 0x1f;
inline constexpr int kDurabilityShift = 5;
inline constexpr std::uint8_t kGap = 0x80;
}  // namespace op_head

// The second byte of operations with a deadline.
namespace op_flag {
inline constexpr std::uint8_t kBootClock = 1;
inline constexpr std::uint8_t kSlack = 2;        // kSchedule only, as those below
inline constexpr std::uint8_t kOrder = 4;        // the cleaner's: an order LSN of its own
inline constexpr std::uint8_t kCounters = 8;     // failures, attempts, crashes
inline constexpr std::uint8_t kDead = 16;        // a reason
inline constexpr std::uint8_t kText = 32;        // the last error
inline constexpr std::uint8_t kAttributes = 64;  // kRetry too
inline constexpr std::uint8_t kKnown = 127;
}  // namespace op_flag

// The byte of a kDead that holds the reason.
namespace reason_flag {
inline constexpr std::uint8_t kAttributes = 0x80;
}  // namespace reason_flag

// Everything of an operation but its key, payload and text.
inline constexpr std::size_t kOpFixedBytesMax = 96;
// No blob is larger, and no record of ours is believed that says so.
inline constexpr std::size_t kBlobBytesMax = std::size_t{1} << 30;

// What encode() needs at most.
std::size_t encoded_bytes_max(const Batch& batch) noexcept;

// Writes the blob of `batch` to `out`, which has room for encoded_bytes_max(), and says how long it
// is. `header` gives what the batch does not know: sequence, watermark, low water, store, bits.
std::size_t encode(const BlobHeader& header, const Batch& batch, char* out) noexcept;

// `corrupt` or `version`; checks both checksums.
Status decode_header(std::string_view blob, BlobHeader* header);

// Replaces `ops`. The operations point into `blob`.
// REQUIRES: decode_header() was ok for this blob.
Status decode_ops(std::string_view blob, const BlobHeader& header, std::vector<Op>* ops);

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_RECORD_H_
