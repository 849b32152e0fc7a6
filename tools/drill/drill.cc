#include "drill.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sys/vfs.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "../commands.h"
#include "bitstamp.h"
#include "interrupt.h"
#include "lobster.h"
#include "progress.h"

namespace countwheel::drill {

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kDefaultOrderCount = 200'000;
constexpr std::uint64_t kTmpfsMagic = 0x01021994;
constexpr std::uint64_t kRamfsMagic = 0x858458f6;

// Two directories beside one another: the log of the drill and that of the unpaced phase. Given
// by the user the first is kept, everything else is removed.
class Workplace {
 public:
  static Result<Workplace> make(const std::string& directory) {
    if (!directory.empty()) {
      // Without the slashes at its end, so that what stands beside it can be named.
      return Workplace(directory.substr(0, directory.find_last_not_of('/') + 1), "");
    }
    std::error_code error;
    std::string pattern = (fs::temp_directory_path(error) / "countwheel-drill-XXXXXX").string();
    if (error || mkdtemp(pattern.data()) == nullptr) {
      return Status(Code::kResource, "no temporary directory can be made; use --dir");
    }
    return Workplace(pattern + "/orders", pattern);
  }

  Workplace(Workplace&& other) noexcept
      : orders_(std::move(other.orders_)),
        temporary_(std::exchange(other.temporary_, {})),
        unpaced_(std::exchange(other.unpaced_, {})) {}
  Workplace& operator=(Workplace&&) = delete;
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  ~Workplace() {
    std::error_code ignored;
    if (!unpaced_.empty()) {
      fs::remove_all(unpaced_, ignored);
    }
    if (!temporary_.empty()) {
      fs::remove_all(temporary_, ignored);
    }
  }

  const std::string& orders() const { return orders_; }

  // On the same file system as the orders, and nobody else's.
  Result<std::string> make_unpaced() {
    std::string pattern = orders_ + ".unpaced-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      return Status(Code::kResource, pattern + ": cannot be made");
    }
    unpaced_ = pattern;
    return pattern;
  }

  bool temporary() const { return !temporary_.empty(); }

  // fsync costs nothing there, and promises nothing.
  bool on_memory_disk() const {
    struct statfs facts = {};
    const std::string& path = temporary() ? temporary_ : orders_;
    if (statfs(path.c_str(), &facts) != 0) {
      return false;
    }
    const auto magic = static_cast<std::uint64_t>(facts.f_type);
    return magic == kTmpfsMagic || magic == kRamfsMagic;
  }

 private:
  Workplace(std::string orders, std::string temporary)
      : orders_(std::move(orders)), temporary_(std::move(temporary)) {}

  std::string orders_;
  std::string temporary_;
  std::string unpaced_;
};

Result<Flow> load(const DrillOptions& options) {
  const std::uint64_t limit = options.order_count > 0 ? options.order_count : 10'000'000;
  if (!options.lobster_path.empty()) {
    CsvReader reader(options.lobster_path);
    return read_lobster(reader, limit, nullptr);
  }
  if (!options.bitstamp_path.empty()) {
    CsvReader reader(options.bitstamp_path);
    return read_bitstamp(reader, limit, nullptr);
  }
  const std::uint32_t count = options.order_count > 0 ? options.order_count : kDefaultOrderCount;
  return generate(options.preset, count, options.seed);
}

std::vector<OrderTruth> truths(const Plan& plan, Region& region) {
  const Book book = region.book();
  const std::int64_t start_wall_ns = region.control().start_wall_ns.load();
  std::vector<OrderTruth> result;
  result.reserve(plan.orders.size());
  for (std::uint32_t i = 0; i < plan.orders.size(); ++i) {
    const PlannedOrder& order = plan.orders[i];
    result.push_back(
        {.deadline_ns = order.relative() ? order.deadline_ns : start_wall_ns + order.deadline_ns,
         .relative = order.relative(),
         .state = book.state(i),
         .at_close = !order.relative() && order.deadline_ns == plan.close_ns});
  }
  return result;
}

