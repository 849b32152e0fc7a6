// DurableWaiters: who is to be told that an LSN is durable, when no thread waits for it.
//
// Kept by the group commit. A caller first adds itself and then looks at the marks; a committer
// first moves the marks and then looks for waiters. Both are sequentially consistent, so one of the
// two sees the other and nobody is forgotten. Whoever takes a waiter out is the one to call it.
#ifndef COUNTWHEEL_ENGINE_DURABLE_WAITERS_H_
#define COUNTWHEEL_ENGINE_DURABLE_WAITERS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <countwheel/assert.h>
#include <countwheel/notice.h>
#include <countwheel/status.h>
#include <countwheel/task.h>

namespace countwheel::detail {

// A waiter that was taken out, and what it is to be told.
struct SettledNotice {
  Notice notice;
  Status status;
};

// Thread contract: safe for concurrent use. Nothing is called under its lock but `settled`.
class DurableWaiters {
 public:
  // seq_cst: partner of the store in count().
  bool empty() const noexcept { return count_.load() == 0; }

  // False when closed. REQUIRES: level is kOs or kDisk.
  bool add(std::uint64_t lsn, Durability level, const Notice& notice) {
    const std::lock_guard lock(mutex_);
    if (closed_) {
      return false;
    }
    const bool added = waiting_[place(level)].emplace(Key(lsn, notice.argument), notice.run).second;
    COUNTWHEEL_ASSERT(added);
    count();
    return true;
  }

  // True if and only if the waiter was there: nobody will call it.
  bool remove(std::uint64_t lsn, Durability level, const Notice& notice) {
    const std::lock_guard lock(mutex_);
    const bool removed = waiting_[place(level)].erase(Key(lsn, notice.argument)) != 0;
    count();
    return removed;
  }

  // Takes out, in LSN order, those for whom settled(lsn, level, &status) answers true. It stops at
  // the first for whom it does not, unless `all` are to be looked at.
  template <class Settled>
  std::vector<SettledNotice> take(bool all, const Settled& settled) {
    std::vector<SettledNotice> taken;
    const std::lock_guard lock(mutex_);
    for (const Durability level : {Durability::kOs, Durability::kDisk}) {
      Waiting& waiting = waiting_[place(level)];
      for (auto it = waiting.begin(); it != waiting.end();) {
        Status status;
        if (settled(it->first.first, level, &status)) {
          taken.push_back({{it->second, it->first.second}, std::move(status)});
          it = waiting.erase(it);
        } else if (all) {
          ++it;
        } else {
          break;
        }
      }
    }
    count();
    return taken;
  }

  // Nobody is added any more.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  using Key = std::pair<std::uint64_t, void*>;  // LSN and argument
  using Waiting = std::map<Key, void (*)(void*, const Status&) noexcept>;

  static std::size_t place(Durability level) noexcept {
    COUNTWHEEL_ASSERT(level != Durability::kMemory);
    return level == Durability::kOs ? 0 : 1;
  }
  void count() noexcept { count_.store(waiting_[0].size() + waiting_[1].size()); }

  std::mutex mutex_;
  std::array<Waiting, 2> waiting_;     // guarded by mutex_
  bool closed_ = false;                // guarded by mutex_
  std::atomic<std::size_t> count_{0};  // written under mutex_
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_DURABLE_WAITERS_H_
