// CellPool: which attempt cells are free.
//
// A cell is taken before a handler starts and given back once the record that ends the attempt is
// written, so that a kill -9 at any moment between finds it. When none is left no handler starts:
// the limit on deliveries in flight.
#ifndef COUNTWHEEL_ENGINE_CELL_POOL_H_
#define COUNTWHEEL_ENGINE_CELL_POOL_H_

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <countwheel/journal.h>

namespace countwheel::detail {

// Thread contract: safe for concurrent use.
class CellPool {
 public:
  // Gives out up to `max_taken` at a time.
  explicit CellPool(std::span<AttemptCell> cells,
                    std::size_t max_taken = static_cast<std::size_t>(-1))
      : cells_(cells), reserve_(cells.size() - std::min(cells.size(), max_taken)) {
    free_.reserve(cells.size());
    for (std::size_t i = cells.size(); i > 0; --i) {
      free_.push_back(static_cast<std::uint32_t>(i - 1));
    }
  }

  AttemptCell& cell(std::uint32_t index) noexcept { return cells_[index]; }
  std::size_t size() const noexcept { return cells_.size(); }
  // How many may be taken at a time.
  std::size_t limit() const noexcept { return cells_.size() - reserve_; }

  // Up to `count` free cells.
  std::size_t take(std::size_t count, std::uint32_t* out) noexcept {
    const std::lock_guard lock(mutex_);
    std::size_t taken = 0;
    while (taken < count && free_.size() > reserve_) {
      out[taken++] = free_.back();
      free_.pop_back();
    }
    starved_ = taken == 0;
    return taken;
  }

  // Clears the cells and gives them back. True when somebody found none and has given up.
  bool give(std::span<const std::uint32_t> cells) noexcept {
    for (const std::uint32_t index : cells) {
      cells_[index].id.store(0, std::memory_order_release);
    }
    const std::lock_guard lock(mutex_);
    free_.insert(free_.end(), cells.begin(), cells.end());
    return std::exchange(starved_, false);
  }

  // The same for attempts whose end could not be written: their marks stay until the cells are
  // needed, those of the others first.
  bool give_marked(std::span<const std::uint32_t> cells) noexcept {
    const std::lock_guard lock(mutex_);
    free_.insert(free_.begin(), cells.begin(), cells.end());
    return std::exchange(starved_, false);
  }

  // Keeps the cells that an earlier process left marked out of the pool. Before anything runs.
  void keep_marked() {
    std::erase_if(free_, [this](std::uint32_t index) {
      return cells_[index].id.load(std::memory_order_relaxed) != 0;
    });
  }

 private:
  std::span<AttemptCell> cells_;
  const std::size_t reserve_;  // stay free
  std::mutex mutex_;
  std::vector<std::uint32_t> free_;  // guarded by mutex_; capacity for all: give() cannot throw
  bool starved_ = false;             // guarded by mutex_
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_CELL_POOL_H_
