#include "generator.h"

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "quantiles.h"
#include "random.h"

namespace countwheel::drill {

namespace {

constexpr std::int64_t kMicrosecond = 1'000;
constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

// Orders closer together than this are one cluster.
constexpr double kClusterGapUs = 1000.0;

std::int64_t nanoseconds(double value, std::int64_t unit_ns) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(value * static_cast<double>(unit_ns)));
}

// When the orders of one stock or coin arrive.
class Symbol {
 public:
  Symbol(const FlowTables& tables, bool clustered) : tables_(&tables), clustered_(clustered) {}

  // From one arrival to the next.
  std::int64_t next_gap_ns(Random& random) {
    if (!clustered_) {
      return nanoseconds(quantile(tables_->interarrival_us, random.uniform()), kMicrosecond);
    }
    // Drawing gaps one by one gives the right gaps and the wrong bursts: real clusters have a much
    // heavier tail than a chain of coin flips. So sizes are drawn, then gaps within and between.
    const double bend = share_below(tables_->interarrival_us, kClusterGapUs);
    const bool within = left_in_cluster_ > 0;
    if (within) {
      --left_in_cluster_;
    } else {
      left_in_cluster_ = cluster_size(random.uniform()) - 1;
    }
    const double share = within ? random.uniform() * bend : bend + random.uniform() * (1.0 - bend);
    return nanoseconds(quantile(tables_->interarrival_us, share), kMicrosecond);
  }

 private:
  const FlowTables* tables_;
  bool clustered_;
  std::uint32_t left_in_cluster_ = 0;
};

// Arrivals of several symbols, merged, the first at 0.
std::vector<std::int64_t> arrivals(const FlowTables& tables,
                                   bool clustered,
                                   std::uint32_t order_count,
                                   Random& random) {
  const std::uint32_t symbol_count = std::max(1U, order_count / kOrdersPerSymbol);
  std::vector<Symbol> symbols(symbol_count, Symbol(tables, clustered));
  using Next = std::pair<std::int64_t, std::uint32_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  for (std::uint32_t i = 0; i < symbol_count; ++i) {
    queue.emplace(symbols[i].next_gap_ns(random), i);
  }
  std::vector<std::int64_t> result;
  result.reserve(order_count);
  while (result.size() < order_count) {
    const auto [at_ns, symbol] = queue.top();
    queue.pop();
    result.push_back(at_ns);
    queue.emplace(at_ns + symbols[symbol].next_gap_ns(random), symbol);
  }
  const std::int64_t first_ns = result.front();
  for (std::int64_t& at_ns : result) {
    at_ns -= first_ns;
  }
  return result;
}

// Spread evenly over 100 s of market time; the close follows after 20 s of quiet.
std::vector<std::int64_t> even_arrivals(std::uint32_t order_count, Random& random) {
  std::vector<std::int64_t> result(order_count);
  for (std::int64_t& at_ns : result) {
    at_ns = static_cast<std::int64_t>(random.uniform() * 100.0 * static_cast<double>(kSecond));
  }
  std::sort(result.begin(), result.end());
  const std::int64_t first_ns = result.front();
  for (std::int64_t& at_ns : result) {
    at_ns -= first_ns;
  }
  return result;
}

OrderLife draw_life(const FlowTables& tables,
                    double rest_share,
                    std::int64_t arrive_ns,
                    double fill_share,
                    Random& random) {
  OrderLife life{.arrive_ns = arrive_ns};
  life.buy = random.uniform() < 0.5;
  life.quantity = 100 * static_cast<std::int64_t>(1 + random.below(10));
  // Around 100.00, buyers below and sellers above: orders rest instead of crossing, as the
  // recorded ones did; who trades is drawn from the tables.
  const auto distance = static_cast<std::int64_t>(1 + random.below(50));
  life.price = 10'000 + (life.buy ? -distance : distance);
  if (random.uniform() < rest_share) {
    return life;
  }
  const bool fill = random.uniform() < fill_share;
  const double share = random.uniform();
  life.end = fill ? LifeEnd::kFill : LifeEnd::kCancel;
  life.end_ns = arrive_ns + nanoseconds(quantile(fill ? tables.fill_ms : tables.cancel_ms, share),
                                        kMillisecond);
  return life;
}

}  // namespace

std::optional<Preset> preset_of(std::string_view name) {
  for (const Preset preset : {Preset::kEquity, Preset::kCrypto, Preset::kSessionClose}) {
    if (name == to_string(preset)) {
      return preset;
    }
  }
  return std::nullopt;
}

std::string_view to_string(Preset preset) {
  switch (preset) {
    case Preset::kEquity:
      return "equity";
    case Preset::kCrypto:
      return "crypto";
    case Preset::kSessionClose:
      return "session-close";
  }
  return "";
}

Flow generate(Preset preset, std::uint32_t order_count, std::uint64_t seed) {
  Random random(seed);
  const bool herd = preset == Preset::kSessionClose;
  const FlowTables& tables = preset == Preset::kCrypto ? kCryptoTables : kEquityTables;
  // Of the herd's few orders that do not rest, a quarter is filled: at the tables' 7 % a small
  // drill would have none.
  const double fill_share = herd ? 0.25 : tables.fill_share();
  const std::vector<std::int64_t> times =
      herd ? even_arrivals(order_count, random)
           : arrivals(tables, preset == Preset::kEquity, order_count, random);
  Flow flow;
  flow.name = to_string(preset);
  flow.orders.reserve(order_count);
  for (const std::int64_t at_ns : times) {
    flow.orders.push_back(draw_life(tables, herd ? 0.8 : 0.0, at_ns, fill_share, random));
  }
  // The close is a whole second: so are the venues'.
  flow.close_ns = (times.back() / kSecond + (herd ? 20 : 1)) * kSecond;
  for (std::uint32_t i = 0; i < order_count; ++i) {
    const OrderLife& life = flow.orders[i];
    if (random.uniform() >= kPartialFillShare) {
      continue;
    }
    const std::int64_t end_ns = life.end == LifeEnd::kRests ? flow.close_ns : life.end_ns;
    const double part = random.uniform();
    flow.reductions.push_back(
        {.at_ns = life.arrive_ns +
                  static_cast<std::int64_t>(part * static_cast<double>(end_ns - life.arrive_ns)),
         .quantity = life.quantity / 2,
         .order = i});
  }
  std::stable_sort(flow.reductions.begin(),
                   flow.reductions.end(),
                   [](const Reduction& a, const Reduction& b) { return a.at_ns < b.at_ns; });
  return flow;
}

}  // namespace countwheel::drill
