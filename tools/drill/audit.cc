#include "audit.h"

#include <algorithm>
#include <utility>

#include <countwheel/status.h>

#include "order_audit.h"

namespace countwheel::drill {

namespace {

constexpr std::size_t kMaxProblemTexts = 10;

LatenessUs summary_of(std::vector<std::int64_t> lateness_ns) {
  LatenessUs summary;
  if (lateness_ns.empty()) {
    return summary;
  }
  std::sort(lateness_ns.begin(), lateness_ns.end());
  const auto at = [&lateness_ns](double share) {
    const auto last = static_cast<double>(lateness_ns.size() - 1);
    return static_cast<double>(lateness_ns[static_cast<std::size_t>(share * last)]) / 1000.0;
  };
  summary.count = lateness_ns.size();
  summary.p50 = at(0.5);
  summary.p99 = at(0.99);
  summary.max = at(1.0);
  return summary;
}

// The stamps of each order, in the order of the ring, and when the lives of the service began.
struct Grouped {
  std::vector<std::uint64_t> first;  // of each order in `stamps`; one more than there are orders
  std::vector<Stamp> stamps;
  std::vector<std::int64_t> serving_ns;  // by life
  std::uint16_t kill_count = 0;
  std::uint64_t stray_count = 0;  // of orders that do not exist
};

Grouped group(const History& history) {
  Grouped grouped;
  grouped.first.assign(history.orders.size() + 1, 0);
  const auto of_order = [](const Stamp& stamp) {
    return stamp.kind != StampKind::kNone && stamp.kind != StampKind::kServing &&
           stamp.kind != StampKind::kKill;
  };
  for (const Stamp& stamp : history.stamps) {
    if (stamp.kind == StampKind::kServing) {
      grouped.serving_ns.resize(std::max<std::size_t>(grouped.serving_ns.size(), stamp.life + 1U));
      grouped.serving_ns[stamp.life] = stamp.boot_ns;
    } else if (stamp.kind == StampKind::kKill) {
      ++grouped.kill_count;
    } else if (of_order(stamp) && stamp.order >= history.orders.size()) {
      ++grouped.stray_count;
    } else if (of_order(stamp)) {
      ++grouped.first[stamp.order + 1];
    }
  }
  for (std::size_t i = 1; i < grouped.first.size(); ++i) {
    grouped.first[i] += grouped.first[i - 1];
  }
  std::vector<std::uint64_t> next(grouped.first.begin(), grouped.first.end() - 1);
  grouped.stamps.resize(grouped.first.back());
  for (const Stamp& stamp : history.stamps) {
    if (of_order(stamp) && stamp.order < history.orders.size()) {
      grouped.stamps[next[stamp.order]++] = stamp;
    }
  }
  return grouped;
}

void count(const OrderVerdict& order, OrderState state, Verdict* verdict) {
  if (!order.scheduled) {
    verdict->never_sent += state == OrderState::kAbsent ? 0 : 1;
    return;
  }
  ++verdict->scheduled;
  if (order.unknown) {
    ++verdict->unknown;
  } else if (state == OrderState::kCancelled) {
    ++verdict->cancelled;
  } else if (state == OrderState::kFilled) {
    ++verdict->filled;
  } else if (state == OrderState::kExpired) {
    ++verdict->expired;
  }
  verdict->redelivered += order.start_count > 1 ? order.start_count - 1 : 0;
}

void judge(const OrderVerdict& order, std::uint32_t id, Verdict* verdict) {
  verdict->lost += order.lost ? 1 : 0;
  verdict->duplicated += order.duplicated ? 1 : 0;
  verdict->early += order.early ? 1 : 0;
  verdict->revived += order.revived ? 1 : 0;
  verdict->inconsistent += order.inconsistent || order.revived ? 1 : 0;
  if (!order.problem.empty() && verdict->problems.size() < kMaxProblemTexts) {
    verdict->problems.push_back("order " + std::to_string(id) + ": " + order.problem);
  }
}

}  // namespace

void Verdict::add_inconsistency(const std::string& text) {
  ++inconsistent;
  if (problems.size() < kMaxProblemTexts) {
    problems.push_back(text);
  }
}

Verdict audit(const History& history) {
  const Grouped grouped = group(history);
  Verdict verdict;
  std::vector<std::int64_t> session_ns;
  std::vector<std::int64_t> close_ns;
  std::vector<std::int64_t> overdue_ns;
  OrderAudit order_audit(history.durability, grouped.kill_count, grouped.serving_ns);
  for (std::uint32_t i = 0; i < history.orders.size(); ++i) {
    const std::span<const Stamp> stamps(grouped.stamps.data() + grouped.first[i],
                                        grouped.first[i + 1] - grouped.first[i]);
    const OrderVerdict order = order_audit.judge(history.orders[i], stamps);
    count(order, history.orders[i].state, &verdict);
    judge(order, i, &verdict);
    if (order.start_count > 0 && order.lateness_ns >= 0) {
      (order.overdue                ? overdue_ns
       : history.orders[i].at_close ? close_ns
                                    : session_ns)
          .push_back(order.lateness_ns);
    }
  }
  if (grouped.stray_count > 0) {
    verdict.add_inconsistency(std::to_string(grouped.stray_count) +
                              " stamps name orders that do not exist");
  }
  const std::uint64_t ended =
      verdict.cancelled + verdict.filled + verdict.expired + verdict.unknown;
  // An order that is lost is open in the book for ever; it is counted, and not twice.
  if (verdict.scheduled != ended && verdict.scheduled > ended + verdict.lost) {
    verdict.add_inconsistency(std::to_string(verdict.scheduled) + " scheduled, but " +
                              std::to_string(ended) + " ended or unknown");
  }
  std::vector<std::int64_t> all_ns = session_ns;
  all_ns.insert(all_ns.end(), close_ns.begin(), close_ns.end());
  verdict.lateness_us = summary_of(std::move(all_ns));
  verdict.session_us = summary_of(std::move(session_ns));
  verdict.close_us = summary_of(std::move(close_ns));
  verdict.overdue_us = summary_of(std::move(overdue_ns));
  return verdict;
}

}  // namespace countwheel::drill
