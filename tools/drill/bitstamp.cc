#include "bitstamp.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace countwheel::drill {

namespace {

constexpr std::size_t kFieldCount = 7;

// The largest time whose nanoseconds fit.
constexpr std::int64_t kMaxMs = 9'000'000'000'000;

}  // namespace

Result<Flow> read_bitstamp(CsvReader& reader, std::uint64_t order_limit, RecordingFacts* facts) {
  if (Status status = reader.status(); !status.ok()) {
    return status;
  }
  Recording recording("bitstamp", order_limit);
  std::vector<std::string_view> fields;
  while (reader.next(&fields)) {
    if (reader.line() == 1 && fields.front() == "id") {
      continue;
    }
    if (fields.size() != kFieldCount) {
      return reader.error("7 fields are expected, this line has " + std::to_string(fields.size()));
    }
    const std::optional<std::int64_t> id = integer_of(fields[0]);
    const std::optional<std::int64_t> time_ms = integer_of(fields[1]);
    const std::optional<std::int64_t> price = billionths_of(fields[3]);
    const std::optional<std::int64_t> volume = integer_of(fields[4]);
    if (!id || !time_ms || *time_ms < 0 || *time_ms > kMaxMs) {
      return reader.error("an id and a time in milliseconds are expected");
    }
    if (!price || !volume || *volume < 0) {
      return reader.error("a price and a volume of 0 or more are expected");
    }
    if (fields[6] != "bid" && fields[6] != "ask") {
      return reader.error("the direction is bid or ask");
    }
    const std::int64_t at_ns = *time_ms * 1'000'000;
    if (fields[5] == "created") {
      recording.arrive(*id, at_ns, fields[6] == "bid", *price, *volume);
    } else if (fields[5] == "changed") {
      recording.reduce_to(*id, at_ns, *volume, true);
    } else if (fields[5] == "deleted") {
      recording.end(*id, at_ns, *volume == 0 ? LifeEnd::kFill : LifeEnd::kCancel);
    } else {
      return reader.error("the action is created, changed or deleted");
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
