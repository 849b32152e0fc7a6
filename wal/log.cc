#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <sys/random.h>
#include <utility>
#include <vector>

#include <countwheel/assert.h>
#include <countwheel/wal.h>

#include "app_families.h"
#include "damage.h"
#include "data_dir.h"
#include "decode_ahead.h"
#include "fence.h"
#include "log_reader.h"
#include "mapped_file.h"
#include "os_error.h"
#include "record.h"
#include "rocksdb_journal.h"
#include "store.h"

namespace countwheel {
namespace wal {
namespace {

constexpr std::uint32_t kIndexBits = 32;

Status out_of_range(const char* name, std::uint64_t given, const char* allowed) {
  return Status(Code::kInvalidArgument,
                std::string(name) + ": " + std::to_string(given) + " given, allowed is " + allowed);
}

// The log, opened and not yet written on.
class OpenedLog final : public Log {
 public:
  OpenedLog(LogParts parts, LogFacts facts) : parts_(std::move(parts)), facts_(std::move(facts)) {}
  OpenedLog(const OpenedLog&) = delete;
  OpenedLog& operator=(const OpenedLog&) = delete;
  ~OpenedLog() override {
    if (parts_.directory != nullptr && parts_.directory->forked()) {
      parts_.store->abandon();
    }
  }

  Status read(const Visitor& visitor, const Progress& progress) override;
  LogEnd end() const override;
  const LogFacts& facts() const override { return facts_; }
  std::span<AttemptCell> attempt_cells() noexcept override { return cells_of(parts_.cells); }
  Result<std::unique_ptr<Journal>> into_journal() && override;

