// The events of a piece that has been written. Under leader_.
#include "group_commit.h"

namespace countwheel::detail {

// What ended its task, in order. Their slots have not been released, so key and type are there.
void GroupCommit::tell(std::span<const Op> ops) {
  if (!parts_.events.anybody()) {
    return;
  }
  for (const Op& op : ops) {
    Event::Kind kind = Event::Kind::kDone;
    switch (op.kind) {
      case OpKind::kDone:
        break;
      case OpKind::kDead:
        kind = Event::Kind::kDead;
        break;
      case OpKind::kNone:  // elided
      case OpKind::kCancel:
        if (!op.releases || op.dead) {
          continue;
        }
        kind = Event::Kind::kCancelled;
        break;
      default:
        continue;
    }
    Shard& shard = parts_.table.shard_for(op.id);
    const std::lock_guard lock(shard.mutex);
    const State state = parts_.table.node(op.id.index()).load().state();
    if (op.kind == OpKind::kDone && state == State::kCancelled) {
      kind = op.upsert ? Event::Kind::kReplaced : Event::Kind::kCancelled;
    }
    parts_.tell(kind, shard, op);
  }
}

}  // namespace countwheel::detail
