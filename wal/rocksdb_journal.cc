#include "rocksdb_journal.h"

#include <algorithm>
#include <array>
#include <new>
#include <string>
#include <utility>

#include <countwheel/assert.h>

#include "bytes.h"
#include "log_reader.h"
#include "os_error.h"
#include "record.h"
#include "rocksdb_log_format.h"
#include "rocksdb_write_batch.h"

namespace countwheel::wal {
namespace {

// The cleaner looks at so much of the oldest log at a time.
constexpr std::uint64_t kCleanBytesMin = std::uint64_t{1} << 20;
constexpr std::uint64_t kCleanBytesMax = std::uint64_t{8} << 20;
// With less room than this a disk still counts as full, so that it is not found full again at once.
constexpr std::uint64_t kRoomToRecoverBytes = 256 * 1024;
// A batch of RocksDB's around one blob.
constexpr std::size_t kWriteBatchBytes = 64;

std::size_t writes_bytes(const Batch& batch) noexcept {
  std::size_t bytes = 0;
  for (const OpWrites& writes : batch.writes) {
    bytes += writes.bytes.size();
  }
  return bytes;
}

// What a batch takes in a log file: at most a fragment's header for each block, and two more.
std::uint64_t record_bytes_max(const Batch& batch) noexcept {
  const std::size_t bytes = encoded_bytes_max(batch) + kWriteBatchBytes + writes_bytes(batch);
  return bytes + (bytes / kLogBlockBytes + 3) * kLogNumberedHeaderBytes + kLogBlockBytes;
}

}  // namespace

std::span<AttemptCell> cells_of(const MappedFile& file) noexcept {
  // Cells are two words of any value, so whatever the bytes are, there are cells in them.
  static_assert(sizeof(AttemptCell) == 16 && std::atomic<std::uint64_t>::is_always_lock_free);
  return {std::launder(reinterpret_cast<AttemptCell*>(file.data())),
          file.size() / sizeof(AttemptCell)};
}

Batch watermark_after(const BlobHeader& newest) noexcept {
  Batch batch;
  batch.first_lsn = newest.last_lsn + 1;
  batch.last_lsn = newest.last_lsn;
  batch.lsn_ceiling = newest.lsn_ceiling;
  batch.generation_ceiling = newest.generation_ceiling;
  batch.epoch = newest.epoch;
  batch.session_hash = newest.session_hash;
  batch.wall_ns = newest.wall_ns;
  batch.sync = true;
  return batch;
}

RocksdbJournal::RocksdbJournal(LogParts parts)
    : parts_(std::move(parts)),
      dropper_(std::make_unique<TableDropper>(*parts_.store)),
      last_(parts_.newest),
      synced_sequence_(last_.sequence),
      synced_low_water_(last_.low_water) {
  parts_.extent.trim(last_.low_water);
  appended_bytes_ = parts_.extent.bytes();
  log_bytes_.store(parts_.extent.bytes(), std::memory_order_relaxed);
  // RocksDB has flushed and synced what it replayed: all of it is durable now.
  parts_.fence.begin(last_.store, {last_.sequence, last_.last_lsn});
  dropper_->drop_below(synced_low_water_);
}

RocksdbJournal::~RocksdbJournal() {
  if (parts_.directory->forked()) {
    static_cast<void>(dropper_.release());
    parts_.store->abandon();
  }
}

Status RocksdbJournal::check_usable() const noexcept {
  if (parts_.directory->forked()) {
    return Status(Code::kForked);
  }
  return failure_;
}

// Memory is asked for before anything is written: an allocation that fails inside RocksDB's write
// leaves its queue locked for ever, and ends the process here because this is noexcept.
Status RocksdbJournal::make_room(const Batch& batch) noexcept {
  const std::size_t bytes = encoded_bytes_max(batch);
  COUNTWHEEL_ASSERT(bytes <= kBlobBytesMax);
  try {
    if (blob_.size() < bytes) {
      blob_.resize(bytes);
    }
    if (write_batch_bytes_ < bytes + kWriteBatchBytes) {
      write_batch_ = rocksdb::WriteBatch(bytes + kWriteBatchBytes);
      write_batch_bytes_ = bytes + kWriteBatchBytes;
    }
    if (!batch.writes.empty()) {
      joined_ = std::string();
      joined_.reserve(bytes + kWriteBatchBytes + writes_bytes(batch));
    }
    return {};
  } catch (const std::bad_alloc&) {
    return Status(Code::kNoSpace);
  }
}

BlobHeader RocksdbJournal::header_for(const Batch& batch) const noexcept {
  BlobHeader header = last_;
  header.previous = last_.sequence;
  header.sequence = last_.sequence + 1;
  header.low_water = std::max(last_.low_water, batch.low_water);
  header.watermark = synced_sequence_;
  header.first_lsn = batch.first_lsn;
  header.last_lsn = batch.last_lsn;
  header.lsn_ceiling = batch.lsn_ceiling;
  header.generation_ceiling = batch.generation_ceiling;
  header.epoch = batch.epoch;
  header.session_hash = batch.session_hash;
  header.wall_ns = batch.wall_ns;
  return header;
}

Status RocksdbJournal::append(const Batch& batch) noexcept {
  if (Status status = check_usable(); !status.ok()) {
    return status;
  }
  if (Status status = make_room(batch); !status.ok()) {
    return status;
  }
  if (!parts_.store->files().reserve(record_bytes_max(batch))) {
    return no_room();
  }
  const BlobHeader header = header_for(batch);
  // A low-water mark above its own blob would declare the whole log dead.
  COUNTWHEEL_ASSERT(header.low_water <= header.sequence);
  const std::size_t bytes = encode(header, batch, blob_.data());
  if (const rocksdb::Status status = write(batch, header.sequence, bytes); !status.ok()) {
    return refuse(status);
  }
  last_ = header;
  note_written(batch, bytes);
  return {};
}

// One write batch of RocksDB: its atomicity is ours.
rocksdb::Status RocksdbJournal::write(const Batch& batch,
                                      std::uint64_t sequence,
                                      std::size_t bytes) noexcept {
  std::array<char, kBlobKeyBytes> key{};
  key[0] = kBlobKeyPrefix;
  store_u64_big_endian(key.data() + 1, sequence);
  rocksdb::WriteOptions options;
  options.sync = batch.sync;
  if (!batch.writes.empty()) {
    // A family that the application has dropped against the rules must not end the log.
    options.ignore_missing_column_families = true;
    rocksdb::WriteBatch all = joined(batch, {key.data(), key.size()}, {blob_.data(), bytes});
    return parts_.store->database().Write(options, &all);
  }
  write_batch_.Clear();
  rocksdb::Status status = write_batch_.Put(parts_.store->family(),
                                            rocksdb::Slice(key.data(), key.size()),
                                            rocksdb::Slice(blob_.data(), bytes));
  return status.ok() ? parts_.store->database().Write(options, &write_batch_) : status;
}

// The blob first, then the application's entries as they are: check_writes() has seen them. Into
// the memory that make_room() has taken.
rocksdb::WriteBatch RocksdbJournal::joined(const Batch& batch,
                                           std::string_view key,
                                           std::string_view blob) {
  std::array<char, kWriteBatchBytes> head{};
  char* to = head.data() + kWriteBatchHeaderBytes;
  *to++ = static_cast<char>(kPutInFamilyTag);
  to = store_varint(to, parts_.store->family()->GetID());
  to = store_varint(to, key.size());
  to = std::copy(key.begin(), key.end(), to);
  to = store_varint(to, blob.size());
  std::uint32_t count = 1;
  for (const OpWrites& writes : batch.writes) {
    count += WriteBatchReader(writes.bytes).count();
  }
  store_u32(head.data() + kWriteBatchCountAt, count);
  joined_.assign(head.data(), to);
  joined_.append(blob);
  for (const OpWrites& writes : batch.writes) {
    joined_.append(writes.bytes.substr(kWriteBatchHeaderBytes));
  }
  return rocksdb::WriteBatch(std::move(joined_));
}

Status RocksdbJournal::check_writes(std::string_view bytes) const noexcept {
  return parts_.store->app() == nullptr
             ? Status(Code::kInvalidArgument,
                      parts_.directory->path() +
                          ": WalOptions::app_column_families names none to write to")
             : parts_.store->app_families().check(bytes, parts_.directory->path());
}

void RocksdbJournal::note_written(const Batch& batch, std::size_t bytes) noexcept {
  const FenceMark mark{last_.sequence, last_.last_lsn};
  if (batch.sync) {
    // One fsync covers everything written before: there is one log file, and RocksDB syncs older
    // ones first.
    synced_sequence_ = last_.sequence;
    synced_low_water_ = last_.low_water;
    parts_.fence.store_disk(mark);
    syncs_.fetch_add(1, std::memory_order_relaxed);
  }
  parts_.fence.store_os(mark);
  parts_.extent.add(last_.sequence, bytes);
  parts_.extent.trim(last_.low_water);
  appended_bytes_ += bytes;
  blobs_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  log_bytes_.store(parts_.extent.bytes(), std::memory_order_relaxed);
  if (requested_low_water_ != 0 && last_.low_water >= requested_low_water_) {
    requested_low_water_ = 0;
  }
  drop_dead_files();
}

// Looks for dead files about as often as a file can have died.
void RocksdbJournal::drop_dead_files() noexcept {
  const std::uint64_t dead_bytes =
      appended_bytes_ - std::min(appended_bytes_, parts_.extent.bytes());
  if (dead_bytes >= dropped_bytes_ + parts_.options.memtable_bytes / 4) {
    dropped_bytes_ = dead_bytes;
    dropper_->drop_below(synced_low_water_);
  }
}

// A full disk is definite: either RocksDB refused before writing, or what it wrote is torn and
// stays torn. After a failed fsync the record is whole and may come back.
Status RocksdbJournal::refuse(const rocksdb::Status& status) noexcept {
  Status refused = rocksdb_error(status, parts_.directory->path(), "write the log");
  if (refused.code() == Code::kNoSpace && !parts_.store->files().sync_failed()) {
    stopped_ = true;
    return refused;
  }
  failure_ = Status(Code::kJournalFailed, refused.detail());
  return failure_;
}

Status RocksdbJournal::recover() noexcept {
  if (Status status = check_usable(); !status.ok()) {
    return status;
  }
  const Batch watermark = watermark_after(last_);
  GuardedFs& files = parts_.store->files();
  // RocksDB is not asked to recover on a disk that is still full: a new log file without room for
  // its first record is the one thing it does not survive.
  if (!files.reserve(kRoomToRecoverBytes)) {
    return no_room();
  }
  if (stopped_) {
    files.begin_recovery();
    const rocksdb::Status status = parts_.store->database().Resume();
    files.end_recovery();
    if (!status.ok()) {
      return refuse(status);
    }
    if (files.log_torn()) {
      return fail("recovered, and still on the log file that could not be written");
    }
    stopped_ = false;
  }
  // Only a write tells whether writes succeed.
  return append(watermark);
}

Status RocksdbJournal::no_room() const noexcept {
  return Status(Code::kNoSpace, parts_.directory->path() + ": no room for the next record");
}

Status RocksdbJournal::fail(const std::string& reason) noexcept {
  failure_ = Status(Code::kJournalFailed, parts_.directory->path() + ": " + reason);
  return failure_;
}

bool RocksdbJournal::next_to_clean(std::uint64_t live_bytes, CleanRequest* request) noexcept {
  const std::uint64_t bound = std::max(parts_.options.min_log_bytes, 2 * live_bytes);
  // A little before the bound: until the carried tasks are written the log goes on growing.
  const std::uint64_t allowed =
      bound - std::min<std::uint64_t>(bound / 16, parts_.options.memtable_bytes / 4);
  const std::uint64_t bytes = parts_.extent.bytes();
  if (requested_low_water_ != 0 || bytes <= allowed || !check_usable().ok()) {
    return false;
  }
  const Status status =
      collect(std::clamp(bytes - allowed, kCleanBytesMin, kCleanBytesMax), request);
  if (!status.ok()) {
    // What is damaged now would be refused at the next open: better said while the tasks live.
    failure_ = Status(Code::kJournalFailed, status.detail());
    return false;
  }
  requested_low_water_ = request->low_water;
  return true;
}

Status RocksdbJournal::collect(std::uint64_t budget_bytes, CleanRequest* request) {
  request->ids.clear();
  request->types.clear();
  request->low_water = last_.low_water;
  std::uint64_t done_bytes = 0;
  std::vector<Op> ops;
  Status status =
      read_blobs(*parts_.store,
                 parts_.directory->path(),
                 last_,
                 [&](const BlobHeader& header, std::string_view blob) -> Status {
                   if (done_bytes >= budget_bytes) {
                     return Status(Code::kTimedOut);  // enough for now
                   }
                   if (Status decoded = decode_ops(blob, header, &ops); !decoded.ok()) {
                     return decoded;
                   }
                   for (const Op& op : ops) {
                     if (op.kind == OpKind::kSchedule) {
                       request->ids.push_back(op.id);
                     } else if (op.kind == OpKind::kType) {
                       request->types.push_back(static_cast<std::uint16_t>(op.id.value));
                     }
                   }
                   done_bytes += blob.size();
                   request->low_water = header.sequence + 1;
                   return {};
                 });
  return status.code() == Code::kTimedOut ? Status() : status;
}

JournalStats RocksdbJournal::stats() const noexcept {
  JournalStats stats;
  stats.blobs = blobs_.load(std::memory_order_relaxed);
  stats.bytes = bytes_.load(std::memory_order_relaxed);
  stats.syncs = syncs_.load(std::memory_order_relaxed);
  stats.log_bytes = log_bytes_.load(std::memory_order_relaxed);
  stats.disk_bytes = parts_.directory->disk_bytes();
  return stats;
}

}  // namespace countwheel::wal
