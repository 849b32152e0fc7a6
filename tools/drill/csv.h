// Lines of comma-separated numbers, with errors that name file and line.
#ifndef COUNTWHEEL_TOOLS_DRILL_CSV_H_
#define COUNTWHEEL_TOOLS_DRILL_CSV_H_

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <countwheel/status.h>

namespace countwheel::drill {

// Thread contract: distinct objects: safe. Shared objects: unsafe.
class CsvReader {
 public:
  // Reads standard input when `path` is "-". failed() tells whether the file could be opened.
  explicit CsvReader(const std::string& path);
  // For tests. `input` must outlive the reader; `name` stands in errors.
  CsvReader(std::istream& input, std::string name);

  // ok if there is something to read; `not_found` names the file.
  Status status() const;

  // The fields of the next line that is not empty, valid until the next call; false at the end.
  bool next(std::vector<std::string_view>* fields);

  // A Status `invalid_argument` with "NAME:LINE: what".
  Status error(std::string_view what) const;

  std::uint64_t line() const noexcept { return line_; }

 private:
  std::ifstream file_;
  std::istream* input_;
  std::string name_;
  std::string text_;
  std::uint64_t line_ = 0;
};

// A whole number and nothing else.
std::optional<std::int64_t> integer_of(std::string_view text);

// A number with up to nine digits behind the point, in billionths: seconds become nanoseconds
// without passing through a double, which cannot hold them.
std::optional<std::int64_t> billionths_of(std::string_view text);

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_CSV_H_
