#include "text.h"

#include <charconv>
#include <chrono>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

namespace countwheel::tools {

std::string escaped(std::string_view bytes, std::size_t limit_bytes) {
  constexpr std::string_view kMore = "...";
  std::string text;
  std::size_t fits = 0;  // length of the longest prefix that leaves room for kMore
  for (const char c : bytes) {
    if (text.size() + kMore.size() <= limit_bytes) {
      fits = text.size();
    }
    if (c == '\\' || c == '"') {
      text += '\\';
      text += c;
    } else if (c >= 0x20 && c < 0x7f) {
      text += c;
    } else {
      text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    if (text.size() > limit_bytes) {
      text.resize(fits);
      text += kMore;
      break;
    }
  }
  return text;
}

std::string hex(std::string_view bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char c : bytes) {
    fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<unsigned char>(c));
  }
  return text;
}

std::optional<std::uint64_t> parse_id(std::string_view text) {
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
  }
  std::uint64_t id = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, id, 16);
  return error == std::errc() && stopped == end ? std::optional(id) : std::nullopt;
}

std::string utc(std::int64_t wall_ns) {
  using std::chrono::days;
  using std::chrono::floor;
  using std::chrono::nanoseconds;
  const std::chrono::sys_time<nanoseconds> time{nanoseconds(wall_ns)};
  const std::chrono::sys_days day = floor<days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z",
                     static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()),
                     clock.hours().count(),
                     clock.minutes().count(),
                     clock.seconds().count(),
                     clock.subseconds().count());
}

}  // namespace countwheel::tools
