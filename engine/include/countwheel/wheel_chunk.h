// Entries, and the chunks they are kept in.
//
// A slot of a linked-list wheel is a chain of cache misses: one node names the next. A slot here is
// a list of 512-byte chunks of 63 entries of 8 bytes each, only ever appended to. Expiry and
// cascade stream through them and prefetch the nodes ahead (7.7 ns per expiry measured against
// 228 ns of a linked list; 15 entries a chunk cost 19 ns, 31 cost 11). The first chunk of a list is
// a small one of 15 entries, because most slots of a wheel that reaches far hold one timer or two.
//
//   a chunk, four cells of 128 bytes:    [ e0 ... e15 | e16 ... e31 | e32 ... e47 | e48 ... e62 H ]
//   a small one, its last cell only:                                              [ e48 ... e62 H ]
//
// Both end with their header H at the same place, so a small chunk is a chunk that begins at entry
// 48, and nobody but the allocator needs to know the difference.
#ifndef COUNTWHEEL_WHEEL_CHUNK_H_
#define COUNTWHEEL_WHEEL_CHUNK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include <countwheel/assert.h>

namespace countwheel::detail {

// A claim that node `index` has a deadline at `offset` inside the slot the entry lies in. It counts
// only if the node says so too; otherwise it is dead and dropped by whoever meets it.
struct WheelEntry {
  std::uint32_t index = 0;
  std::uint32_t offset = 0;
};

// The end of a chunk.
struct ChunkHeader {
  std::uint32_t next = 0;
  std::uint16_t begin = 0;  // the first entry
  std::uint16_t end = 0;    // one past the last; valid once another chunk follows
};
static_assert(sizeof(ChunkHeader) == sizeof(WheelEntry));

// How chunks divide memory.
struct ChunkShape {
  static constexpr std::uint32_t kEntryCount = 63;
  static constexpr std::uint32_t kSmallBegin = 48;
  static constexpr std::size_t kCellBytes = 128;
  static constexpr std::uint32_t kCells = 4;
  static_assert((kEntryCount + 1) * sizeof(WheelEntry) == kCells * kCellBytes);
  static_assert((kEntryCount + 1 - kSmallBegin) * sizeof(WheelEntry) == kCellBytes);
};

// Asks the kernel to back memory that is about to be filled with pages of 2 MiB. A hint: nothing
// depends on the answer.
void advise_huge_pages(void* memory, std::size_t bytes) noexcept;

// Zeroed memory on a cache line, from calloc so that pages nobody wrote to cost nothing.
class ZeroedBlock {
 public:
  // Memory that will be filled now lies on huge pages: a cold node is then a miss in the cache but
  // not in the TLB too. Elsewhere small pages cost less, and none takes 0.1 ms to be zeroed.
  enum class Use { kFilledNow, kByAndBy };

  ZeroedBlock() = default;
  ZeroedBlock(std::size_t bytes, Use use) noexcept {
    const std::size_t alignment = use == Use::kFilledNow ? kHugePage : kLine;
    memory_ = std::calloc(bytes + alignment, 1);
    COUNTWHEEL_ASSERT(memory_ != nullptr);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_);
    aligned_ = static_cast<unsigned char*>(memory_) + (alignment - address % alignment) % alignment;
    if (use == Use::kFilledNow) {
      advise_huge_pages(aligned_, bytes);
    }
  }
  ZeroedBlock(ZeroedBlock&& other) noexcept : memory_(other.memory_), aligned_(other.aligned_) {
    other.memory_ = nullptr;
  }
  ZeroedBlock& operator=(ZeroedBlock&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(aligned_, other.aligned_);
    return *this;
  }
  ~ZeroedBlock() { std::free(memory_); }

  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(aligned_);
  }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  void* memory_ = nullptr;
  unsigned char* aligned_ = nullptr;
};

// A list of chunks by number; 12 bytes, so that a ring of 8192 lies in a second-level cache. All
// chunks but the last know their end, the last one's is in `tail`.
struct ChunkList {
  static constexpr std::uint32_t kFull = ChunkShape::kEntryCount;

  std::uint32_t head = 0;
  std::uint32_t tail = kFull;  // {chunk number 26, end 6}; no chunk looks like a full one
  std::uint32_t count = 0;

  std::uint32_t tail_chunk() const noexcept { return tail >> 6; }
  std::uint32_t tail_end() const noexcept { return tail & 63; }
};

