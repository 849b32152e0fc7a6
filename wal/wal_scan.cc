#include "wal_scan.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <system_error>

#include <countwheel/wal.h>

#include "bytes.h"
#include "descriptor.h"
#include "os_error.h"
#include "record.h"
#include "rocksdb_log_format.h"

namespace countwheel::wal {
namespace {

// A record that spans blocks is put together here. What is longer is not ours: a blob, and what the
// application writes with it.
constexpr std::size_t kRecordBytesMax = kBlobBytesMax + (std::size_t{128} << 20);

class FileScanner {
 public:
  explicit FileScanner(FileScan* scan) : scan_(scan) {}

  // The blocks of the file, in order.
  void add_block(std::string_view block) {
    std::size_t at = 0;
    while (at + kLogHeaderBytes <= block.size()) {
      const Fragment fragment = parse_fragment(block.substr(at));
      if (fragment.bytes == 0) {
        damage();
        // Inside the block the framing is lost, so every byte may be the start of a fragment; the
        // next block starts afresh.
        at = find_fragment(block, at + 1);
        continue;
      }
      add_fragment(fragment, offset_ + at);
      at += fragment.bytes;
      if (!damaged_ && !assembling_) {
        scan_->good_bytes = offset_ + at;
      }
    }
    // Zeroes that fill a block belong to the record before them.
    const bool filled = block.size() == kLogBlockBytes && !damaged_ && !assembling_;
    if (filled && block.find_first_not_of('\0', at) == std::string_view::npos) {
      scan_->good_bytes = offset_ + block.size();
    }
    offset_ += block.size();
  }

 private:
  void damage() noexcept {
    damaged_ = true;
    assembling_ = false;
  }

  static std::size_t find_fragment(std::string_view block, std::size_t at) noexcept {
    while (at + kLogHeaderBytes <= block.size() && parse_fragment(block.substr(at)).bytes == 0) {
      ++at;
    }
    return at;
  }

  void add_fragment(const Fragment& fragment, std::uint64_t offset) {
    switch (fragment.type) {
      case FragmentType::kFull:
        if (assembling_) {
          damage();
        }
        add_record(fragment.data, offset);
        return;
      case FragmentType::kFirst:
        if (assembling_) {
          damage();
        }
        record_.assign(fragment.data);
        record_offset_ = offset;
        assembling_ = true;
        too_long_ = false;
        return;
      default:
        break;
    }
    if (!assembling_) {
      damage();  // the start of this record was not there
      return;
    }
    too_long_ |= record_.size() + fragment.data.size() > kRecordBytesMax;
    if (too_long_) {
      record_.clear();
    } else {
      record_.append(fragment.data);
    }
    if (fragment.type == FragmentType::kLast) {
      assembling_ = false;
      add_record(record_, record_offset_);
    }
  }

  void add_record(std::string_view record, std::uint64_t offset) {
    BlobHeader header;
    const std::string_view blob = blob_in_record(record);
    if (blob.empty() || !decode_header(blob, &header).ok()) {
      return;  // somebody else's, or for the reader to complain about
    }
    scan_->highest_watermark = std::max(scan_->highest_watermark, header.watermark);
    if (damaged_) {
      return;
    }
    if (scan_->first_sequence == 0) {
      scan_->first_sequence = header.sequence;
    } else if (header.previous != scan_->last_sequence && scan_->gap_offset == 0) {
      scan_->gap_offset = offset;
    }
    scan_->last_sequence = header.sequence;
  }

  FileScan* scan_;
  std::uint64_t offset_ = 0;  // of the current block
  bool damaged_ = false;
  bool assembling_ = false;
  bool too_long_ = false;
  std::string record_;
  std::uint64_t record_offset_ = 0;
};

// Reads `count` bytes or up to the end of the file; answers how many, or an errno.
Result<std::size_t> read_fully(int file, const std::string& path, char* out, std::size_t count) {
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = ::read(file, out + done, count - done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return os_error(errno, path, "read");
    }
    if (got == 0) {
      break;
    }
    done += static_cast<std::size_t>(got);
  }
  return done;
}

std::optional<std::uint64_t> number_of_log(const std::string& name) {
  const std::size_t dot = name.find(".log");
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), number);
  if (dot == std::string::npos || dot == 0 || dot + 4 != name.size() ||
      parsed.ptr != name.data() + dot) {
    return std::nullopt;
  }
  return number;
}