// What the orders' own histories cannot show.
void check_the_rest(const DrillReport& report, Region& region, Verdict* verdict) {
  for (std::size_t i = 0; i < report.gateway.recoveries.size(); ++i) {
    const Recovery& recovery = report.gateway.recoveries[i];
    if (!recovery.agrees()) {
      verdict->add_inconsistency(
          fmt::format("after kill {} the log held {} live tasks, the parent counts {} to {}",
                      i + 1,
                      recovery.found.live,
                      recovery.pending,
                      recovery.pending + recovery.uncertain));
    }
  }
  const BookTotals& totals = report.gateway.totals;
  const std::int64_t ended = totals.traded + totals.withdrawn + totals.expired + totals.open;
  if (totals.arrived != ended) {
    verdict->add_inconsistency(fmt::format(
        "quantities do not add up: {} arrived, {} ended or open", totals.arrived, ended));
  }
  if (report.gateway.missed_kills > 0) {
    verdict->add_inconsistency(fmt::format("{} kills found no work in flight before the end",
                                           report.gateway.missed_kills));
  }
  if (region.ring().overflowed()) {
    verdict->add_inconsistency("the ring of stamps was too small");
  }
}

Result<UnpacedResult> measure(const DrillOptions& options, Workplace& workplace, ProgressBar& bar) {
  bar.show(1.0, "measuring durable operations without a pace");
  const Result<std::string> directory = workplace.make_unpaced();
  if (!directory.ok()) {
    return directory.status();
  }
  return run_unpaced(
      {.directory = *directory, .durability = options.durability, .seed = options.seed});
}

Result<DrillReport> drill(const DrillOptions& options, const Flow& flow, Workplace& workplace) {
  const auto begin = std::chrono::steady_clock::now();
  const double speed = options.speed > 0 ? options.speed : default_speed(flow);
  const Plan plan = make_plan(flow, speed, options.seed);
  Result<Region> region = Region::create(plan, options.kill_shares.size());
  if (!region.ok()) {
    return region.status();
  }
  Control& control = region->control();
  control.durability = options.durability;
  control.tick_precision = options.tick_precision;
  control.plant = options.plant;
  if (workplace.orders().size() >= control.directory.size()) {
    return Status(Code::kInvalidArgument, "--dir: the path is longer than 4,095 bytes");
  }
  copy_text(control.directory, workplace.orders());

  ProgressBar bar;
  const auto show = [&bar](const GatewayProgress& progress) {
    bar.show(progress.share,
             fmt::format("{} orders, {} kills{}, {:.0f} s left",
                         progress.arrived_count,
                         progress.kill_count,
                         progress.serving ? "" : ", recovering",
                         std::max(progress.seconds_left, 0.0)));
  };
  Gateway gateway(plan, *region, options.kill_shares, show);
  Result<GatewayReport> played = gateway.run();
  if (!played.ok()) {
    return played.status();
  }
  DrillReport report{.source = flow.name,
                     .order_count = static_cast<std::uint32_t>(plan.orders.size()),
                     .seed = options.seed,
                     .speed = speed,
                     .durability = options.durability,
                     .tick_precision = options.tick_precision,
                     .directory = workplace.temporary() ? "" : workplace.orders(),
                     .memory_disk = workplace.on_memory_disk(),
                     .gateway = *played,
                     .service = control.totals};
  const std::vector<OrderTruth> orders = truths(plan, *region);
  report.verdict =
      audit({.stamps = region->stamps(), .orders = orders, .durability = options.durability});
  check_the_rest(report, *region, &report.verdict);
  if (options.unpaced) {
    Result<UnpacedResult> unpaced = measure(options, workplace, bar);
    if (!unpaced.ok()) {
      return unpaced.status();
    }
    report.unpaced = *unpaced;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

int complain(const Status& status, int exit_code) {
  fmt::print(stderr, "countwheel drill: {}\n", status.text());
  return exit_code;
}

}  // namespace

int run_drill(const DrillOptions& options) {
  note_interrupts();
  const Result<Flow> flow = load(options);
  if (!flow.ok()) {
    return complain(flow.status(),
                    flow.code() == Code::kNotFound ? tools::kExitUsage : tools::kExitDamaged);
  }
  Result<Workplace> workplace = Workplace::make(options.directory);
  if (!workplace.ok()) {
    return complain(workplace.status(), tools::kExitFailed);
  }
  const Result<DrillReport> report = drill(options, *flow, *workplace);
  if (!report.ok()) {
    return complain(report.status(),
                    report.code() == Code::kCorrupt ? tools::kExitDamaged : tools::kExitFailed);
  }
  if (options.json) {
    print_json_of(*report);
  } else {
    fmt::print("{}", text_of(*report));
  }
  return report->verdict.ok() ? tools::kExitOk : tools::kExitFailed;
}

}  // namespace countwheel::drill
