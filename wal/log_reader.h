// Reads blobs from a store in order, with damage reported, never guessed.
#ifndef COUNTWHEEL_WAL_LOG_READER_H_
#define COUNTWHEEL_WAL_LOG_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <countwheel/status.h>
#include <countwheel/wal.h>

#include "store.h"

namespace countwheel::wal {

// The last blob, or nothing when the log has none.
Result<std::optional<BlobHeader>> newest_blob(Store& store, const std::string& path);

using BlobVisitor = std::function<Status(const BlobHeader&, std::string_view blob)>;

// Who reads the whole log waits for less when the disk reads ahead; who takes a little of it would
// read much for nothing.
inline constexpr std::size_t kReadAheadBytes = std::size_t{2} << 20;

// Every blob from `newest.low_water` to `newest`, checked against its checksums, its key and its
// neighbours.
Status read_blobs(Store& store,
                  const std::string& path,
                  const BlobHeader& newest,
                  const BlobVisitor& visitor,
                  std::size_t read_ahead_bytes = kReadAheadBytes);

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_LOG_READER_H_
