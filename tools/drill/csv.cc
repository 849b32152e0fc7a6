#include "csv.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <iostream>
#include <utility>

namespace countwheel::drill {

CsvReader::CsvReader(const std::string& path) : input_(&std::cin), name_("standard input") {
  if (path != "-") {
    file_.open(path);
    input_ = &file_;
    name_ = path;
  }
}

CsvReader::CsvReader(std::istream& input, std::string name)
    : input_(&input), name_(std::move(name)) {}

Status CsvReader::status() const {
  if (input_ == &file_ && !file_.is_open()) {
    return Status(Code::kNotFound, name_ + ": cannot be opened: " + std::strerror(errno));
  }
  return {};
}

bool CsvReader::next(std::vector<std::string_view>* fields) {
  fields->clear();
  while (std::getline(*input_, text_)) {
    ++line_;
    if (!text_.empty() && text_.back() == '\r') {
      text_.pop_back();
    }
    if (text_.empty()) {
      continue;
    }
    std::string_view rest = text_;
    for (std::size_t comma = rest.find(','); comma != std::string_view::npos;
         comma = rest.find(',')) {
      fields->push_back(rest.substr(0, comma));
      rest.remove_prefix(comma + 1);
    }
    fields->push_back(rest);
    return true;
  }
  return false;
}

Status CsvReader::error(std::string_view what) const {
  return Status(Code::kInvalidArgument,
                name_ + ":" + std::to_string(line_) + ": " + std::string(what));
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::int64_t> billionths_of(std::string_view text) {
  const std::size_t point = text.find('.');
  const std::optional<std::int64_t> whole = integer_of(text.substr(0, point));
  if (!whole || *whole < 0 || *whole > 9'000'000'000) {
    return std::nullopt;
  }
  std::int64_t value = *whole * 1'000'000'000;
  if (point == std::string_view::npos) {
    return value;
  }
  std::int64_t unit = 100'000'000;
  for (const char digit : text.substr(point + 1)) {
    if (digit < '0' || digit > '9') {
      return std::nullopt;
    }
    value += (digit - '0') * unit;
    unit /= 10;  // Digits beyond the ninth add nothing.
  }
  return value;
}

}  // namespace countwheel::drill
