// Ledger: the gateway's running account of what the stamps say.
//
// It knows at every moment how many calls wait for an answer and how many handlers run, which is
// when a kill is worth most, and after a kill which orders must be live in the log, which must not,
// and which may be either because their call was under way.
#ifndef COUNTWHEEL_TOOLS_DRILL_LEDGER_H_
#define COUNTWHEEL_TOOLS_DRILL_LEDGER_H_

#include <cstdint>
#include <vector>

#include <countwheel/task.h>

#include "stamp.h"

namespace countwheel::drill {

// Thread contract: distinct objects: safe. Shared objects: unsafe.
class Ledger {
 public:
  Ledger(std::uint32_t order_count, Durability durability);

  void read(const Stamp& stamp);
  // The service is gone: what was under way has no answer and never will.
  void end_life();

  std::uint64_t unacked_count() const noexcept { return unacked_count_; }
  std::uint64_t running_count() const noexcept { return running_count_; }
  // Answered in this life below `synced_lsn`'s reach; none at kDisk, where answers wait for it.
  std::uint64_t unsynced_count(std::uint64_t synced_lsn) const noexcept;

  struct Pending {
    std::uint64_t certain = 0;
    std::uint64_t uncertain = 0;
  };
  // What is live in the log. `written_lsn`: kill -9 cannot take back what is below.
  Pending pending(std::uint64_t written_lsn) const noexcept;

  // A schedule of it has begun, in any life.
  bool sent(std::uint32_t order) const noexcept;
  // Its cancel was answered for good.
  bool cancel_answered(std::uint32_t order) const noexcept;
  // Nothing more will come of any order.
  bool all_settled() const noexcept;

 private:
  enum class Schedule : std::uint8_t { kNone, kBegun, kAnswered };
  enum class Cancel : std::uint8_t { kNone, kBegun, kCancelled, kTooLate, kNotFound };
  // kEndedEarlier: in a life that was killed; it may be delivered again or not.
  enum class Run : std::uint8_t { kNone, kRunning, kEnded, kEndedEarlier, kDone };
  enum class Fate : std::uint8_t { kGone, kLive, kUncertain };

  struct Order {
    std::uint64_t lsn = 0;  // of the last answer
    Schedule schedule = Schedule::kNone;
    Cancel cancel = Cancel::kNone;
    Run run = Run::kNone;
  };

  void answer(const Stamp& stamp);
  Fate fate(const Order& order, std::uint64_t written_lsn) const noexcept;

  std::vector<Order> orders_;
  std::vector<std::uint64_t> answered_lsns_;  // in this life; only below kDisk
  Durability durability_;
  std::uint64_t unacked_count_ = 0;
  std::uint64_t running_count_ = 0;
};

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_LEDGER_H_
