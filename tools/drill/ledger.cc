#include "ledger.h"

#include <algorithm>

#include <countwheel/status.h>

namespace countwheel::drill {

Ledger::Ledger(std::uint32_t order_count, Durability durability)
    : orders_(order_count), durability_(durability) {}

void Ledger::read(const Stamp& stamp) {
  if (stamp.kind == StampKind::kServing || stamp.kind == StampKind::kKill ||
      stamp.order >= orders_.size()) {
    return;  // The audit counts stamps of orders that do not exist.
  }
  Order& order = orders_[stamp.order];
  switch (stamp.kind) {
    case StampKind::kScheduleBegin:
      ++unacked_count_;
      order.schedule = std::max(order.schedule, Schedule::kBegun);
      break;
    case StampKind::kCancelBegin:
      ++unacked_count_;
      order.cancel = Cancel::kBegun;
      break;
    case StampKind::kScheduleReturn:
    case StampKind::kCancelReturn:
      answer(stamp);
      break;
    case StampKind::kStart:
      ++running_count_;
      order.run = Run::kRunning;
      break;
    case StampKind::kEnd:
      running_count_ -= std::min<std::uint64_t>(running_count_, 1);
      order.run = Run::kEnded;
      break;
    case StampKind::kDoneDurable:
      order.run = Run::kDone;
      break;
    case StampKind::kNone:
    case StampKind::kServing:
    case StampKind::kKill:
      break;
  }
}

void Ledger::answer(const Stamp& stamp) {
  Order& order = orders_[stamp.order];
  unacked_count_ -= std::min<std::uint64_t>(unacked_count_, 1);
  order.lsn = std::max(order.lsn, stamp.detail);
  if (durability_ < Durability::kDisk && stamp.detail > 0) {
    answered_lsns_.push_back(stamp.detail);
  }
  if (stamp.kind == StampKind::kScheduleReturn) {
    order.schedule = Schedule::kAnswered;
    return;
  }
  const Code code = static_cast<Code>(stamp.code);
  order.cancel = code == Code::kCancelled ? Cancel::kCancelled
                 : code == Code::kTooLate ? Cancel::kTooLate
                                          : Cancel::kNotFound;
}

void Ledger::end_life() {
  unacked_count_ = 0;
  running_count_ = 0;
  answered_lsns_.clear();
  for (Order& order : orders_) {
    // A running task whose cancel came too late is not delivered again either.
    if (order.run == Run::kEnded ||
        (order.run == Run::kRunning && order.cancel == Cancel::kTooLate)) {
      order.run = Run::kEndedEarlier;
    }
  }
}

std::uint64_t Ledger::unsynced_count(std::uint64_t synced_lsn) const noexcept {
  return static_cast<std::uint64_t>(
      std::count_if(answered_lsns_.begin(), answered_lsns_.end(), [synced_lsn](std::uint64_t lsn) {
        return lsn > synced_lsn;
      }));
}

Ledger::Fate Ledger::fate(const Order& order, std::uint64_t written_lsn) const noexcept {
  if (order.schedule == Schedule::kNone || order.run == Run::kDone) {
    return Fate::kGone;
  }
  // Answers at `memory` may be ahead of the log.
  const bool safe = durability_ >= Durability::kOs || order.lsn <= written_lsn;
  if (order.cancel == Cancel::kCancelled) {
    return safe ? Fate::kGone : Fate::kUncertain;
  }
  if (order.run == Run::kRunning) {
    // A cancel that meets it running keeps it from being delivered again.
    return safe && order.cancel == Cancel::kNone ? Fate::kLive : Fate::kUncertain;
  }
  if (order.run == Run::kEnded || order.run == Run::kEndedEarlier) {
    return Fate::kUncertain;  // Its completion may or may not be written.
  }
  if (order.cancel == Cancel::kNotFound) {
    return Fate::kGone;
  }
  if (order.cancel != Cancel::kNone || order.schedule == Schedule::kBegun) {
    return Fate::kUncertain;
  }
  return safe ? Fate::kLive : Fate::kUncertain;
}

Ledger::Pending Ledger::pending(std::uint64_t written_lsn) const noexcept {
  Pending pending;
  for (const Order& order : orders_) {
    const Fate fate_now = fate(order, written_lsn);
    pending.certain += fate_now == Fate::kLive ? 1 : 0;
    pending.uncertain += fate_now == Fate::kUncertain ? 1 : 0;
  }
  return pending;
}

bool Ledger::sent(std::uint32_t order) const noexcept {
  return orders_[order].schedule != Schedule::kNone;
}

bool Ledger::cancel_answered(std::uint32_t order) const noexcept {
  return orders_[order].cancel > Cancel::kBegun;
}

bool Ledger::all_settled() const noexcept {
  return std::all_of(orders_.begin(), orders_.end(), [](const Order& order) {
    return order.schedule == Schedule::kNone || order.run == Run::kDone ||
           order.run == Run::kEndedEarlier || order.cancel == Cancel::kCancelled ||
           (order.run == Run::kNone && order.cancel == Cancel::kNotFound);
  });
}

}  // namespace countwheel::drill
