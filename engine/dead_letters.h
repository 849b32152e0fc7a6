// DeadLetters: in which order tasks became dead letters, for what may be kept of them.
#ifndef COUNTWHEEL_ENGINE_DEAD_LETTERS_H_
#define COUNTWHEEL_ENGINE_DEAD_LETTERS_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <countwheel/task.h>

namespace countwheel::detail {

// Thread contract: safe for concurrent use; nests inside a shard lock.
class DeadLetters {
 public:
  void add(TaskId id, std::int64_t died_wall_ns) {
    const std::lock_guard lock(mutex_);
    letters_.emplace(died_wall_ns, id);
  }
  void remove(TaskId id, std::int64_t died_wall_ns) {
    const std::lock_guard lock(mutex_);
    letters_.erase({died_wall_ns, id});
  }

  // The oldest that are more than `max_count`, and those that died before `died_before_ns`.
  std::vector<TaskId> excess(std::size_t max_count, std::int64_t died_before_ns) const {
    const std::lock_guard lock(mutex_);
    std::vector<TaskId> ids;
    std::size_t left = letters_.size();
    for (auto it = letters_.begin();
         it != letters_.end() && (left > max_count || it->first < died_before_ns);
         ++it, --left) {
      ids.push_back(it->second);
    }
    return ids;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::pair<std::int64_t, TaskId>> letters_;  // guarded by mutex_
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_DEAD_LETTERS_H_
