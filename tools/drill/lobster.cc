#include "lobster.h"

#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace countwheel::drill {

namespace {

constexpr std::size_t kFieldCount = 6;

bool names_columns(std::string_view field) {
  return !field.empty() && std::isalpha(static_cast<unsigned char>(field.front())) != 0;
}

}  // namespace

Result<Flow> read_lobster(CsvReader& reader, std::uint64_t order_limit, RecordingFacts* facts) {
  if (Status status = reader.status(); !status.ok()) {
    return status;
  }
  Recording recording("lobster", order_limit);
  std::vector<std::string_view> fields;
  while (reader.next(&fields)) {
    if (reader.line() == 1 && names_columns(fields.front())) {
      continue;
    }
    if (fields.size() < kFieldCount) {
      return reader.error("6 fields are expected, this line has " + std::to_string(fields.size()));
    }
    const std::optional<std::int64_t> at_ns = billionths_of(fields[0]);
    const std::optional<std::int64_t> type = integer_of(fields[1]);
    const std::optional<std::int64_t> id = integer_of(fields[2]);
    const std::optional<std::int64_t> size = integer_of(fields[3]);
    const std::optional<std::int64_t> price = integer_of(fields[4]);
    const std::optional<std::int64_t> direction = integer_of(fields[5]);
    if (!at_ns || !id || !size || !price || *size < 0) {
      return reader.error("a time in seconds, an id, a size of 0 or more and a price are expected");
    }
    if (!type || *type < 1 || *type > 7) {
      return reader.error("the type is 1 to 7");
    }
    if (!direction || (*direction != 1 && *direction != -1)) {
      return reader.error("the direction is 1 or -1");
    }
    if (*type == 1) {
      recording.arrive(*id, *at_ns, *direction == 1, *price, *size);
    } else if (*type == 2 || *type == 4) {
      recording.reduce(*id, *at_ns, *size, *type == 4);
    } else if (*type == 3) {
      recording.end(*id, *at_ns, LifeEnd::kCancel);
    }
  }
  if (facts != nullptr) {
    *facts = recording.facts();
  }
  Flow flow = std::move(recording).flow();
  if (flow.orders.empty()) {
    return reader.error("the file ends without an order");
  }
  return flow;
}

}  // namespace countwheel::drill
