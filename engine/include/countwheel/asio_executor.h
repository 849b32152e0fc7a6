// AsioExecutor: handlers of tasks on an executor of Asio. Part of countwheel/asio.h.
//
//   boost::asio::thread_pool pool(4);
//   countwheel::AsioExecutor executor(pool.get_executor(), 4);
//   auto engine = countwheel::Engine::create({}, {.executor = &executor});
//
// This header needs less of Asio than countwheel/asio.h and may be included alone.
#ifndef COUNTWHEEL_ASIO_EXECUTOR_H_
#define COUNTWHEEL_ASIO_EXECUTOR_H_

#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <countwheel/assert.h>
#include <countwheel/executor.h>

namespace countwheel {

namespace detail {

// Blocks for an executor's queue, kept and reused: posting from the tick thread must not allocate
// in steady state, and Asio's own cache of blocks belongs to threads that run its contexts.
class BlockCache {
 public:
  static constexpr std::size_t kBlockBytes = 256;
  static constexpr std::size_t kPerThread =
      4;  // the engine posts one piece of work for each at most

  explicit BlockCache(std::size_t blocks) { free_.reserve(blocks); }
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

}  // namespace detail

// An executor of Asio as one of ours: of an io_context, a thread_pool, a strand (concurrency 1), or
// any_io_executor (which allocates for each post). Its context has work while this lives, so that
// run() does not return.
// REQUIRES: the context runs until the engine is destroyed, and outlives this; a thread_pool is
// joined and not stopped, since it drops what was posted when it is stopped.
// Thread contract: that of Executor.
template <class Target>
class AsioExecutor final : public Executor {
 public:
  // `concurrency`: threads that run the context. REQUIRES: concurrency > 0.
  AsioExecutor(const Target& executor, std::size_t concurrency)
      : concurrency_(concurrency),
        cache_(concurrency * detail::BlockCache::kPerThread),
        work_(executor) {
    COUNTWHEEL_ASSERT(concurrency > 0);
  }

  void post(Work work) noexcept override {
    boost::asio::post(work_.get_executor(),
                      boost::asio::bind_allocator(detail::CachedAllocator<char>(&cache_),
                                                  [work] { work.run(work.argument); }));
  }
  std::size_t concurrency() const noexcept override { return concurrency_; }

 private:
  const std::size_t concurrency_;
  detail::BlockCache cache_;
  boost::asio::executor_work_guard<Target> work_;
};

}  // namespace countwheel

#endif  // COUNTWHEEL_ASIO_EXECUTOR_H_
