// The one place of the engine that includes Asio: it costs seconds of every file that does.
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <countwheel/executor.h>

namespace countwheel {
namespace {

// Blocks for the pool's queue, kept and reused: posting from the tick thread must not allocate in
// steady state, and Asio's own cache of blocks belongs to threads that run the pool.
class BlockCache {
 public:
  static constexpr std::size_t kBlockBytes = 256;

  BlockCache() = default;
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  ~BlockCache() {
    for (void* block : free_) {
      ::operator delete(block);
    }
  }

  void* take(std::size_t bytes) {
    if (bytes <= kBlockBytes) {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        void* block = free_.back();
        free_.pop_back();
        return block;
      }
    }
    return ::operator new(bytes <= kBlockBytes ? kBlockBytes : bytes);
  }

  void give(void* block, std::size_t bytes) noexcept {
    if (bytes <= kBlockBytes) {
      const std::lock_guard lock(mutex_);
      if (free_.size() < free_.capacity()) {
        free_.push_back(block);
        return;
      }
    }
    ::operator delete(block);
  }

  void reserve(std::size_t blocks) { free_.reserve(blocks); }

 private:
  std::mutex mutex_;
  std::vector<void*> free_;  // guarded by mutex_
};

template <class T>
struct CachedAllocator {
  using value_type = T;
  explicit CachedAllocator(BlockCache* blocks) noexcept : cache(blocks) {}
  template <class U>
  CachedAllocator(const CachedAllocator<U>& other) noexcept  // NOLINT(google-explicit-constructor)
      : cache(other.cache) {}
  T* allocate(std::size_t n) { return static_cast<T*>(cache->take(n * sizeof(T))); }
  void deallocate(T* block, std::size_t n) noexcept { cache->give(block, n * sizeof(T)); }
  template <class U>
  bool operator==(const CachedAllocator<U>& other) const noexcept {
    return cache == other.cache;
  }
  BlockCache* cache;
};

class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(std::size_t threads) : threads_(threads), pool_(threads) {
    cache_.reserve(threads * 4);
  }

  // join() and not stop(): a stopped pool drops what was posted.
  ~ThreadPool() override { pool_.join(); }

  void post(Work work) noexcept override {
    boost::asio::post(pool_, boost::asio::bind_allocator(CachedAllocator<char>(&cache_), [work] {
                        work.run(work.argument);
                      }));
  }

  std::size_t concurrency() const noexcept override { return threads_; }

 private:
  std::size_t threads_;
  BlockCache cache_;
  boost::asio::thread_pool pool_;
};

}  // namespace

Result<std::unique_ptr<Executor>> make_thread_pool(std::size_t threads) {
  try {
    return std::unique_ptr<Executor>(std::make_unique<ThreadPool>(threads));
  } catch (const std::exception& error) {
    return Status(Code::kResource,
                  "cannot start " + std::to_string(threads) + " worker threads: " + error.what());
  }
}

}  // namespace countwheel
