// PlacePool: room for deliveries that have started.
//
// A place is free again as soon as its attempt has ended, an attempt cell only once the record of
// that is written: so a few places are used over and over, and stay in the cache, while a herd goes
// through many cells.
#ifndef COUNTWHEEL_ENGINE_PLACE_POOL_H_
#define COUNTWHEEL_ENGINE_PLACE_POOL_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "in_flight.h"

namespace countwheel::detail {

// Thread contract: safe for concurrent use; a Cache belongs to one thread.
class PlacePool {
 public:
  static constexpr std::size_t kBlock = 64;
  using Cache = std::vector<InFlight*>;

  // From the cache, filled from the pool when it is empty.
  InFlight* take(Cache& cache) {
    if (cache.empty()) {
      refill(cache);
    }
    InFlight* const place = cache.back();
    cache.pop_back();
    return place;
  }

  // Back into the cache, which keeps no more than a few.
  void give(Cache& cache, InFlight* place) {
    cache.push_back(place);
    if (cache.size() > 2 * kBlock) {
      give_all(cache, kBlock);
    }
  }
  // All but `kept` of the cache.
  void give_all(Cache& cache, std::size_t kept = 0) {
    const std::lock_guard lock(mutex_);
    while (cache.size() > kept) {
      free_.push_back(cache.back());
      cache.pop_back();
    }
  }

 private:
  void refill(Cache& cache) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      InFlight* const block = blocks_.emplace_back(std::make_unique<InFlight[]>(kBlock)).get();
      for (std::size_t i = kBlock; i > 0; --i) {
        free_.push_back(&block[i - 1]);
      }
    }
    while (!free_.empty() && cache.size() < kBlock) {
      cache.push_back(free_.back());
      free_.pop_back();
    }
  }

  std::mutex mutex_;
  std::vector<InFlight*> free_;                      // guarded by mutex_
  std::vector<std::unique_ptr<InFlight[]>> blocks_;  // guarded by mutex_
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_PLACE_POOL_H_
