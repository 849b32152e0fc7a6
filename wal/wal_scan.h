// WalScan: reads RocksDB's log files before RocksDB does.
//
// At open RocksDB replays its log up to the first record that does not check out and then drops the
// rest, whatever it was: a torn tail that nobody was told about, or a bit that has flipped in the
// middle of acknowledged work. It says `ok` either way, and once it is open the rest is gone. So
// the files are looked at first, and the numbers in our blobs are believed: a blob behind the
// damage whose watermark lies beyond it proves that what was lost had been synced.
//
// The layout (32 KiB blocks; records cut into fragments with a checksum each) is RocksDB's log
// format. What is not ours in it is skipped.
#ifndef COUNTWHEEL_WAL_WAL_SCAN_H_
#define COUNTWHEEL_WAL_WAL_SCAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include <countwheel/status.h>

namespace countwheel::wal {

// One file.
struct FileScan {
  std::string path;
  std::uint64_t number = 0;
  std::uint64_t bytes = 0;       // its size
  std::uint64_t good_bytes = 0;  // up to here every record is whole
  // Blobs in the good part; 0 is none.
  std::uint64_t first_sequence = 0;
  std::uint64_t last_sequence = 0;
  // Where in the good part a blob does not follow the one before it; 0 is nowhere.
  std::uint64_t gap_offset = 0;
  // Of all blobs that check out, also of those behind the damage.
  std::uint64_t highest_watermark = 0;

  bool whole() const noexcept { return good_bytes == bytes; }
};

struct WalScan {
  std::vector<FileScan> files;          // in the order in which they were written
  FileScan manifest;                    // without a path when CURRENT names none that can be read
  std::uint64_t last_sequence = 0;      // of the good parts
  std::uint64_t highest_watermark = 0;  // anywhere

  bool manifest_whole() const noexcept { return manifest.whole(); }
  // True if and only if RocksDB will replay every byte, and the blobs are contiguous.
  bool clean() const noexcept;
  // Bytes that RocksDB will not replay.
  std::uint64_t torn_bytes() const noexcept;
  // The file in which the blobs end at `sequence` too early, or null.
  const FileScan* damaged_after(std::uint64_t sequence) const noexcept;
};

// Reads every log file and the manifest in `directory`. Fails only when a file cannot be read.
Result<WalScan> scan_wal(const std::string& directory);

// One file, blobs as above; `path` need not belong to a database.
Result<FileScan> scan_log_file(const std::string& path);

// How much RocksDB is shown of a file. An empty path: all of every file.
struct FileView {
  std::string path;
  std::uint64_t bytes = 0;
};

// A torn manifest up to where it is torn; all of a whole one.
FileView view_of(const FileScan& manifest);

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_WAL_SCAN_H_
