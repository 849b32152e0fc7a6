// Reads a log on two threads: one reads blobs, checks and decodes them, the caller's folds those
// before. Decoding is a third of what it takes to load a large log.
#ifndef COUNTWHEEL_WAL_DECODE_AHEAD_H_
#define COUNTWHEEL_WAL_DECODE_AHEAD_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include <countwheel/journal.h>
#include <countwheel/status.h>
#include <countwheel/wal.h>

#include "log_reader.h"

namespace countwheel::wal {

// A log smaller than this is read before a second thread has started.
inline constexpr std::size_t kAheadBytesMin = std::size_t{4} << 20;

using OpsVisitor =
    std::function<Status(const BlobHeader&, std::size_t blob_bytes, std::span<const Op>)>;

// `path` is for the text of errors. `read` is called once and hands every blob to what it is given;
// `visit` gets them in the same order, on the caller's thread, with their operations. The first
// that is not ok ends it. With `ahead` false everything happens on the caller's thread.
Status read_decoded(const std::string& path,
                    const std::function<Status(const BlobVisitor&)>& read,
                    const OpsVisitor& visit,
                    bool ahead);

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_DECODE_AHEAD_H_
