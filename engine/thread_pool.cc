// The one place of the engine that includes Asio: it costs seconds of every file that does.
#include <exception>
#include <string>

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include <countwheel/asio_executor.h>
#include <countwheel/executor.h>

namespace countwheel {
namespace {

// Not an AsioExecutor: that one would keep its own pool from being joined.
class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(std::size_t threads)
      : threads_(threads), cache_(threads * detail::BlockCache::kPerThread), pool_(threads) {}

  // join() and not stop(): a stopped pool drops what was posted.
  ~ThreadPool() override { pool_.join(); }

  void post(Work work) noexcept override {
    boost::asio::post(pool_,
                      boost::asio::bind_allocator(detail::CachedAllocator<char>(&cache_),
                                                  [work] { work.run(work.argument); }));
  }

  std::size_t concurrency() const noexcept override { return threads_; }

 private:
  std::size_t threads_;
  detail::BlockCache cache_;
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
