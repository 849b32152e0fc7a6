// OrderAudit: the audit of a single order (audit.h says what is judged).
#ifndef COUNTWHEEL_TOOLS_DRILL_ORDER_AUDIT_H_
#define COUNTWHEEL_TOOLS_DRILL_ORDER_AUDIT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "audit.h"

namespace countwheel::drill {

struct OrderVerdict {
  bool scheduled = false;
  bool unknown = false;
  bool lost = false;
  bool duplicated = false;
  bool early = false;
  bool revived = false;
  bool inconsistent = false;
  bool overdue = false;  // fell due before the life of the service in which it started
  std::uint64_t start_count = 0;
  std::int64_t lateness_ns = 0;  // of the first start
  std::string problem;           // the first found
};

// Thread contract: distinct objects: safe. Shared objects: unsafe.
class OrderAudit {
 public:
  // `serving_ns`: when each life of the service began, on the boot clock.
  OrderAudit(Durability durability, std::uint16_t kill_count, std::vector<std::int64_t> serving_ns);

  // `stamps` are those of the order, in the order of the ring.
  OrderVerdict judge(const OrderTruth& truth, std::span<const Stamp> stamps);

 private:
  struct Call {
    std::int64_t begin_ns = 0;
    std::uint16_t life = 0;
    bool answered = false;
    std::uint8_t code = 0;
  };
  struct Start {
    Stamp stamp;
    bool ended = false;
  };

  void read(const Stamp& stamp);
  void begin_call(std::vector<Call>* calls, const Stamp& stamp);
  void end_call(std::vector<Call>* calls, const Stamp& stamp);
  void judge_answers();
  void judge_starts(const OrderTruth& truth);
  void judge_count();
  void judge_cancels();
  void judge_end(const OrderTruth& truth);
  // The begin of the schedule call that a start at this moment belongs to.
  std::int64_t effective_begin_ns(std::int64_t start_ns) const;
  bool settled() const;
  bool killed_in(std::uint16_t life) const { return life < kill_count_; }
  void find(bool* kind, std::string_view problem);

  Durability durability_;
  std::uint16_t kill_count_;
  std::vector<std::int64_t> serving_ns_;

  // Of the order being judged; kept to spare the allocations.
  std::vector<Call> schedules_;
  std::vector<Call> cancels_;
  std::vector<Start> starts_;
  std::vector<std::uint16_t> done_lives_;
  OrderVerdict verdict_;
};

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_ORDER_AUDIT_H_
