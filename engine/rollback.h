// Rollback: takes back what the log has definitely refused (SEMANTICS 3).
//
// Operations are undone newest first. Kept are those that somebody was already told of at `memory`,
// the engine's own records, and whatever a kept operation stands on: the same task, or the key that
// its task took over. All of it under the locks of all shards, so that nothing is decided meanwhile
// that would stand on what is yet to be taken back.
#ifndef COUNTWHEEL_ENGINE_ROLLBACK_H_
#define COUNTWHEEL_ENGINE_ROLLBACK_H_

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "mailbox.h"
#include "op_queue.h"
#include "pending_limits.h"
#include "task_table.h"

namespace countwheel::detail {

class Rollback {
 public:
  Rollback(TaskTable& table, Limits& limits) : table_(table), limits_(limits) {}

  // Undoes the operations of `queue` from `begin` on, newest first; answers which were kept.
  // Called for the newest queue first. REQUIRES: the locks of all shards.
  std::vector<bool> run(const OpQueue& queue, std::size_t begin);

  // The tasks that must be filed in a wheel again.
  std::vector<MailItem>& mail() noexcept { return mail_; }
  std::uint64_t undone() const noexcept { return undone_; }

 private:
  bool undo(const Op& op, const Undo* undo);
  bool undo_schedule(Shard& shard, Node& node, const Op& op);
  bool undo_upsert(Shard& shard, Node& node, const Op& op, const Undo& undo);
  bool undo_cancel(Shard& shard, Node& node, const Op& op);
  bool undo_reschedule(Shard& shard, Node& node, const Op& op, const Undo& undo);
  bool undo_touch(Shard& shard, Node& node, const Op& op, const Undo& undo);
  bool undo_group(const Op& op);
  void keep_group_of(const Op& op);
  void back_in_group(Shard& shard, const Node& node, std::uint32_t index);
  void revisit_groups();
  void bury_again(Shard& shard, std::uint32_t index);
  void file(const Node& node, std::uint32_t index);

  TaskTable& table_;
  Limits& limits_;
  std::unordered_set<std::uint64_t> kept_ids_;
  std::unordered_set<std::uint64_t> kept_groups_;
  std::unordered_set<std::uint64_t> groups_;  // whose members must be visited again
  std::vector<MailItem> mail_;
  std::uint64_t undone_ = 0;
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_ROLLBACK_H_
