// The damage rule: which bad log is refused, and which is what a crash may leave.
//
// A log that ends too early is legal if and only if nobody was told about what is missing. Two
// witnesses know what people were told: the fence, and the watermarks of blobs behind the damage.
#ifndef COUNTWHEEL_WAL_DAMAGE_H_
#define COUNTWHEEL_WAL_DAMAGE_H_

#include <optional>

#include <countwheel/status.h>
#include <countwheel/wal.h>

#include "data_dir.h"
#include "fence.h"
#include "wal_scan.h"

namespace countwheel::wal {

// Looks at everything without changing anything, because opening the database for writing destroys
// what a rescue would need. Ok for a directory without a log. Usually only the log files are read;
// when they are not perfect, or do not reach as far as the fence, the log is opened read only.
Status check_before_open(const DataDir& directory,
                         const WalOptions& options,
                         const Fence& fence,
                         WalScan* scan);

// Whether a log that ends at `newest` has everything the witnesses know of.
Status check_end(const DataDir& directory,
                 const Fence& fence,
                 const WalScan& scan,
                 const std::optional<BlobHeader>& newest);

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_DAMAGE_H_
