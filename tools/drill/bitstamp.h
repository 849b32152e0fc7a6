// Recordings of order events as Bitstamp publishes them:
//
//   id,timestamp,exchange.timestamp,price,volume,action,direction
//   65595247,1430438404518,1430438404000,236.47,200000000,created,bid
//
// Times are milliseconds since 1970, actions are created, changed and deleted; a line with volume 0
// at its deletion is a fill, every other deletion a cancel. The first line may name the columns.
#ifndef COUNTWHEEL_TOOLS_DRILL_BITSTAMP_H_
#define COUNTWHEEL_TOOLS_DRILL_BITSTAMP_H_

#include <cstdint>

#include <countwheel/status.h>

#include "csv.h"
#include "recording.h"

namespace countwheel::drill {

// `facts` may be null. `invalid_argument` names file and line of the first line that is not as
// above, and a file without orders.
Result<Flow> read_bitstamp(CsvReader& reader, std::uint64_t order_limit, RecordingFacts* facts);

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_BITSTAMP_H_