// Owns all chunks of a wheel. A chunk's number is that of the cell where it begins or, if it is
// small, where it would begin. 0 means "none".
class ChunkPool {
 public:
  WheelEntry* entries(std::uint32_t number) noexcept {
    return reinterpret_cast<WheelEntry*>(address_of(number));
  }
  const WheelEntry* entries(std::uint32_t number) const noexcept {
    return reinterpret_cast<const WheelEntry*>(address_of(number));
  }
  ChunkHeader& header(std::uint32_t number) noexcept {
    return reinterpret_cast<ChunkHeader*>(address_of(number))[ChunkShape::kEntryCount];
  }
  const ChunkHeader& header(std::uint32_t number) const noexcept {
    return reinterpret_cast<const ChunkHeader*>(address_of(number))[ChunkShape::kEntryCount];
  }

  // The chunk behind `number`; 0 if that is the last.
  std::uint32_t next_in(const ChunkList& list, std::uint32_t number) const noexcept {
    return number == list.tail_chunk() ? 0 : header(number).next;
  }

  // Fetches all lines of a chunk: streaming through a list else waits for each of its lines,
  // because the next chunk may lie anywhere. 0 is legal. Inlined by force: gcc takes a function
  // that only prefetches for one without effect and drops the call.
  [[gnu::always_inline]] void prefetch(std::uint32_t number) const noexcept {
    if (number == 0) {
      return;
    }
    const unsigned char* const address = address_of(number);
    for (std::size_t line = 0; line < sizeof(WheelEntry) * (ChunkShape::kEntryCount + 1);
         line += 64) {
      __builtin_prefetch(address + line);
    }
  }

  std::uint32_t end_in(const ChunkList& list, std::uint32_t number) const noexcept {
    return number == list.tail_chunk() ? list.tail_end() : header(number).end;
  }

  void append(ChunkList& list, WheelEntry entry) noexcept {
    if (list.tail_end() == ChunkList::kFull) [[unlikely]] {
      extend(list);
    }
    append_here(list, entry);
  }

  void append(ChunkList& list, std::span<const WheelEntry> more) noexcept {
    while (!more.empty()) {
      if (list.tail_end() == ChunkList::kFull) {
        extend(list);
      }
      const std::size_t share =
          std::min<std::size_t>(more.size(), ChunkList::kFull - list.tail_end());
      std::copy_n(more.begin(), share, entries(list.tail_chunk()) + list.tail_end());
      list.tail += static_cast<std::uint32_t>(share);
      list.count += static_cast<std::uint32_t>(share);
      more = more.subspan(share);
    }
  }

  // REQUIRES: there is room in the last chunk.
  void append_here(ChunkList& list, WheelEntry entry) noexcept {
    entries(list.tail_chunk())[list.tail_end()] = entry;
    ++list.tail;
    ++list.count;
  }

  void release(std::uint32_t number) noexcept {
    ChunkHeader& released = header(number);
    std::uint32_t& free = released.begin == 0 ? free_ : free_small_;
    released.next = free;
    free = number;
    --used_;
  }

  // After this that many chunks may be in use at once without another allocation. The first
  // `filled_count` are expected to be filled soon: their pages are written to, so that the first
  // schedules do not pay for page faults.
  void reserve(std::size_t chunk_count,
               std::size_t small_count,
               std::size_t filled_count) noexcept {
    const std::size_t cells = (chunk_count + 1) * ChunkShape::kCells + small_count;
    const std::size_t filled_end = fresh_ + filled_count * ChunkShape::kCells;
    blocks_.reserve(cells / kBlockCells + 4);
    cells_.reserve(cells / kBlockCells + 4);
    while (blocks_.size() * (kBlockCells - 2 * ChunkShape::kCells) < cells) {
      const bool filled = (blocks_.size() + 1) * kBlockCells <= filled_end;
      add_block(filled ? ZeroedBlock::Use::kFilledNow : ZeroedBlock::Use::kByAndBy);
    }
    constexpr std::size_t kPageCells = 4096 / ChunkShape::kCellBytes;
    const std::size_t end = std::min(filled_end, blocks_.size() * kBlockCells);
    for (std::size_t cell = fresh_; cell < end; cell += kPageCells) {
      static_cast<volatile std::uint32_t&>(header(static_cast<std::uint32_t>(cell)).next) = 0;
    }
  }

  std::size_t used_count() const noexcept { return used_; }
  std::size_t touched_bytes() const noexcept { return fresh_ * ChunkShape::kCellBytes; }

 private:
  static constexpr std::uint32_t kBlockCells = 16'384;  // 2 MiB

