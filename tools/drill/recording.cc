#include "recording.h"

#include <algorithm>
#include <utility>

namespace countwheel::drill {

Recording::Recording(std::string name, std::uint64_t order_limit) : order_limit_(order_limit) {
  flow_.name = std::move(name);
}

Recording::Known& Recording::seen(std::int64_t id, std::int64_t at_ns) {
  ++facts_.event_count;
  last_ns_ = std::max(last_ns_, at_ns);
  const auto [place, added] = known_.try_emplace(id);
  if (added) {
    ++facts_.id_count;
    ++facts_.earlier_count;  // Unless this is its arrival.
  }
  return place->second;
}

void Recording::arrive(std::int64_t id,
                       std::int64_t at_ns,
                       bool buy,
                       std::int64_t price,
                       std::int64_t quantity) {
  const std::uint64_t known_count = facts_.id_count;
  Known& known = seen(id, at_ns);
  if (facts_.id_count == known_count) {
    return;  // Ended, or arrived, before: the feed is out of order.
  }
  --facts_.earlier_count;
  if (flow_.orders.size() >= order_limit_) {
    return;
  }
  known.ours = true;
  known.order = static_cast<std::uint32_t>(flow_.orders.size());
  known.open_quantity = std::max<std::int64_t>(quantity, 1);
  flow_.orders.push_back(
      {.arrive_ns = at_ns, .price = price, .quantity = known.open_quantity, .buy = buy});
}

void Recording::reduce(std::int64_t id, std::int64_t at_ns, std::int64_t quantity, bool traded) {
  const auto place = known_.find(id);
  const std::int64_t open = place == known_.end() ? 0 : place->second.open_quantity;
  if (place != known_.end() && place->second.ours && open - quantity <= 0) {
    end(id, at_ns, traded ? LifeEnd::kFill : LifeEnd::kCancel);
    return;
  }
  reduce_to(id, at_ns, open - quantity, traded);
}

void Recording::reduce_to(std::int64_t id, std::int64_t at_ns, std::int64_t quantity, bool traded) {
  Known& known = seen(id, at_ns);
  if (!known.ours || known.ended || quantity <= 0 || quantity >= known.open_quantity) {
    return;
  }
  ++facts_.reduction_count;
  flow_.reductions.push_back({.at_ns = at_ns,
                              .quantity = known.open_quantity - quantity,
                              .order = known.order,
                              .traded = traded});
  known.open_quantity = quantity;
}

void Recording::end(std::int64_t id, std::int64_t at_ns, LifeEnd how) {
  Known& known = seen(id, at_ns);
  if (known.ended) {
    facts_.repeated_end_count += known.ended_again ? 0 : 1;
    known.ended_again = true;
    return;
  }
  known.ended = true;
  (how == LifeEnd::kFill ? facts_.fill_count : facts_.cancel_count) += 1;
  if (known.ours) {
    flow_.orders[known.order].end = how;
    flow_.orders[known.order].end_ns = at_ns;
  }
}

Flow Recording::flow() && {
  if (flow_.orders.empty()) {
    return std::move(flow_);
  }
  // Feeds are in order but for a few milliseconds, so the first line need not be the first arrival.
  const std::int64_t first_ns = std::min_element(flow_.orders.begin(),
                                                 flow_.orders.end(),
                                                 [](const OrderLife& a, const OrderLife& b) {
                                                   return a.arrive_ns < b.arrive_ns;
                                                 })
                                    ->arrive_ns;
  for (OrderLife& life : flow_.orders) {
    life.arrive_ns -= first_ns;
    life.end_ns =
        life.end == LifeEnd::kRests ? 0 : std::max(life.end_ns - first_ns, life.arrive_ns + 1);
  }
  for (Reduction& reduction : flow_.reductions) {
    reduction.at_ns -= first_ns;
  }
  std::stable_sort(flow_.reductions.begin(),
                   flow_.reductions.end(),
                   [](const Reduction& a, const Reduction& b) { return a.at_ns < b.at_ns; });
  const bool cut = flow_.orders.size() >= order_limit_;
  flow_.close_ns = (cut ? flow_.orders.back().arrive_ns : last_ns_ - first_ns) + 1'000'000'000;
  return std::move(flow_);
}

}  // namespace countwheel::drill
