#include "log_reader.h"

#include <memory>

#include "os_error.h"
#include "record.h"

namespace countwheel::wal {
namespace {

std::string_view view(const rocksdb::Slice& slice) noexcept {
  return {slice.data(), slice.size()};
}

Status corrupt(const std::string& path, const std::string& text) {
  return Status(Code::kCorrupt, path + ": " + text);
}

// The header of the blob the iterator stands on, if key and bytes agree.
Status current_header(rocksdb::Iterator& blobs, const std::string& path, BlobHeader* header) {
  const std::uint64_t sequence = sequence_of_key(blobs.key());
  if (sequence == 0) {
    return corrupt(path, "key " + blobs.key().ToString(true) + " is not of a blob");
  }
  const Status status = decode_header(view(blobs.value()), header);
  if (!status.ok()) {
    return Status(status.code(),
                  path + ": blob " + std::to_string(sequence) + ": " + status.detail());
  }
  if (header->sequence != sequence) {
    return corrupt(path,
                   "blob " + std::to_string(header->sequence) + " stands in place of blob " +
                       std::to_string(sequence));
  }
  return {};
}

// What two neighbours must agree on.
Status check_neighbours(const BlobHeader& before, const BlobHeader& blob, const std::string& path) {
  const std::string name = "blob " + std::to_string(blob.sequence);
  if (blob.store != before.store) {
    return corrupt(path, name + " is of another log, " + to_string(blob.store));
  }
  if (blob.last_lsn < before.last_lsn || (blob.op_count > 0 && blob.first_lsn <= before.last_lsn)) {
    return corrupt(path, name + ": its LSNs do not follow " + std::to_string(before.last_lsn));
  }
  if (blob.low_water < before.low_water || blob.epoch < before.epoch) {
    return corrupt(path, name + ": its low-water mark or epoch goes back");
  }
  return {};
}

Status missing(const std::string& path, std::uint64_t sequence, const BlobHeader& newest) {
  return corrupt(path,
                 "blob " + std::to_string(sequence) + " is missing; the log goes on to blob " +
                     std::to_string(newest.sequence) + " (LSN " + std::to_string(newest.last_lsn) +
                     ")");
}

}  // namespace

Result<std::optional<BlobHeader>> newest_blob(Store& store, const std::string& path) {
  const std::unique_ptr<rocksdb::Iterator> blobs = store.iterate();
  blobs->SeekToLast();
  if (!blobs->status().ok()) {
    return rocksdb_error(blobs->status(), path, "read the newest blob");
  }
  if (!blobs->Valid()) {
    return std::optional<BlobHeader>();
  }
  BlobHeader header;
  if (Status status = current_header(*blobs, path, &header); !status.ok()) {
    return status;
  }
  return std::optional<BlobHeader>(header);
}

Status read_blobs(Store& store,
                  const std::string& path,
                  const BlobHeader& newest,
                  const BlobVisitor& visitor,
                  std::size_t read_ahead_bytes) {
  const std::unique_ptr<rocksdb::Iterator> blobs = store.iterate(read_ahead_bytes);
  BlobHeader before;
  std::uint64_t expected = newest.low_water;
  for (blobs->Seek(blob_key(expected)); blobs->Valid(); blobs->Next()) {
    BlobHeader header;
    if (Status status = current_header(*blobs, path, &header); !status.ok()) {
      return status;
    }
    if (header.sequence != expected) {
      return missing(path, expected, newest);
    }
    if (expected != newest.low_water) {
      if (Status status = check_neighbours(before, header, path); !status.ok()) {
        return status;
      }
    }
    if (Status status = visitor(header, view(blobs->value())); !status.ok()) {
      return status;
    }
    before = header;
    ++expected;
  }
  // An iterator that meets damage ends as if the log had ended; only its status tells.
  if (!blobs->status().ok()) {
    return rocksdb_error(
        blobs->status(),
        path,
        "read blob " + std::to_string(expected) + " of " + std::to_string(newest.sequence));
  }
  if (expected != newest.sequence + 1) {
    return missing(path, expected, newest);
  }
  return {};
}

}  // namespace countwheel::wal
