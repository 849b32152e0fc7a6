// Attributes: what only some tasks have, kept beside the node and behind the record.
//
// Encoded as {tag:1 value:8} pairs, little-endian, in ascending order of tags; the delays of a
// retry list repeat their tag. The log keeps the bytes and does not look into them.
#ifndef COUNTWHEEL_ENGINE_ATTRIBUTES_H_
#define COUNTWHEEL_ENGINE_ATTRIBUTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <countwheel/retry.h>
#include <countwheel/status.h>
#include <countwheel/task.h>

namespace countwheel::detail {

struct Attributes {
  std::optional<RetryPolicy> retry;             // instead of its type's
  std::optional<std::int64_t> max_lateness_ns;  // instead of its type's
  // The deadline of its first attempt on the wall, once it has failed with a total timeout; 0 else.
  std::int64_t first_due_wall_ns = 0;
  TaskId requeued_from;
  std::uint64_t group = 0;
  // Of dead letters.
  std::int64_t died_wall_ns = 0;
  DeadReason reason = DeadReason::kNone;

  bool empty() const noexcept {
    return !retry && !max_lateness_ns && first_due_wall_ns == 0 && !requeued_from && group == 0 &&
           died_wall_ns == 0 && reason == DeadReason::kNone;
  }
};

// Longer lists are refused: what is encoded stays below 1 KiB.
inline constexpr std::size_t kRetryDelaysMax = 64;

std::string encode(const Attributes& attributes);

// `version` for a tag this build does not know, `corrupt` for anything else that makes no sense.
Result<Attributes> decode_attributes(std::string_view bytes);

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_ATTRIBUTES_H_
