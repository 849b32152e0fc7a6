// Recording: collects the orders of a file, whatever its format, into a Flow.
#ifndef COUNTWHEEL_TOOLS_DRILL_RECORDING_H_
#define COUNTWHEEL_TOOLS_DRILL_RECORDING_H_

#include <cstdint>
#include <string>
#include <unordered_map>

#include "flow.h"

namespace countwheel::drill {

// What a file held.
struct RecordingFacts {
  std::uint64_t event_count = 0;
  std::uint64_t id_count = 0;
  std::uint64_t earlier_count = 0;       // ids that did not arrive in this file first
  std::uint64_t cancel_count = 0;        // ids that ended cancelled, earlier ones included
  std::uint64_t fill_count = 0;          // and filled
  std::uint64_t repeated_end_count = 0;  // ids that ended more than once; the first counts
  std::uint64_t reduction_count = 0;     // of orders that arrived in this file
};

// Orders that were there before the file begins are counted and left out: nobody knows their lives.
// Thread contract: distinct objects: safe. Shared objects: unsafe.
class Recording {
 public:
  // `order_limit`: later orders are left out.
  Recording(std::string name, std::uint64_t order_limit);

  void arrive(std::int64_t id,
              std::int64_t at_ns,
              bool buy,
              std::int64_t price,
              std::int64_t quantity);
  // `quantity` less is open. An order of which nothing is left has been filled or cancelled.
  void reduce(std::int64_t id, std::int64_t at_ns, std::int64_t quantity, bool traded);
  // `quantity` is open now. More than before is not a reduction and changes nothing.
  void reduce_to(std::int64_t id, std::int64_t at_ns, std::int64_t quantity, bool traded);
  void end(std::int64_t id, std::int64_t at_ns, LifeEnd how);

  // Times count from the first arrival. The session closes with the last event.
  Flow flow() &&;
  const RecordingFacts& facts() const noexcept { return facts_; }

 private:
  struct Known {
    std::uint32_t order = 0;
    std::int64_t open_quantity = 0;
    bool ours = false;  // arrived in this file, within the limit
    bool ended = false;
    bool ended_again = false;
  };

  Known& seen(std::int64_t id, std::int64_t at_ns);

  Flow flow_;
  RecordingFacts facts_;
  std::unordered_map<std::int64_t, Known> known_;
  std::uint64_t order_limit_;
  std::int64_t last_ns_ = 0;
};

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_RECORDING_H_