// CURRENT names the manifest. When it does not, RocksDB says so better than we could.
std::string manifest_path(const std::string& directory) {
  const Descriptor file(::open((directory + "/CURRENT").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  const ssize_t count = file.valid() ? ::read(file.get(), text.data(), text.size()) : 0;
  std::string name(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  while (!name.empty() && name.back() == '\n') {
    name.pop_back();
  }
  return name.rfind("MANIFEST-", 0) == 0 ? directory + "/" + name : std::string();
}

void summarize(WalScan* scan) {
  for (const FileScan& file : scan->files) {
    scan->last_sequence = std::max(scan->last_sequence, file.last_sequence);
    scan->highest_watermark = std::max(scan->highest_watermark, file.highest_watermark);
  }
}

}  // namespace

bool WalScan::clean() const noexcept {
  std::uint64_t last = 0;
  for (const FileScan& file : files) {
    if (!file.whole() || file.gap_offset != 0) {
      return false;
    }
    if (last != 0 && file.first_sequence != 0 && file.first_sequence != last + 1) {
      return false;
    }
    last = file.last_sequence != 0 ? file.last_sequence : last;
  }
  return manifest_whole();
}

std::uint64_t WalScan::torn_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const FileScan& file : files) {
    bytes += file.bytes - file.good_bytes;
  }
  return bytes;
}

const FileScan* WalScan::damaged_after(std::uint64_t sequence) const noexcept {
  const FileScan* found = nullptr;
  for (const FileScan& file : files) {
    if (!file.whole() && (file.last_sequence <= sequence || found == nullptr)) {
      found = &file;
    }
  }
  return found;
}

FileView view_of(const FileScan& manifest) {
  return manifest.whole() ? FileView{} : FileView{manifest.path, manifest.good_bytes};
}

Result<FileScan> scan_log_file(const std::string& path) {
  FileScan scan;
  scan.path = path;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) {
    return os_error(errno, path, "open");
  }
  constexpr std::size_t kBlocksAtOnce = 32;
  std::string buffer(kBlocksAtOnce * kLogBlockBytes, '\0');
  FileScanner scanner(&scan);
  for (;;) {
    const Result<std::size_t> count = read_fully(file.get(), path, buffer.data(), buffer.size());
    if (!count.ok()) {
      return count.status();
    }
    scan.bytes += *count;
    for (std::size_t at = 0; at < *count; at += kLogBlockBytes) {
      scanner.add_block({buffer.data() + at, std::min(kLogBlockBytes, *count - at)});
    }
    if (*count < buffer.size()) {
      return scan;
    }
  }
}

Result<WalScan> scan_wal(const std::string& directory) {
  WalScan scan;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::optional<std::uint64_t> number = number_of_log(entry->path().filename().string());
    if (!number) {
      continue;
    }
    Result<FileScan> file = scan_log_file(entry->path().string());
    if (!file.ok()) {
      return file.status();
    }
    file->number = *number;
    scan.files.push_back(std::move(*file));
  }
  if (error) {
    return os_error(error.value(), directory, "list");
  }
  std::sort(scan.files.begin(), scan.files.end(), [](const FileScan& left, const FileScan& right) {
    return left.number < right.number;
  });
  if (const std::string manifest = manifest_path(directory); !manifest.empty()) {
    // One that is not there is RocksDB's to report.
    if (Result<FileScan> file = scan_log_file(manifest); file.ok()) {
      scan.manifest = std::move(*file);
    }
  }
  summarize(&scan);
  return scan;
}

}  // namespace countwheel::wal
