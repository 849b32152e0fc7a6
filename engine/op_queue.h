// OpQueue: operations on their way to the log, in LSN order.
//
// A queue is filled under the journal lock and then swapped whole to the group commit. Keys and
// payloads are copied into blocks that do not move, so an operation is a value that names nothing
// of the table: its task may be cancelled, moved or replaced meanwhile.
#ifndef COUNTWHEEL_ENGINE_OP_QUEUE_H_
#define COUNTWHEEL_ENGINE_OP_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <countwheel/journal.h>

#include "node.h"

namespace countwheel::detail {

// What an upsert or a reschedule replaced, until its record is written.
struct Undo {
  std::size_t position = 0;  // of the operation in its queue
  NodeContent before;
  bool has_data = false;  // an upsert: key and payload were replaced too
  std::string data;       // the old key and payload
  std::uint16_t key_bytes = 0;
  std::string attributes;      // the old ones, encoded
  std::optional<Touch> touch;  // the old one
};

// The bytes of an operation. Views need to live only until it is queued.
struct OpBytes {
  std::string_view key = {};
  std::string_view payload = {};
  std::string_view text = {};
  std::string_view attributes = {};
  std::string_view writes = {};  // the application's; apart from the others

  std::size_t size() const noexcept {
    return key.size() + payload.size() + text.size() + attributes.size();
  }
};

// The bytes of operations: blocks that never move, reused after clear().
class ByteArena {
 public:
  static constexpr std::size_t kBlockBytes = 256 * 1024;

  char* take(std::size_t bytes) {
    if (bytes > kBlockBytes) {
      large_.push_back(std::make_unique<char[]>(bytes));
      return large_.back().get();
    }
    if (used_ + bytes > kBlockBytes || blocks_.empty()) {
      if (!blocks_.empty()) {
        ++current_;
      }
      if (current_ == blocks_.size()) {
        blocks_.push_back(std::make_unique_for_overwrite<char[]>(kBlockBytes));
      }
      used_ = 0;
    }
    char* place = blocks_[current_].get() + used_;
    used_ += bytes;
    return place;
  }

  void clear() {
    large_.clear();
    // A burst's blocks go back, a usual batch's stay.
    constexpr std::size_t kKeptBlocks = 64;
    if (blocks_.size() > kKeptBlocks) {
      blocks_.resize(kKeptBlocks);
    }
    current_ = 0;
    used_ = 0;
  }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::vector<std::unique_ptr<char[]>> large_;
  std::size_t current_ = 0;
  std::size_t used_ = 0;
};

struct OpQueue {
  std::vector<Op> ops;
  std::vector<Undo> undos;       // ascending by position
  std::vector<OpWrites> writes;  // ascending by LSN; of few operations, so they stand apart
  std::size_t writes_bytes = 0;
  ByteArena arena;

  bool empty() const noexcept { return ops.empty(); }

  void push(const Op& op, const OpBytes& bytes) {
    Op& pushed = ops.emplace_back(op);
    pushed.key_bytes = static_cast<std::uint16_t>(bytes.key.size());
    pushed.payload_bytes = static_cast<std::uint32_t>(bytes.payload.size());
    pushed.text_bytes = static_cast<std::uint16_t>(bytes.text.size());
    pushed.attribute_bytes = static_cast<std::uint16_t>(bytes.attributes.size());
    if (bytes.size() == 0) {
      return;
    }
    char* to = arena.take(bytes.size());
    pushed.data = to;
    for (const std::string_view part : {bytes.key, bytes.payload, bytes.text, bytes.attributes}) {
      if (!part.empty()) {
        std::memcpy(to, part.data(), part.size());
        to += part.size();
      }
    }
  }

  // For the operation of this LSN, which is the last. Kept out of the way of those without.
  [[gnu::cold, gnu::noinline]] void push_writes(std::uint64_t lsn, std::string_view bytes) {
    char* to = arena.take(bytes.size());
    std::memcpy(to, bytes.data(), bytes.size());
    writes.push_back({lsn, {to, bytes.size()}});
    writes_bytes += bytes.size();
  }

  // Those of the operations from `first_lsn` to `last_lsn`.
  std::span<const OpWrites> writes_between(std::uint64_t first_lsn, std::uint64_t last_lsn) const {
    const auto below = [](const OpWrites& left, std::uint64_t lsn) { return left.lsn < lsn; };
    const auto begin = std::lower_bound(writes.begin(), writes.end(), first_lsn, below);
    return {begin, std::lower_bound(begin, writes.end(), last_lsn + 1, below)};
  }
  bool has_writes(const Op& op) const {
    return !writes.empty() && !writes_between(op.lsn, op.lsn).empty();
  }
  std::string_view writes_of(const Op& op) const {
    return has_writes(op) ? writes_between(op.lsn, op.lsn).front().bytes : std::string_view();
  }

  void clear() {
    ops.clear();
    undos.clear();
    writes.clear();
    writes_bytes = 0;
    arena.clear();
  }
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_OP_QUEUE_H_