  unsigned char* address_of(std::uint32_t number) const noexcept {
    return cells_[number / kBlockCells] +
           std::size_t{number % kBlockCells} * ChunkShape::kCellBytes;
  }

  [[gnu::noinline]] void add_block(ZeroedBlock::Use use) noexcept {
    // {chunk number 26} of ChunkList::tail.
    COUNTWHEEL_ASSERT(blocks_.size() < (1U << 26) / kBlockCells);
    blocks_.emplace_back(std::size_t{kBlockCells} * ChunkShape::kCellBytes, use);
    cells_.push_back(blocks_.back().as<unsigned char>());
  }

  std::uint32_t allocate() noexcept {
    ++used_;
    if (free_ != 0) {
      const std::uint32_t number = free_;
      free_ = header(number).next;
      return number;
    }
    return carve();
  }

  std::uint32_t allocate_small() noexcept {
    if (free_small_ == 0) {
      // Four small ones out of a big one; they stay small for good.
      const std::uint32_t cells = carve();
      for (std::uint32_t i = 0; i < ChunkShape::kCells; ++i) {
        const std::uint32_t number = cells + i - (ChunkShape::kCells - 1);
        header(number) = {free_small_, ChunkShape::kSmallBegin, 0};
        free_small_ = number;
      }
    }
    ++used_;
    const std::uint32_t number = free_small_;
    free_small_ = header(number).next;
    return number;
  }

  // Four cells nobody has used yet. The first four of a block are left out: a small chunk in them
  // would begin in the block before.
  std::uint32_t carve() noexcept {
    if (fresh_ == blocks_.size() * kBlockCells) {
      add_block(ZeroedBlock::Use::kByAndBy);
    }
    if (fresh_ % kBlockCells == 0) {
      fresh_ += ChunkShape::kCells;
    }
    const auto number = static_cast<std::uint32_t>(fresh_);
    fresh_ += ChunkShape::kCells;
    return number;
  }

  [[gnu::noinline]] void extend(ChunkList& list) noexcept {
    std::uint32_t number = 0;
    if (list.head == 0) {
      number = allocate_small();
      list.head = number;
    } else {
      number = allocate();
      ChunkHeader& last = header(list.tail_chunk());
      last.end = static_cast<std::uint16_t>(list.tail_end());
      last.next = number;
    }
    list.tail = number << 6 | header(number).begin;
  }

  std::vector<ZeroedBlock> blocks_;
  std::vector<unsigned char*> cells_;  // where each block begins
  std::uint32_t free_ = 0;
  std::uint32_t free_small_ = 0;
  std::size_t fresh_ = 0;  // the first cell that was never used
  std::size_t used_ = 0;
};

// A list taken out of its ring, read from the front.
class ChunkQueue {
 public:
  ChunkQueue() = default;
  explicit ChunkQueue(const ChunkList& list) noexcept : list_(list) {}

  std::uint32_t size() const noexcept { return list_.count; }
  bool empty() const noexcept { return list_.count == 0; }
  const ChunkList& list() const noexcept { return list_; }
  // How many entries of the first chunk are gone.
  std::uint32_t consumed() const noexcept { return consumed_; }

  // What is left of the first chunk. REQUIRES: !empty()
  std::span<WheelEntry> front(ChunkPool& pool) const noexcept {
    const std::uint32_t begin = pool.header(list_.head).begin + consumed_;
    return {pool.entries(list_.head) + begin, pool.end_in(list_, list_.head) - begin};
  }

  // REQUIRES: entry_count <= front(pool).size()
  void consume(ChunkPool& pool, std::size_t entry_count) noexcept {
    consumed_ += static_cast<std::uint32_t>(entry_count);
    list_.count -= static_cast<std::uint32_t>(entry_count);
    while (list_.head != 0 &&
           pool.header(list_.head).begin + consumed_ >= pool.end_in(list_, list_.head)) {
      const bool last = list_.head == list_.tail_chunk();
      const std::uint32_t next = pool.header(list_.head).next;
      pool.release(list_.head);
      consumed_ = 0;
      if (last) {
        COUNTWHEEL_ASSERT(list_.count == 0);
        list_ = ChunkList{};
      } else {
        list_.head = next;
        pool.prefetch(pool.next_in(list_, next));
      }
    }
  }

  void append(ChunkPool& pool, WheelEntry entry) noexcept { pool.append(list_, entry); }
  void append(ChunkPool& pool, std::span<const WheelEntry> entries) noexcept {
    pool.append(list_, entries);
  }

 private:
  ChunkList list_;
  std::uint32_t consumed_ = 0;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_WHEEL_CHUNK_H_
