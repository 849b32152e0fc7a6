#include "service.h"

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <thread>
#include <utility>

#include <countwheel/engine.h>
#include <countwheel/recovery.h>

#include "region.h"
#include "service_witness.h"

namespace countwheel::drill {

namespace {

constexpr std::string_view kType = "order.expire";

// How long a handler waits for a kill that is near: long enough for a parent that gets the
// processor now and then.
constexpr std::chrono::milliseconds kLingeringHandler(100);
constexpr std::chrono::milliseconds kLingeringStep(1);

// The pause of the command thread when there is nothing to do.
constexpr std::chrono::microseconds kCommandPause(50);

// A planted fault picks an order that is due no sooner: what it does must show.
constexpr std::chrono::milliseconds kPlantMargin(400);
constexpr std::uint32_t kNoOrder = 0xffffffff;

constexpr std::size_t kPayloadBytes = 16;

// The order and a number made of it, so that a payload that was mixed up with another shows.
struct Payload {
  explicit Payload(std::uint32_t order) {
    const std::uint64_t words[2] = {order, check_of(order)};
    std::memcpy(bytes, words, kPayloadBytes);
  }

  static std::uint64_t check_of(std::uint64_t order) { return (order + 1) * 0x9e3779b97f4a7c15U; }
  // False when the bytes are not those of any order.
  static bool read(std::string_view bytes, std::uint32_t* order) {
    std::uint64_t words[2] = {};
    if (bytes.size() != kPayloadBytes) {
      return false;
    }
    std::memcpy(words, bytes.data(), kPayloadBytes);
    *order = static_cast<std::uint32_t>(words[0]);
    return words[1] == check_of(words[0]);
  }

  std::string_view view() const { return {bytes, kPayloadBytes}; }

  char bytes[kPayloadBytes];
};

std::string key_of(std::uint32_t order) {
  return "order-" + std::to_string(order);
}

bool order_of_key(std::string_view key, std::uint32_t* order) {
  constexpr std::string_view kPrefix = "order-";
  if (!key.starts_with(kPrefix)) {
    return false;
  }
  key.remove_prefix(kPrefix.size());
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), *order);
  return error == std::errc() && end == key.data() + key.size();
}

class Service {
 public:
  explicit Service(Region& region)
      : region_(region),
        control_(region.control()),
        ring_(region.ring()),
        book_(region.book()),
        life_(control_.life.load()) {}

  int run();

 private:
  Status open();
  Status serve();
  void schedule(std::uint32_t order);
  void cancel(std::uint32_t order);
  void handle(Delivery delivery);
  void publish_totals();
  Deadline deadline_of(std::uint32_t order) const;
  // This fault is to be planted, and has not been. Orders that are sent again, before the engine
  // starts, are spared: most are live already, and nothing would come of it.
  bool plants(Plant plant) const;
  // True once: the caller commits the fault.
  bool take(Plant plant);
  // The order's deadline is far enough away for a fault to show.
  bool planned_later(std::uint32_t order) const;
  bool due_later(std::string_view key) const;
  int fail(const Status& status);

  Region& region_;
  Control& control_;
  StampRing ring_;
  Book book_;
  std::uint16_t life_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Witness> witness_;
  std::atomic<bool> planted_{false};
  // The order that was given a deadline too early, which a cancel may undo.
  std::atomic<std::uint32_t> early_order_{kNoOrder};
};

int Service::run() {
  if (Status status = open(); !status.ok()) {
    return fail(status);
  }
  if (Status status = serve(); !status.ok()) {
    return fail(status);
  }
  witness_->stop();
  publish_totals();
  Status stopped = engine_->stop(std::chrono::seconds(30));
  witness_.reset();
  engine_.reset();
  if (!stopped.ok()) {
    return fail(stopped);
  }
  control_.phase.store(ServicePhase::kStopped);
  return 0;
}

int Service::fail(const Status& status) {
  copy_text(control_.error, status.text());
  control_.phase.store(ServicePhase::kFailed);
  return 1;
}

Status Service::open() {
  OpenOptions options;
  options.engine.durability = control_.durability;
  if (control_.tick_precision) {
    options.engine.wheel.precision = Precision::kTick;
  }
  Result<Opened> opened = countwheel::open(control_.directory.data(), std::move(options));
  if (!opened.ok()) {
    return opened.status();
  }
  engine_ = std::move(opened->engine);
  witness_ = std::make_unique<Witness>(region_, *engine_);
  // A drill with many kills must not turn the order that is always running into a dead letter.
  TypePolicy policy;
  policy.retry.max_crashes = 255;
  Status registered = engine_->on(
      kType, [this](Delivery delivery) { handle(std::move(delivery)); }, policy);
  if (!registered.ok()) {
    return registered;
  }
  const RecoveryReport& report = opened->report;
  control_.recovery = {.live = report.live,
                       .overdue = report.overdue,
                       .redelivered = report.redelivered,
                       .ops = report.ops,
                       .torn_bytes = report.torn_bytes,
                       .seconds = report.seconds};
  // Release by default: partner of the parent's acquire.
  control_.phase.store(ServicePhase::kRecovered);
  return {};
}

Status Service::serve() {
  std::uint64_t place = 0;
  for (;;) {
    Command command;
    if (!region_.read(place, &command)) {
      std::this_thread::sleep_for(kCommandPause);
      continue;
    }
    ++place;
    switch (command.kind) {
      case CommandKind::kSchedule:
        schedule(command.order);
        break;
      case CommandKind::kCancel:
        cancel(command.order);
        break;
      case CommandKind::kStart: {
        ring_.push(StampKind::kServing, 0, life_);
        if (Status status = engine_->start(); !status.ok()) {
          return status;
        }
        witness_->start();
        control_.phase.store(ServicePhase::kServing);
        break;
      }
      case CommandKind::kStop:
        return {};
    }
  }
}

