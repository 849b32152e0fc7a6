#include "json.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>

#include <boost/json/src.hpp>

namespace countwheel::tools {

namespace {

void append(const boost::json::value& value, std::string* line);

// The library writes 12.5 as 1.25E1, which is right and which nobody wants to read.
void append(double number, std::string* line) {
  char digits[400];
  const auto [end, error] =
      std::to_chars(digits, digits + sizeof(digits), number, std::chars_format::fixed);
  const bool printable = error == std::errc() && std::isfinite(number);
  line->append(printable ? std::string_view(digits, end) : "null");
}

void append(const boost::json::object& object, std::string* line) {
  const char* separator = "{";
  for (const auto& member : object) {
    *line += separator;
    *line += boost::json::serialize(boost::json::string(member.key()));
    *line += ':';
    append(member.value(), line);
    separator = ",";
  }
  *line += object.empty() ? "{}" : "}";
}

void append(const boost::json::array& array, std::string* line) {
  const char* separator = "[";
  for (const boost::json::value& element : array) {
    *line += separator;
    append(element, line);
    separator = ",";
  }
  *line += array.empty() ? "[]" : "]";
}

void append(const boost::json::value& value, std::string* line) {
  if (value.is_double()) {
    append(value.get_double(), line);
  } else if (value.is_object()) {
    append(value.get_object(), line);
  } else if (value.is_array()) {
    append(value.get_array(), line);
  } else {
    *line += boost::json::serialize(value);
  }
}

}  // namespace

void print_json(const boost::json::value& value) {
  std::string line;
  append(value, &line);
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stdout);
}

}  // namespace countwheel::tools
