// Entries, and the chunks they are kept in.
//
// A slot of a linked-list wheel is a chain of cache misses: one node names the next. A slot here is
// a list of 512-byte chunks of 63 entries of 8 bytes each, only ever appended to. Expiry and
// cascade stream through them and prefetch the nodes ahead (7.7 ns per expiry measured against
// 228 ns of a linked list). 15 entries a chunk cost 19 ns, 31 cost 11, 63 cost 8. The price: a slot
// with one timer in it holds 512 bytes, so ten thousand timers spread over an hour take 180 bytes
// each; a million take 42.
#ifndef COUNTWHEEL_WHEEL_CHUNK_H_
#define COUNTWHEEL_WHEEL_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include <countwheel/assert.h>

namespace countwheel::detail {

// A claim that node `index` has a deadline at `offset` inside the slot the entry lies in. It counts
// only if the node says so too; otherwise it is dead and dropped by whoever meets it.
struct WheelEntry {
  std::uint32_t index = 0;
  std::uint32_t offset = 0;
};

struct alignas(64) WheelChunk {
  static constexpr std::uint32_t kEntryCount = 63;

  std::uint32_t next = 0;
  std::uint32_t count = 0;  // valid once another chunk follows
  WheelEntry entries[kEntryCount];
};
static_assert(sizeof(WheelChunk) == 512);

// Zeroed memory on a cache line, from calloc so that pages nobody wrote to cost nothing.
class ZeroedBlock {
 public:
  explicit ZeroedBlock(std::size_t bytes) noexcept : memory_(std::calloc(bytes + kLine, 1)) {
    COUNTWHEEL_ASSERT(memory_ != nullptr);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_);
    aligned_ = static_cast<unsigned char*>(memory_) + (kLine - address % kLine) % kLine;
  }
  ZeroedBlock(ZeroedBlock&& other) noexcept : memory_(other.memory_), aligned_(other.aligned_) {
    other.memory_ = nullptr;
  }
  ZeroedBlock& operator=(ZeroedBlock&&) = delete;
  ~ZeroedBlock() { std::free(memory_); }

  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(aligned_);
  }

 private:
  static constexpr std::size_t kLine = 64;
  void* memory_;
  unsigned char* aligned_ = nullptr;
};

// A list of chunks by number; 12 bytes, so that a ring of 8192 lies in a second-level cache. All
// chunks but the last know their count, the last one's is in `tail`.
struct ChunkList {
  static constexpr std::uint32_t kFull = WheelChunk::kEntryCount;

  std::uint32_t head = 0;
  std::uint32_t tail = kFull;  // {chunk number 26, entries used 6}; no chunk looks like a full one
  std::uint32_t count = 0;

  std::uint32_t tail_chunk() const noexcept { return tail >> 6; }
  std::uint32_t tail_used() const noexcept { return tail & 63; }
};

// Owns all chunks of a wheel. Chunk 0 is never given out: it means "none".
class ChunkPool {
 public:
  WheelChunk& at(std::uint32_t number) noexcept {
    return blocks_[number / kBlockChunks].as<WheelChunk>()[number % kBlockChunks];
  }
  const WheelChunk& at(std::uint32_t number) const noexcept {
    return blocks_[number / kBlockChunks].as<WheelChunk>()[number % kBlockChunks];
  }

  std::uint32_t allocate() noexcept {
    if (free_ != 0) {
      const std::uint32_t number = free_;
      free_ = at(number).next;
      ++used_;
      return number;
    }
    if (fresh_ == blocks_.size() * kBlockChunks) {
      add_block();
    }
    ++used_;
    return fresh_++;
  }

  void release(std::uint32_t number) noexcept {
    at(number).next = free_;
    free_ = number;
    --used_;
  }

  // After this `chunks` may be in use at once without another allocation.
  void reserve(std::size_t chunks) noexcept {
    blocks_.reserve(chunks / kBlockChunks + 2);
    while (blocks_.size() * kBlockChunks < chunks + 1) {
      add_block();
    }
  }

  // Writes to the pages of the first `chunks` fresh ones, so that the first schedules after a
  // reserve do not pay for page faults.
  void touch(std::size_t chunks) noexcept {
    for (std::size_t i = fresh_; i < fresh_ + chunks && i < blocks_.size() * kBlockChunks; i += 4) {
      static_cast<volatile std::uint32_t&>(at(static_cast<std::uint32_t>(i)).next) = 0;
    }
  }

  std::size_t used_count() const noexcept { return used_; }
  std::size_t touched_bytes() const noexcept { return std::size_t{fresh_} * sizeof(WheelChunk); }

