// HistoryBuilder: hand-made histories for the audit, one line a moment.
//
//   HistoryBuilder history;
//   history.absolute(0, 100).scheduled(0, 10).starts(0, 120).ends(0, 130).expired(0);
//   EXPECT_TRUE(history.verdict().ok());
//
// Times are small numbers, the same on both clocks; each method stamps at the time given.
#ifndef COUNTWHEEL_TESTS_DRILL_HISTORY_H_
#define COUNTWHEEL_TESTS_DRILL_HISTORY_H_

#include <cstdint>
#include <vector>

#include <countwheel/status.h>

#include "tools/drill/audit.h"

namespace countwheel::drill {

class HistoryBuilder {
 public:
  explicit HistoryBuilder(Durability durability = Durability::kDisk) : durability_(durability) {
    stamp(StampKind::kServing, 0, 0);
  }

  HistoryBuilder& absolute(std::uint32_t order, std::int64_t deadline) {
    return truth(order, deadline, false);
  }
  HistoryBuilder& relative(std::uint32_t order, std::int64_t delay) {
    return truth(order, delay, true);
  }

  HistoryBuilder& begins(std::uint32_t order, std::int64_t time) {
    return stamp(StampKind::kScheduleBegin, order, time);
  }
  HistoryBuilder& answered(std::uint32_t order, std::int64_t time, Code code = Code::kOk) {
    return stamp(StampKind::kScheduleReturn, order, time, code);
  }
  // The whole call, a moment long.
  HistoryBuilder& scheduled(std::uint32_t order, std::int64_t time, Code code = Code::kOk) {
    return begins(order, time).answered(order, time + 1, code);
  }
  HistoryBuilder& cancel_begins(std::uint32_t order, std::int64_t time) {
    return stamp(StampKind::kCancelBegin, order, time);
  }
  HistoryBuilder& cancelled(std::uint32_t order, std::int64_t time, Code code = Code::kCancelled) {
    return cancel_begins(order, time).stamp(StampKind::kCancelReturn, order, time + 1, code);
  }
  HistoryBuilder& starts(std::uint32_t order,
                         std::int64_t time,
                         std::uint64_t attempt = 1,
                         Code code = Code::kOk) {
    return stamp(StampKind::kStart, order, time, code, attempt);
  }
  HistoryBuilder& ends(std::uint32_t order, std::int64_t time) {
    return stamp(StampKind::kEnd, order, time);
  }
  HistoryBuilder& done(std::uint32_t order, std::int64_t time) {
    return stamp(StampKind::kDoneDurable, order, time);
  }
  // From here on in the next life of the service.
  HistoryBuilder& killed(std::int64_t time, std::int64_t serving_again) {
    stamp(StampKind::kKill, 0, time);
    ++life_;
    return stamp(StampKind::kServing, 0, serving_again);
  }

  HistoryBuilder& in_book(std::uint32_t order, OrderState state) {
    orders_.resize(std::max<std::size_t>(orders_.size(), order + 1U));
    orders_[order].state = state;
    return *this;
  }

  Verdict verdict() const {
    return audit({.stamps = stamps_, .orders = orders_, .durability = durability_});
  }

 private:
  HistoryBuilder& truth(std::uint32_t order, std::int64_t ns, bool relative) {
    in_book(order, OrderState::kOpen);
    orders_[order].deadline_ns = ns;
    orders_[order].relative = relative;
    return *this;
  }
  HistoryBuilder& stamp(StampKind kind,
                        std::uint32_t order,
                        std::int64_t time,
                        Code code = Code::kOk,
                        std::uint64_t detail = 0) {
    stamps_.push_back({.boot_ns = time,
                       .wall_ns = time,
                       .detail = detail,
                       .order = order,
                       .kind = kind,
                       .code = static_cast<std::uint8_t>(code),
                       .life = life_});
    return *this;
  }

  Durability durability_;
  std::uint16_t life_ = 0;
  std::vector<Stamp> stamps_;
  std::vector<OrderTruth> orders_;
};

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TESTS_DRILL_HISTORY_H_
