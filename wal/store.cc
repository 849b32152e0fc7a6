#include "store.h"

#include <algorithm>
#include <utility>

#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include "bytes.h"
#include "os_error.h"
#include "rocksdb_log_format.h"

namespace countwheel::wal {
namespace {

// One is filled while the other is written. With a third, two could be written as one table, and
// what the log takes on the disk beside its live part would be four of them instead of two.
constexpr int kMemtables = 2;

// RocksDB's own log file would lie on the same disk: on a full one, writing to it from the error
// path fails an assertion and takes the process along. What it would say, our Status says.
class SilentLogger final : public rocksdb::Logger {
 public:
  SilentLogger() : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

// RocksDB's recovery from a full disk runs on a thread of its own, hangs when the database is
// closed meanwhile, and may leave column families apart. recover() does it when asked.
class NoAutoRecovery final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason,
                            rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
};

rocksdb::DBOptions database_options(const WalOptions& options, rocksdb::Env* env, bool create) {
  rocksdb::DBOptions result;
  result.env = env;
  result.create_if_missing = create;
  result.create_missing_column_families = create;
  result.paranoid_checks = true;
  // Torn tails open, everything else stops the replay; what was lost by that, WalScan knows.
  result.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  // One log file after open: a torn one beside a later one would be hard to tell from damage.
  result.avoid_flush_during_recovery = false;
  result.max_open_files = -1;
  result.use_fsync = false;
  result.recycle_log_file_num = 0;
  result.manual_wal_flush = false;
  // An idle column family pins log files; ours alone never reaches this, the application's may.
  result.max_total_wal_size = 4 * options.memtable_bytes;
  result.info_log = std::make_shared<SilentLogger>();
  // Set, because the header's default depends on NDEBUG.
  result.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  result.listeners.push_back(std::make_shared<NoAutoRecovery>());
  result.max_bgerror_resume_count = 0;
  // All column families are flushed together, so that a blob in a table file has the application's
  // writes with it in one. Apart, a crash between two flushes leaves one ahead of a log that is
  // torn, which RocksDB refuses to open, and a damaged log could take the writes and leave the
  // blob.
  result.atomic_flush = !options.app_column_families.empty();
  // A wrong SingleDelete of the application's is its own loss, not the end of the log.
  result.enforce_single_del_contracts = false;
  result.stats_dump_period_sec = 0;
  result.stats_persist_period_sec = 0;
  // Flushes trickle to the disk instead of stalling the log's fsync at their end.
  result.bytes_per_sync = std::uint64_t{1} << 20;
  return result;
}

rocksdb::ColumnFamilyOptions family_options(const WalOptions& options) {
  rocksdb::ColumnFamilyOptions result;
  result.write_buffer_size = options.memtable_bytes;
  result.max_write_buffer_number = kMemtables;
  // Files of a log are disjoint and die oldest first: there is nothing to compact.
  result.disable_auto_compactions = true;
  result.compression = rocksdb::CompressionType::kNoCompression;
  rocksdb::BlockBasedTableOptions table;
  table.format_version = 5;
  table.checksum = rocksdb::ChecksumType::kXXH3;
  table.no_block_cache = true;  // every block is read once
  result.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return result;
}

// Those of the log: the default one, which RocksDB wants, and ours.
std::vector<rocksdb::ColumnFamilyDescriptor> descriptors(const WalOptions& options) {
  return {{rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions()},
          {kFamilyName, family_options(options)}};
}

// The application's behind them.
std::vector<rocksdb::ColumnFamilyDescriptor> all_descriptors(const WalOptions& options) {
  std::vector<rocksdb::ColumnFamilyDescriptor> all = descriptors(options);
  for (const AppColumnFamily& family : options.app_column_families) {
    all.emplace_back(family.name, options_of(family));
  }
  return all;
}

bool named(const std::vector<rocksdb::ColumnFamilyDescriptor>& descriptors,
           const std::string& name) {
  return std::any_of(descriptors.begin(), descriptors.end(), [&](const auto& descriptor) {
    return descriptor.name == name;
  });
}

// A database that is there, as far as its column families tell.
Status check_families(const std::vector<std::string>& names,
                      const std::vector<rocksdb::ColumnFamilyDescriptor>& wanted,
                      const std::string& path,
                      bool create) {
  if (!create && std::find(names.begin(), names.end(), kFamilyName) == names.end()) {
    return Status(Code::kNotADirectory, path + ": no log in it");
  }
  for (const std::string& name : names) {
    if (!named(wanted, name)) {
      return Status(Code::kInvalidArgument,
                    path + ": WalOptions::app_column_families does not name \"" + name +
                        "\", which is there");
    }
  }
  return {};
}

std::unique_ptr<GuardedEnv> guarded_env(const WalOptions& options,
                                        const std::string& path,
                                        const FileView& manifest) {
  rocksdb::Env* base = options.env != nullptr ? options.env : rocksdb::Env::Default();
  return std::make_unique<GuardedEnv>(base, path, options.memtable_bytes / 8, manifest);
}

}  // namespace

std::string blob_key(std::uint64_t sequence) {
  std::string key(kBlobKeyBytes, kBlobKeyPrefix);
  store_u64_big_endian(key.data() + 1, sequence);
  return key;
}

std::uint64_t sequence_of_key(const rocksdb::Slice& key) noexcept {
  if (key.size() != kBlobKeyBytes || key[0] != kBlobKeyPrefix) {
    return 0;
  }
  return load_u64_big_endian(key.data() + 1);
}

Result<std::unique_ptr<Store>> Store::open(const std::string& path,
                                           const WalOptions& options,
                                           bool create,
                                           const FileView& manifest) {
  std::unique_ptr<Store> store(new Store());
  store->env_ = guarded_env(options, path, manifest);
  rocksdb::DBOptions settings = database_options(options, store->env_.get(), create);
  const std::vector<rocksdb::ColumnFamilyDescriptor> wanted = all_descriptors(options);
  if (settings.env->FileExists(path + "/CURRENT").ok()) {
    std::vector<std::string> names;
    const rocksdb::Status listed = rocksdb::DB::ListColumnFamilies(settings, path, &names);
    if (!listed.ok()) {
      return rocksdb_error(listed, path, "open the log");
    }
    if (Status status = check_families(names, wanted, path, create); !status.ok()) {
      return status;
    }
    // The log's is there, or may be made; so may the application's in a log that has none yet.
    settings.create_missing_column_families = true;
  }
  rocksdb::DB* database = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::Open(settings, path, wanted, &store->families_, &database);
  store->database_.reset(database);
  if (!status.ok()) {
    store->families_.clear();
    return rocksdb_error(status, path, "open the log");
  }
  store->adopt_families(options);
  return store;
}

void Store::adopt_families(const WalOptions& options) {
  if (options.app_column_families.empty()) {
    return;
  }
  std::vector<std::pair<std::string, rocksdb::ColumnFamilyHandle*>> handles;
  std::size_t next = 2;
  for (const AppColumnFamily& family : options.app_column_families) {
    rocksdb::ColumnFamilyHandle* const handle = families_[next++];
    app_families_.add(family, handle);
    handles.emplace_back(family.name, handle);
  }
  app_ = std::make_unique<AppDatabase>(database_.get(), std::move(handles));
}

Result<std::unique_ptr<Store>> Store::open_read_only(const std::string& path,
                                                     const WalOptions& options,
                                                     const FileView& manifest) {
  std::unique_ptr<Store> store(new Store());
  store->env_ = guarded_env(options, path, manifest);
  const rocksdb::DBOptions database = database_options(options, store->env_.get(), false);
  std::vector<std::string> names;
  rocksdb::Status status = rocksdb::DB::ListColumnFamilies(database, path, &names);
  if (status.ok() && std::find(names.begin(), names.end(), kFamilyName) == names.end()) {
    return Status(Code::kNotADirectory, path + ": no log in it");
  }
  rocksdb::DB* opened = nullptr;
  if (status.ok()) {
    status = rocksdb::DB::OpenForReadOnly(
        database, path, descriptors(options), &store->families_, &opened);
  }
  store->database_.reset(opened);
  if (!status.ok()) {
    store->families_.clear();
    return rocksdb_error(status, path, "open the log");
  }
  return store;
}

Store::~Store() {
  if (database_ == nullptr) {
    return;
  }
  for (rocksdb::ColumnFamilyHandle* family : families_) {
    database_->DestroyColumnFamilyHandle(family).PermitUncheckedError();
  }
}

void Store::abandon() noexcept {
  families_.clear();
  static_cast<void>(database_.release());
  static_cast<void>(env_.release());
}

std::unique_ptr<rocksdb::Iterator> Store::iterate(std::size_t read_ahead_bytes) const {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  options.readahead_size = read_ahead_bytes;
  return std::unique_ptr<rocksdb::Iterator>(database_->NewIterator(options, family()));
}

std::vector<TableFile> Store::table_files() {
  rocksdb::ColumnFamilyMetaData facts;
  database_->GetColumnFamilyMetaData(family(), &facts);
  std::vector<TableFile> files;
  for (const rocksdb::LevelMetaData& level : facts.levels) {
    for (const rocksdb::SstFileMetaData& file : level.files) {
      files.push_back({file.name,
                       file.size,
                       sequence_of_key(file.smallestkey),
                       sequence_of_key(file.largestkey)});
    }
  }
  std::sort(files.begin(), files.end(), [](const TableFile& left, const TableFile& right) {
    return left.first_sequence < right.first_sequence;
  });
  return files;
}

std::uint64_t Store::approximate_bytes() {
  std::uint64_t bytes = 0;
  for (const TableFile& file : table_files()) {
    bytes += file.bytes;
  }
  std::uint64_t in_memory = 0;
  database_->GetIntProperty(family(), rocksdb::DB::Properties::kCurSizeAllMemTables, &in_memory);
  return bytes + in_memory;
}

}  // namespace countwheel::wal
