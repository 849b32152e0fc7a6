// TimeOrder: tasks by a moment in time, for what may be kept of them: dead letters by when they
// died, done tasks by the end of their deduplication window.
#ifndef COUNTWHEEL_ENGINE_TIME_ORDER_H_
#define COUNTWHEEL_ENGINE_TIME_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <countwheel/task.h>

namespace countwheel::detail {

// Thread contract: safe for concurrent use; nests inside a shard lock.
class TimeOrder {
 public:
  void add(TaskId id, std::int64_t wall_ns) {
    const std::lock_guard lock(mutex_);
    tasks_.emplace(wall_ns, id);
  }
  void remove(TaskId id, std::int64_t wall_ns) {
    const std::lock_guard lock(mutex_);
    tasks_.erase({wall_ns, id});
  }

  // The earliest that are more than `max_count`, and those before `before_ns`.
  std::vector<TaskId> excess(std::size_t max_count, std::int64_t before_ns) const {
    const std::lock_guard lock(mutex_);
    std::vector<TaskId> ids;
    std::size_t left = tasks_.size();
    for (auto it = tasks_.begin();
         it != tasks_.end() && (left > max_count || it->first < before_ns);
         ++it, --left) {
      ids.push_back(it->second);
    }
    return ids;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::pair<std::int64_t, TaskId>> tasks_;  // guarded by mutex_
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_TIME_ORDER_H_