  std::uint32_t used_in(const ChunkList& list, std::uint32_t number) const noexcept {
    return number == list.tail_chunk() ? list.tail_used() : at(number).count;
  }

  void append(ChunkList& list, WheelEntry entry) noexcept {
    if (list.tail_used() == ChunkList::kFull) [[unlikely]] {
      extend(list);
    }
    at(list.tail_chunk()).entries[list.tail_used()] = entry;
    ++list.tail;
    ++list.count;
  }

 private:
  static constexpr std::uint32_t kBlockChunks = 4096;

  [[gnu::noinline]] void add_block() noexcept {
    // {chunk number 26} of ChunkList::tail.
    COUNTWHEEL_ASSERT(blocks_.size() < (1U << 26) / kBlockChunks);
    blocks_.emplace_back(std::size_t{kBlockChunks} * sizeof(WheelChunk));
    if (fresh_ == 0) {
      fresh_ = 1;
    }
  }

  [[gnu::noinline]] void extend(ChunkList& list) noexcept {
    const std::uint32_t number = allocate();
    if (list.head == 0) {
      list.head = number;
    } else {
      WheelChunk& last = at(list.tail_chunk());
      last.count = list.tail_used();
      last.next = number;
    }
    list.tail = number << 6;
  }

  std::vector<ZeroedBlock> blocks_;
  std::uint32_t free_ = 0;
  std::uint32_t fresh_ = 0;
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
  std::uint32_t front_position() const noexcept { return front_; }

  // What is left of the first chunk. REQUIRES: !empty()
  std::span<WheelEntry> front(ChunkPool& pool) const noexcept {
    WheelChunk& chunk = pool.at(list_.head);
    return {chunk.entries + front_, pool.used_in(list_, list_.head) - front_};
  }

  // The entries of the chunk behind the first, to be prefetched; empty if there is none.
  std::span<const WheelEntry> second(const ChunkPool& pool) const noexcept {
    if (list_.head == list_.tail_chunk()) {
      return {};
    }
    const std::uint32_t next = pool.at(list_.head).next;
    return {pool.at(next).entries, pool.used_in(list_, next)};
  }

  // REQUIRES: entry_count <= front(pool).size()
  void consume(ChunkPool& pool, std::size_t entry_count) noexcept {
    front_ += static_cast<std::uint32_t>(entry_count);
    list_.count -= static_cast<std::uint32_t>(entry_count);
    while (list_.head != 0 && front_ >= pool.used_in(list_, list_.head)) {
      const bool last = list_.head == list_.tail_chunk();
      const std::uint32_t next = pool.at(list_.head).next;
      pool.release(list_.head);
      front_ = 0;
      if (last) {
        COUNTWHEEL_ASSERT(list_.count == 0);
        list_ = ChunkList{};
      } else {
        list_.head = next;
      }
    }
  }

  // Keeps the entries for which keep(entry) is true. look_ahead(entry) is called for each entry
  // about a chunk before keep() is. REQUIRES: nothing was consumed yet.
  template <class LookAhead, class Keep>
  void filter(ChunkPool& pool, LookAhead&& look_ahead, Keep&& keep) noexcept {
    if (empty()) {
      return;
    }
    for (const WheelEntry& entry : front(pool)) {
      look_ahead(entry);
    }
    std::uint32_t number = list_.head;
    const std::uint32_t last = list_.tail_chunk();
    while (true) {
      WheelChunk& chunk = pool.at(number);
      const std::uint32_t used = pool.used_in(list_, number);
      const std::uint32_t next = number == last ? 0 : chunk.next;
      const WheelEntry* const ahead = next == 0 ? nullptr : pool.at(next).entries;
      const std::uint32_t ahead_count = next == 0 ? 0 : pool.used_in(list_, next);
      std::uint32_t kept = 0;
      for (std::uint32_t i = 0; i < used; ++i) {
        if (i < ahead_count) {
          look_ahead(ahead[i]);
        }
        const WheelEntry entry = chunk.entries[i];
        chunk.entries[kept] = entry;
        kept += keep(entry) ? 1U : 0U;
      }
      list_.count -= used - kept;
      if (number == last) {
        list_.tail = number << 6 | kept;
        break;
      }
      chunk.count = kept;
      number = next;
    }
    consume(pool, 0);  // Gives back leading chunks that are empty now.
  }

  void append(ChunkPool& pool, WheelEntry entry) noexcept { pool.append(list_, entry); }

 private:
  ChunkList list_;
  std::uint32_t front_ = 0;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_WHEEL_CHUNK_H_
