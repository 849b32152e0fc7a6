#include "fence.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <utility>

#include "bytes.h"
#include "crc32c.h"
#include "descriptor.h"

namespace countwheel::wal {
namespace {

// The page. Every mark is kept twice and written in turn, so that a page that was saved between two
// stores still has the one before.
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMagicAt = 0;   // 8
constexpr std::size_t kStoreAt = 8;   // 16
constexpr std::size_t kBootAt = 24;   // 8: hash of the boot id
constexpr std::size_t kCheckAt = 32;  // 8: of the 32 bytes before
constexpr std::size_t kDiskAt = 64;   // 2 x 32: sequence, LSN, check
constexpr std::size_t kOsAt = 128;    // 2 x 32
constexpr std::size_t kCopyBytes = 32;
constexpr std::string_view kFenceMagic = "CWFENCE1";

std::uint64_t check_of(const char* bytes, std::size_t count) noexcept {
  // Never zero, so that a page of zeroes checks out as nothing.
  return std::uint64_t{crc32c({bytes, count})} << 32 | 0x43574645U;
}

void write_mark(char* copy, FenceMark mark) noexcept {
  std::array<char, kCopyBytes> fresh{};
  store_u64(fresh.data(), mark.sequence);
  store_u64(fresh.data() + 8, mark.lsn);
  store_u64(fresh.data() + 16, check_of(fresh.data(), 16));
  std::memcpy(copy, fresh.data(), fresh.size());
  // The compiler must not move the stores behind the acknowledgement; the kernel sees them in
  // order.
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

FenceMark read_mark(const char* copies) noexcept {
  FenceMark best;
  for (std::size_t i = 0; i < 2; ++i) {
    const char* copy = copies + i * kCopyBytes;
    if (load_u64(copy + 16) == check_of(copy, 16) && load_u64(copy) > best.sequence) {
      best = {load_u64(copy), load_u64(copy + 8)};
    }
  }
  return best;
}

std::uint64_t hash_of(const std::string& boot_id) noexcept {
  if (boot_id.empty()) {
    return 0;
  }
  return std::uint64_t{crc32c(boot_id)} << 32 | crc32c(boot_id, 0x9e3779b9U) | 1U;
}

}  // namespace

std::string kernel_boot_id() {
  const Descriptor file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  const ssize_t count = file.valid() ? ::read(file.get(), text.data(), text.size()) : 0;
  return count > 0 ? std::string(text.data(), static_cast<std::size_t>(count)) : std::string();
}

Result<Fence> Fence::open(const DataDir& directory, const std::string& boot_id) {
  Result<MappedFile> page = MappedFile::open(directory, kFenceFile, kPageBytes);
  if (!page.ok()) {
    return page.status();
  }
  if (page->size() < kPageBytes) {
    *page = MappedFile();  // read only, and missing or cut short: no bound
  }
  return Fence(std::move(*page), hash_of(boot_id.empty() ? kernel_boot_id() : boot_id));
}

bool Fence::binds(const StoreUuid* store) const noexcept {
  const char* page = page_.data();
  if (page == nullptr || std::memcmp(page + kMagicAt, kFenceMagic.data(), 8) != 0 ||
      load_u64(page + kCheckAt) != check_of(page, kCheckAt)) {
    return false;
  }
  return store == nullptr || std::memcmp(page + kStoreAt, store->data(), store->size()) == 0;
}

FenceMark Fence::disk(const StoreUuid* store) const noexcept {
  return binds(store) ? read_mark(page_.data() + kDiskAt) : FenceMark{};
}

FenceMark Fence::os(const StoreUuid* store) const noexcept {
  const bool same_boot =
      binds(store) && boot_hash_ != 0 && load_u64(page_.data() + kBootAt) == boot_hash_;
  return same_boot ? read_mark(page_.data() + kOsAt) : FenceMark{};
}

void Fence::begin(const StoreUuid& store, FenceMark mark) noexcept {
  char* page = page_.data();
  // Unbound while it is rewritten: a fence that is half of one log and half of another binds none.
  store_u64(page + kCheckAt, 0);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memset(page + kDiskAt, 0, 4 * kCopyBytes);
  std::memcpy(page + kMagicAt, kFenceMagic.data(), kFenceMagic.size());
  std::memcpy(page + kStoreAt, store.data(), store.size());
  store_u64(page + kBootAt, boot_hash_);
  next_disk_ = 0;
  next_os_ = 0;
  store_disk(mark);
  store_os(mark);
  store_u64(page + kCheckAt, check_of(page, kCheckAt));
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void Fence::store_disk(FenceMark mark) noexcept {
  write_mark(page_.data() + kDiskAt + std::exchange(next_disk_, 1 - next_disk_) * kCopyBytes, mark);
}

void Fence::store_os(FenceMark mark) noexcept {
  write_mark(page_.data() + kOsAt + std::exchange(next_os_, 1 - next_os_) * kCopyBytes, mark);
}

}  // namespace countwheel::wal
