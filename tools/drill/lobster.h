// Recordings of limit order messages in the LOBSTER format, without a header:
//
//   34200.004241176,1,16113575,18,5853300,1
//   time, type, order id, size, price, direction
//
// Time is seconds after midnight; types are 1 arrival, 2 partial cancel, 3 cancel, 4 execution of a
// visible order, 5 of a hidden one, 6 cross trade, 7 halt (5 to 7 name no order that rests). The
// first line may name the columns.
#ifndef COUNTWHEEL_TOOLS_DRILL_LOBSTER_H_
#define COUNTWHEEL_TOOLS_DRILL_LOBSTER_H_

#include <cstdint>

#include <countwheel/status.h>

#include "csv.h"
#include "recording.h"

namespace countwheel::drill {

// `facts` may be null. `invalid_argument` names file and line of the first line that is not as
// above, and a file without orders.
Result<Flow> read_lobster(CsvReader& reader, std::uint64_t order_limit, RecordingFacts* facts);

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_LOBSTER_H_