 private:
  LogParts parts_;
  LogFacts facts_;
  bool read_ = false;
};

Status OpenedLog::read(const Visitor& visitor, const Progress& progress) {
  constexpr std::uint64_t kProgressBytes = 256 * 1024;
  const std::uint64_t total = parts_.store->approximate_bytes();
  std::uint64_t reported = 0;
  facts_.blobs = facts_.ops = facts_.bytes = 0;
  parts_.extent = LogExtent();
  const auto report = [&](std::uint64_t done) {
    reported = done;
    if (progress) {
      progress(done, std::max(done, total));
    }
  };
  report(0);
  const auto read_all = [this](const BlobVisitor& each) {
    return read_blobs(*parts_.store, facts_.path, parts_.newest, each);
  };
  const auto visit =
      [&](const BlobHeader& header, std::size_t bytes, std::span<const Op> ops) -> Status {
    ++facts_.blobs;
    facts_.ops += ops.size();
    facts_.bytes += bytes;
    parts_.extent.add(header.sequence, bytes);
    if (facts_.bytes - reported >= kProgressBytes) {
      report(facts_.bytes);
    }
    return visitor(header, ops);
  };
  Status status = read_decoded(facts_.path, read_all, visit, total >= kAheadBytesMin);
  if (status.ok()) {
    read_ = true;
    if (progress) {
      progress(facts_.bytes, facts_.bytes);
    }
  }
  return status;
}

LogEnd OpenedLog::end() const {
  const BlobHeader& newest = parts_.newest;
  LogEnd end;
  end.last_lsn = newest.last_lsn;
  end.lsn_ceiling = newest.lsn_ceiling;
  end.generation_ceiling = newest.generation_ceiling;
  end.epoch = newest.epoch;
  end.last_seen_wall_ns = newest.wall_ns;
  end.clean_stop = newest.clean_stop;
  return end;
}

Result<std::unique_ptr<Journal>> OpenedLog::into_journal() && {
  COUNTWHEEL_ASSERT(read_);
  COUNTWHEEL_ASSERT(parts_.directory->writable());
  return std::unique_ptr<Journal>(std::make_unique<RocksdbJournal>(std::move(parts_)));
}

Result<StoreUuid> draw_uuid(const std::string& path) {
  StoreUuid uuid{};
  if (::getrandom(uuid.data(), uuid.size(), 0) != static_cast<ssize_t>(uuid.size())) {
    return os_error(errno, path, "draw an identity");
  }
  return uuid;
}

// A log always has a blob: it carries the identity and the format, and it is what a fence can miss.
Result<BlobHeader> write_first_blob(Store& store, const std::string& path, std::uint32_t bits) {
  const Result<StoreUuid> uuid = draw_uuid(path);
  if (!uuid.ok()) {
    return uuid.status();
  }
  BlobHeader header;
  header.sequence = 1;
  header.low_water = 1;
  header.shard_bits = static_cast<std::uint8_t>(bits);
  header.slot_bits = static_cast<std::uint8_t>(kIndexBits - bits);
  header.store = *uuid;
  header.first_lsn = 1;
  const Batch batch = watermark_after({});
  std::string blob(encoded_bytes_max(batch), '\0');
  blob.resize(encode(header, batch, blob.data()));
  rocksdb::WriteOptions options;
  options.sync = true;
  const rocksdb::Status status =
      store.database().Put(options, store.family(), blob_key(header.sequence), blob);
  if (!status.ok()) {
    return rocksdb_error(status, path, "write the first blob");
  }
  if (Status decoded = decode_header(blob, &header); !decoded.ok()) {
    return decoded;
  }
  return header;
}

Status check_shards(const BlobHeader& newest, const WalOptions& options, const std::string& path) {
  if (newest.shard_bits == options.shard_bits &&
      newest.slot_bits == kIndexBits - options.shard_bits) {
    return {};
  }
  return Status(Code::kVersion,
                path + ": shard_bits: " + std::to_string(options.shard_bits) +
                    " given, the log was made with " + std::to_string(newest.shard_bits));
}

// Everything up to the database: locked, checked, nothing changed in the log.
struct Prepared {
  std::unique_ptr<DataDir> directory;
  std::optional<Fence> fence;
  MappedFile cells;
  WalScan scan;
};

Result<Prepared> prepare(const std::string& path, const WalOptions& options, Access access) {
  if (Status status = validate(options); !status.ok()) {
    return status;
  }
  Result<std::unique_ptr<DataDir>> directory = DataDir::open(path, access);
  if (!directory.ok()) {
    return directory.status();
  }
  if (Status status = check_descriptor_limit(**directory); !status.ok()) {
    return status;
  }
  Prepared prepared;
  prepared.directory = std::move(*directory);
  Result<Fence> fence = Fence::open(*prepared.directory, options.boot_id);
  if (!fence.ok()) {
    return fence.status();
  }
  prepared.fence.emplace(std::move(*fence));
  Result<MappedFile> cells = MappedFile::open(
      *prepared.directory, kCellsFile, options.attempt_cells * sizeof(AttemptCell));
  if (!cells.ok()) {
    return cells.status();
  }
  prepared.cells = std::move(*cells);
  if (Status status =
          check_before_open(*prepared.directory, options, *prepared.fence, &prepared.scan);
      !status.ok()) {
    return status;
  }
  if (access != Access::kCreate && !prepared.directory->has_current()) {
    return Status(Code::kNotADirectory, prepared.directory->path() + ": no log in it");
  }
  return prepared;
}

LogFacts facts_of(const Prepared& prepared, const BlobHeader& newest) {
  LogFacts facts;
  facts.path = prepared.directory->path();
  facts.store = newest.store;
  facts.format = newest.format;
  facts.first_sequence = newest.low_water;
  facts.last_sequence = newest.sequence;
  facts.disk_bytes = prepared.directory->disk_bytes();
  facts.torn_bytes = prepared.scan.torn_bytes();
  for (const FileScan& file : prepared.scan.files) {
    if (!file.whole()) {
      facts.torn_file = file.path;
    }
  }
  facts.fence_disk_sequence = prepared.fence->disk(&newest.store).sequence;
  facts.fence_os_sequence = prepared.fence->os(&newest.store).sequence;
  return facts;
}

Result<std::unique_ptr<Log>> finish(Prepared prepared,
                                    std::unique_ptr<Store> store,
                                    const WalOptions& options) {
  const std::string path = prepared.directory->path();
  Result<std::optional<BlobHeader>> newest = newest_blob(*store, path);
  if (!newest.ok()) {
    return newest.status();
  }
  if (Status status = check_end(*prepared.directory, *prepared.fence, prepared.scan, *newest);
      !status.ok()) {
    return status;
  }
  const bool created = !newest->has_value();
  if (created && !prepared.directory->writable()) {
    return Status(Code::kNotADirectory, path + ": no log in it");
  }
  Result<BlobHeader> end =
      created ? write_first_blob(*store, path, options.shard_bits) : Result<BlobHeader>(**newest);
  if (!end.ok()) {
    return end.status();
  }
  if (Status status = check_shards(*end, options, path); !status.ok()) {
    return status;
  }
  LogFacts facts = facts_of(prepared, *end);
  facts.created = created;
  LogParts parts{std::move(prepared.directory),
                 std::move(*prepared.fence),
                 std::move(prepared.cells),
                 std::move(store),
                 options,
                 *end,
                 LogExtent()};
  return std::unique_ptr<Log>(std::make_unique<OpenedLog>(std::move(parts), std::move(facts)));
}

}  // namespace
}  // namespace wal

Status validate(const WalOptions& options) {
  if (options.shard_bits > 16) {
    return wal::out_of_range("shard_bits", options.shard_bits, "0 to 16");
  }
  if (options.memtable_bytes < std::size_t{64} << 10 || options.memtable_bytes > std::size_t{1}
                                                                                     << 30) {
    return wal::out_of_range("memtable_bytes", options.memtable_bytes, "65536 to 1073741824");
  }
  if (options.attempt_cells < 1 || options.attempt_cells > std::uint32_t{1} << 24) {
    return wal::out_of_range("attempt_cells", options.attempt_cells, "1 to 16777216");
  }
  return wal::validate_families(options.app_column_families);
}

std::string to_string(const StoreUuid& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : uuid) {
    if (text.size() == 8 || text.size() == 13 || text.size() == 18 || text.size() == 23) {
      text += '-';
    }
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15U];
  }
  return text;
}

Result<std::unique_ptr<Log>> Log::open(const std::string& directory, const WalOptions& options) {
  const bool create = options.create_if_missing;
  Result<wal::Prepared> prepared =
      wal::prepare(directory, options, create ? wal::Access::kCreate : wal::Access::kWrite);
  if (!prepared.ok()) {
    return prepared.status();
  }
  Result<std::unique_ptr<wal::Store>> store = wal::Store::open(
      prepared->directory->path(), options, create, view_of(prepared->scan.manifest));
  if (!store.ok()) {
    return store.status();
  }
  return wal::finish(std::move(*prepared), std::move(*store), options);
}

Result<std::unique_ptr<Log>> Log::open_read_only(const std::string& directory,
                                                 const WalOptions& options) {
  Result<wal::Prepared> prepared = wal::prepare(directory, options, wal::Access::kRead);
  if (!prepared.ok()) {
    return prepared.status();
  }
  Result<std::unique_ptr<wal::Store>> store = wal::Store::open_read_only(
      prepared->directory->path(), options, view_of(prepared->scan.manifest));
  if (!store.ok()) {
    return store.status();
  }
  return wal::finish(std::move(*prepared), std::move(*store), options);
}

}  // namespace countwheel
