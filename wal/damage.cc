#include "damage.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "log_reader.h"
#include "store.h"

namespace countwheel::wal {
namespace {

FenceMark higher(FenceMark left, FenceMark right) noexcept {
  return left.sequence >= right.sequence ? left : right;
}

// What the fence knows; a log whose identity is not known is bound by any fence.
FenceMark acknowledged(const Fence& fence, const StoreUuid* store) noexcept {
  return higher(fence.disk(store), fence.os(store));
}

// "file: at offset N". Where the log stops, as well as can be told.
std::string place_of_damage(const DataDir& directory, const WalScan& scan, std::uint64_t last) {
  if (const FileScan* file = scan.damaged_after(last); file != nullptr) {
    return file->path + ": unreadable from offset " + std::to_string(file->good_bytes);
  }
  for (const FileScan& file : scan.files) {
    if (file.gap_offset != 0) {
      return file.path + ": a blob is missing before offset " + std::to_string(file.gap_offset);
    }
  }
  if (!scan.manifest_whole()) {
    return scan.manifest.path + ": unreadable from offset " +
           std::to_string(scan.manifest.good_bytes);
  }
  if (!scan.files.empty()) {
    const FileScan& file = scan.files.back();
    return file.path + ": ends at offset " + std::to_string(file.bytes);
  }
  return directory.path() + ": a log file is missing (offset 0)";
}

Status loss(const DataDir& directory,
            const WalScan& scan,
            const std::optional<BlobHeader>& newest,
            FenceMark lost_up_to) {
  const std::uint64_t last = newest ? newest->sequence : 0;
  const std::uint64_t last_lsn = newest ? newest->last_lsn : 0;
  std::string text = place_of_damage(directory, scan, last);
  text += "; acknowledged blobs " + std::to_string(last + 1) + " to " +
          std::to_string(lost_up_to.sequence) + " cannot be read (LSN " +
          std::to_string(last_lsn + 1) + " to ";
  text += lost_up_to.lsn == 0 ? "at least " + std::to_string(last_lsn + 1)
                              : std::to_string(lost_up_to.lsn);
  text += "); what is readable ends at LSN " + std::to_string(last_lsn);
  return Status(Code::kCorrupt, std::move(text));
}

// Opens the log without changing it and looks at its end; at all of it if a file is not perfect.
Status check_unopened_log(const DataDir& directory,
                          const WalOptions& options,
                          const Fence& fence,
                          const WalScan& scan) {
  Result<std::unique_ptr<Store>> store =
      Store::open_read_only(directory.path(), options, view_of(scan.manifest));
  if (!store.ok()) {
    const bool no_log = store.code() == Code::kNotADirectory;
    return no_log ? check_end(directory, fence, scan, std::nullopt) : store.status();
  }
  const Result<std::optional<BlobHeader>> newest = newest_blob(**store, directory.path());
  if (!newest.ok()) {
    return newest.status();
  }
  if (Status status = check_end(directory, fence, scan, *newest); !status.ok()) {
    return status;
  }
  if (!newest->has_value() || scan.clean()) {
    return {};
  }
  return read_blobs(**store, directory.path(), **newest, [](const BlobHeader&, std::string_view) {
    return Status();
  });
}

}  // namespace

Status check_end(const DataDir& directory,
                 const Fence& fence,
                 const WalScan& scan,
                 const std::optional<BlobHeader>& newest) {
  const std::uint64_t last = newest ? newest->sequence : 0;
  const FenceMark told = acknowledged(fence, newest ? &newest->store : nullptr);
  const FenceMark known = higher(told, {scan.highest_watermark, 0});
  return known.sequence > last ? loss(directory, scan, newest, known) : Status();
}

Status check_before_open(const DataDir& directory,
                         const WalOptions& options,
                         const Fence& fence,
                         WalScan* scan) {
  const FenceMark told = acknowledged(fence, nullptr);
  if (!directory.has_current()) {
    if (told.sequence > 0 || directory.has_log_files()) {
      return Status(Code::kCorrupt,
                    directory.path_of("CURRENT") + ": missing, and there are files of a log");
    }
    return {};
  }
  Result<WalScan> scanned = scan_wal(directory.path());
  if (!scanned.ok()) {
    return scanned.status();
  }
  *scan = std::move(*scanned);
  if (scan->clean() && scan->last_sequence > 0 && scan->last_sequence >= told.sequence) {
    return {};
  }
  return check_unopened_log(directory, options, fence, *scan);
}

}  // namespace countwheel::wal