Deadline Service::deadline_of(std::uint32_t order) const {
  const PlannedOrder& planned = region_.orders()[order];
  const std::chrono::nanoseconds ns(planned.deadline_ns);
  if (planned.relative()) {
    return after(ns);
  }
  const std::chrono::nanoseconds start(control_.start_wall_ns.load(std::memory_order_relaxed));
  return at(WallTime(start + ns));
}

bool Service::plants(Plant plant) const {
  return control_.plant == plant && control_.plant_now.load(std::memory_order_relaxed) &&
         control_.phase.load(std::memory_order_relaxed) == ServicePhase::kServing &&
         !planted_.load(std::memory_order_relaxed);
}

bool Service::take(Plant plant) {
  return plants(plant) && !planted_.exchange(true);
}

bool Service::planned_later(std::uint32_t order) const {
  const PlannedOrder& planned = region_.orders()[order];
  const std::int64_t begin_ns =
      planned.relative() ? 0 : stamp_now().wall_ns - control_.start_wall_ns.load();
  return std::chrono::nanoseconds(planned.deadline_ns - begin_ns) > kPlantMargin;
}

bool Service::due_later(std::string_view key) const {
  const Result<TaskInfo> info = engine_->find(key);
  const WallTime now(std::chrono::nanoseconds(stamp_now().wall_ns));
  return info.ok() && info->deadline > now + kPlantMargin;
}

void Service::schedule(std::uint32_t order) {
  const std::string key = key_of(order);
  const Payload payload(order);
  TaskSpec spec{.type = kType,
                .deadline = deadline_of(order),
                .key = key,
                .payload = payload.view(),
                .durability = control_.durability};
  ring_.push(StampKind::kScheduleBegin, order, life_);
  if (take(Plant::kLost)) {
    ring_.push(StampKind::kScheduleReturn, order, life_);
    return;
  }
  if (plants(Plant::kEarly) && planned_later(order) && take(Plant::kEarly)) {
    spec.deadline = after(std::chrono::nanoseconds(0));
    early_order_.store(order);
  }
  const Result<Submitted> submitted = engine_->submit(spec);
  if (!submitted.ok()) {
    ring_.push(
        StampKind::kScheduleReturn, order, life_, static_cast<std::uint8_t>(submitted.code()));
    return;
  }
  witness_->await({.order = order, .kind = StampKind::kScheduleReturn, .lsn = submitted->lsn});
}

void Service::cancel(std::uint32_t order) {
  const std::string key = key_of(order);
  ring_.push(StampKind::kCancelBegin, order, life_);
  if (plants(Plant::kRevive) && due_later(key) && take(Plant::kRevive)) {
    ring_.push(StampKind::kCancelReturn, order, life_, static_cast<std::uint8_t>(Code::kCancelled));
    return;
  }
  const Change change = engine_->submit_cancel(key);
  if (change && early_order_.load() == order) {
    planted_.store(false);  // It never started: nothing to be found.
  }
  if (!change) {
    ring_.push(
        StampKind::kCancelReturn, order, life_, static_cast<std::uint8_t>(change.status.code()));
    return;
  }
  witness_->await({.order = order,
                   .kind = StampKind::kCancelReturn,
                   .code = Code::kCancelled,
                   .lsn = change.lsn});
}

void Service::handle(Delivery delivery) {
  const Stamp start = stamp_now();
  std::uint32_t order = 0;
  std::uint32_t order_in_payload = 0;
  const bool known = order_of_key(delivery.key(), &order) && order < control_.order_count;
  const bool whole =
      Payload::read(delivery.payload(), &order_in_payload) && order_in_payload == order;
  Stamp stamp = start;
  stamp.kind = StampKind::kStart;
  stamp.order = known ? order : control_.order_count;  // The audit will not overlook it.
  stamp.life = life_;
  stamp.code = static_cast<std::uint8_t>(whole ? Code::kOk : Code::kCorrupt);
  stamp.detail = delivery.attempt();
  ring_.push(stamp);
  if (!known) {
    return;
  }
  const TaskId id = delivery.id();
  book_.expire(order);
  // Behind the effect: the order has expired, so nobody cancels its timer while the service is
  // away, and what the kill interrupts must be delivered again.
  for (auto waited = kLingeringStep;
       control_.linger.load(std::memory_order_relaxed) && waited <= kLingeringHandler;
       waited += kLingeringStep) {
    std::this_thread::sleep_for(kLingeringStep);
  }
  ring_.push(StampKind::kEnd, order, life_);
  if (take(Plant::kDup)) {
    ring_.push(stamp);
    ring_.push(StampKind::kEnd, order, life_);
  }
  if (delivery.done().ok()) {
    witness_->ended(order, id);
  }
}

void Service::publish_totals() {
  const Stats stats = engine_->stats();
  control_.totals = {.ops = stats.ops,
                     .elided = stats.elided,
                     .commits = stats.commits,
                     .syncs = stats.journal.syncs,
                     .handover_p50_ns = stats.lateness_ns.quantile(0.5),
                     .handover_p99_ns = stats.lateness_ns.quantile(0.99)};
}

}  // namespace

int run_service(int descriptor) {
  // Nobody reads what an orphan does.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  Result<Region> region = Region::attach(descriptor);
  if (!region.ok()) {
    return 2;
  }
  return Service(*region).run();
}

}  // namespace countwheel::drill
