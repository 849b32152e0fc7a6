#include "app_families.h"

#include <algorithm>

#include <rocksdb/comparator.h>
#include <rocksdb/table.h>

#include "rocksdb_write_batch.h"
#include "store.h"

namespace countwheel::wal {
namespace {

using Kind = WriteBatchEntry::Kind;

Status refuse(const std::string& path, std::uint64_t number, const std::string& what) {
  return Status(
      Code::kInvalidArgument,
      path + ": entry " + std::to_string(number) + " of the application's writes " + what);
}

Status invalid_family(const AppColumnFamily& family, const char* what) {
  return Status(Code::kInvalidArgument,
                "WalOptions::app_column_families: \"" + family.name + "\" " + what);
}

rocksdb::Slice slice(std::string_view bytes) noexcept {
  return {bytes.data(), bytes.size()};
}

}  // namespace

Status validate_families(const std::vector<AppColumnFamily>& families) {
  for (std::size_t i = 0; i < families.size(); ++i) {
    const AppColumnFamily& family = families[i];
    if (family.name.empty() || family.name == kFamilyName ||
        family.name == rocksdb::kDefaultColumnFamilyName) {
      return invalid_family(family, "is no name for a column family of the application");
    }
    for (std::size_t before = 0; before < i; ++before) {
      if (families[before].name == family.name) {
        return invalid_family(family, "is there twice");
      }
    }
    // Its keys would need a timestamp behind them, which RocksDB misses only while it writes.
    if (family.options != nullptr && family.options->comparator->timestamp_size() != 0) {
      return invalid_family(family, "has a comparator with timestamps");
    }
  }
  return {};
}

rocksdb::ColumnFamilyOptions options_of(const AppColumnFamily& family) {
  return family.options != nullptr ? *family.options : rocksdb::ColumnFamilyOptions();
}

void AppFamilies::add(const AppColumnFamily& family, rocksdb::ColumnFamilyHandle* handle) {
  const rocksdb::ColumnFamilyOptions options = options_of(family);
  families_.push_back({handle->GetID(),
                       handle->GetComparator(),
                       options.merge_operator != nullptr,
                       options.table_factory->IsDeleteRangeSupported()});
}

const AppFamilies::Family* AppFamilies::find(std::uint32_t id) const noexcept {
  const auto found = std::find_if(
      families_.begin(), families_.end(), [id](const Family& family) { return family.id == id; });
  return found == families_.end() ? nullptr : &*found;
}

Status AppFamilies::check(std::string_view batch, const std::string& path) const {
  WriteBatchReader reader(batch);
  WriteBatchEntry entry;
  std::uint64_t number = 0;
  std::uint32_t counted = 0;
  while (reader.next(&entry)) {
    ++number;
    counted += entry.counted() ? 1U : 0U;
    if (entry.kind == Kind::kLogData) {
      continue;
    }
    if (entry.kind == Kind::kOther) {
      return refuse(path, number, "is neither a put, a delete nor a merge");
    }
    const Family* family = find(entry.family);
    if (family == nullptr) {
      return refuse(path,
                    number,
                    "names column family " + std::to_string(entry.family) +
                        ", which is not of WalOptions::app_column_families");
    }
    if (entry.kind == Kind::kMerge && !family->can_merge) {
      return refuse(path, number, "is a merge, and its column family has no merge operator");
    }
    if (entry.kind == Kind::kDeleteRange &&
        (!family->can_delete_ranges ||
         family->comparator->Compare(slice(entry.key), slice(entry.value)) > 0)) {
      return refuse(
          path, number, "deletes a range that ends before it begins, or cannot be deleted");
    }
  }
  if (!reader.ok() || counted != reader.count()) {
    return Status(Code::kInvalidArgument,
                  path + ": the application's writes are no write batch: damaged behind entry " +
                      std::to_string(number) + " of " + std::to_string(reader.count()));
  }
  return {};
}

}  // namespace countwheel::wal
