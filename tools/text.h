// Bytes and figures as people read them.
#ifndef COUNTWHEEL_TOOLS_TEXT_H_
#define COUNTWHEEL_TOOLS_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace countwheel::tools {

// Printable ASCII as it is, everything else as \xNN, backslash and quote escaped; at most
// `limit_bytes` of the result, the last three being "..." when something was left out. Safe for
// terminals and logs whatever the bytes are.
std::string escaped(std::string_view bytes, std::size_t limit_bytes = 64);

// Two lower-case digits a byte.
std::string hex(std::string_view bytes);

// A task id in hexadecimal, with or without 0x; nothing when it is none.
std::optional<std::uint64_t> parse_id(std::string_view text);

// A moment of the wall clock: 2026-01-05T09:00:00.000000001Z.
std::string utc(std::int64_t wall_ns);

}  // namespace countwheel::tools

#endif  // COUNTWHEEL_TOOLS_TEXT_H_
