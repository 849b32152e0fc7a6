#include "gateway.h"

#include <chrono>
#include <thread>
#include <utility>

#include "interrupt.h"

namespace countwheel::drill {

namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1'000'000'000;

// The pause of the market when nothing is due and no kill is near.
constexpr std::chrono::microseconds kPause(50);

// How long the ring may be silent behind the close before what has not ended counts as lost.
constexpr std::int64_t kSilenceNs = 3 * kSecond;

// How long a service may take to open its log.
constexpr std::int64_t kOpeningNs = 120 * kSecond;

std::int64_t boot_now() noexcept {
  return stamp_now().boot_ns;
}

}  // namespace

Gateway::Gateway(const Plan& plan,
                 Region& region,
                 std::vector<double> kill_shares,
                 OnProgress progress)
    : plan_(plan),
      region_(region),
      control_(region.control()),
      ring_(region.ring()),
      book_(region.book()),
      ledger_(control_.order_count, control_.durability),
      kill_shares_(std::move(kill_shares)),
      on_progress_(std::move(progress)) {}

Result<GatewayReport> Gateway::run() {
  if (Status status = spawn(); !status.ok()) {
    return status;
  }
  for (;;) {
    const std::int64_t now_ns = boot_now();
    bool busy = play_market(now_ns);
    busy = read_stamps() || busy;
    if (Status status = supervise(); !status.ok()) {
      return status;
    }
    if (hunting(now_ns)) {
      control_.linger.store(true, std::memory_order_relaxed);
      if (caught(now_ns) && holds(now_ns)) {
        if (Status status = kill_service(now_ns); !status.ok()) {
          return status;
        }
      }
      busy = true;  // A moment that is worth a kill is short.
    }
    if (over(now_ns)) {
      break;
    }
    report_progress(now_ns);
    if (!busy) {
      std::this_thread::sleep_for(kPause);
    }
  }
  report_.missed_kills = kill_shares_.size() - report_.recoveries.size();
  if (Status status = stop_service(); !status.ok()) {
    return status;
  }
  read_last_stamps();
  report_.totals = book_.totals();
  report_.seconds = static_cast<double>(boot_now() - start_boot_ns_) / static_cast<double>(kSecond);
  return std::move(report_);
}

Status Gateway::spawn() {
  control_.command_count.store(0);
  control_.linger.store(false);
  control_.phase.store(ServicePhase::kOpening);
  control_.written_lsn.store(0);
  control_.synced_lsn.store(0);
  phase_ = Phase::kOpening;
  opening_since_ns_ = boot_now();
  return service_.spawn(region_.descriptor());
}

Status Gateway::failure(const std::string& what) const {
  std::string text = "the timer service " + what;
  if (control_.phase.load() == ServicePhase::kFailed) {
    text += ": ";
    text += control_.error.data();
  }
  return Status(Code::kStopped, text);
}

Status Gateway::supervise() {
  const std::int64_t now_ns = boot_now();
  if (interrupted()) {
    return Status(Code::kStopped, "interrupted");
  }
  const ServicePhase service_phase = control_.phase.load();
  if (service_phase == ServicePhase::kFailed) {
    service_.wait(std::chrono::seconds(1));
    return failure("failed");
  }
  if (phase_ == Phase::kOpening && service_phase == ServicePhase::kRecovered) {
    if (start_boot_ns_ == 0 && control_.recovery.live > 0) {
      return Status(Code::kInvalidArgument,
                    std::string(control_.directory.data()) + ": holds " +
                        std::to_string(control_.recovery.live) +
                        " live tasks; a drill needs an empty directory or a finished log");
    }
    begin_serving();
  }
  if (!down_measured_ && service_phase == ServicePhase::kServing) {
    down_measured_ = true;
    report_.recoveries.back().down_ms =
        static_cast<double>(now_ns - kill_boot_ns_) / static_cast<double>(kMillisecond);
  }
  if (now_ns >= next_check_ns_) {
    next_check_ns_ = now_ns + 10 * kMillisecond;
    if (service_.ended()) {
      return failure("ended by itself (" + service_.how() + ")");
    }
    if (phase_ == Phase::kOpening && now_ns - opening_since_ns_ > kOpeningNs) {
      return failure("has not opened its log in two minutes");
    }
  }
  return {};
}

void Gateway::begin_serving() {
  if (start_boot_ns_ == 0) {
    const Stamp now = stamp_now();
    start_boot_ns_ = now.boot_ns;
    control_.start_wall_ns.store(now.wall_ns);
  } else {
    report_.recoveries.back().found = control_.recovery;
    send_again();
  }
  region_.push({.kind = CommandKind::kStart});
  phase_ = Phase::kServing;
  last_stamp_ns_ = boot_now();  // The ring was silent because nobody was there.
  // A fault that a later kill would heal would prove nothing.
  control_.plant_now.store(report_.recoveries.size() == kill_shares_.size());
}

void Gateway::send_again() {
  for (std::uint32_t order = 0; order < control_.order_count; ++order) {
    const OrderState state = book_.state(order);
    if (state == OrderState::kOpen) {
      region_.push({.kind = CommandKind::kSchedule, .order = order});
    } else if ((state == OrderState::kFilled || state == OrderState::kCancelled) &&
               ledger_.sent(order) && !ledger_.cancel_answered(order)) {
      region_.push({.kind = CommandKind::kCancel, .order = order});
    }
  }
}

bool Gateway::play_market(std::int64_t now_ns) {
  if (start_boot_ns_ == 0) {
    return false;
  }
  const std::int64_t market_ns = now_ns - start_boot_ns_;
  const std::size_t first = next_event_;
  while (next_event_ < plan_.events.size() && plan_.events[next_event_].at_ns <= market_ns) {
    play(plan_.events[next_event_]);
    ++next_event_;
  }
  return next_event_ > first;
}

void Gateway::play(const PlannedEvent& event) {
  const bool serving = phase_ == Phase::kServing;
  switch (event.kind) {
    case EventKind::kArrive:
      book_.rest(event.order, plan_.orders[event.order].quantity);
      ++arrived_count_;
      if (serving) {
        region_.push({.kind = CommandKind::kSchedule, .order = event.order});
      }
      break;
    case EventKind::kReduce:
      book_.reduce(event.order, event.quantity, event.traded);
      break;
    case EventKind::kFill:
    case EventKind::kCancel: {
      const bool ended =
          event.kind == EventKind::kFill ? book_.fill(event.order) : book_.cancel(event.order);
      // One that has expired is too late to fill or cancel.
      if (ended && serving) {
        region_.push({.kind = CommandKind::kCancel, .order = event.order});
      }
      break;
    }
  }
}

bool Gateway::read_stamps() {
  const std::uint64_t first = next_stamp_;
  Stamp stamp;
  while (next_stamp_ < ring_.size() && ring_.read(next_stamp_, &stamp)) {
    ledger_.read(stamp);
    ++next_stamp_;
  }
  if (next_stamp_ > first) {
    last_stamp_ns_ = boot_now();
  }
  return next_stamp_ > first;
}

void Gateway::read_last_stamps() {
  // All writers are gone: a place that is claimed and empty stays empty.
  Stamp stamp;
  for (; next_stamp_ < ring_.size(); ++next_stamp_) {
    if (ring_.read(next_stamp_, &stamp)) {
      ledger_.read(stamp);
    }
  }
}

double Gateway::share_of(std::int64_t now_ns) const {
  return start_boot_ns_ == 0
             ? 0.0
             : static_cast<double>(now_ns - start_boot_ns_) / static_cast<double>(plan_.close_ns);
}

bool Gateway::session_closed(std::int64_t now_ns) const {
  return start_boot_ns_ != 0 && next_event_ == plan_.events.size() &&
         now_ns - start_boot_ns_ >= plan_.close_ns;
}

bool Gateway::hunting(std::int64_t now_ns) const {
  const std::size_t kill = report_.recoveries.size();
  return kill < kill_shares_.size() && control_.phase.load() == ServicePhase::kServing &&
         share_of(now_ns) >= kill_shares_[kill];
}

bool Gateway::caught(std::int64_t now_ns) const {
  // Behind the close no call comes any more; handlers are all there is to catch.
  return ledger_.running_count() > 0 && (ledger_.unacked_count() > 0 || session_closed(now_ns));
}

// What was in flight a moment ago may have ended before the kill: the service is frozen and looked
// at again, and goes on if there is nothing to catch after all.
bool Gateway::holds(std::int64_t now_ns) {
  if (!service_.freeze()) {
    return false;
  }
  read_stamps();
  // A stamp that is claimed and not written yet hides those behind it.
  if (next_stamp_ == ring_.size() && caught(now_ns)) {
    return true;
  }
  service_.thaw();
  return false;
}

Status Gateway::kill_service(std::int64_t now_ns) {
  service_.kill();
  kill_boot_ns_ = boot_now();
  read_last_stamps();
  const Ledger::Pending pending = ledger_.pending(control_.written_lsn.load());
  report_.recoveries.push_back({.share = share_of(now_ns),
                                .unacked = ledger_.unacked_count(),
                                .running = ledger_.running_count(),
                                .unsynced = ledger_.unsynced_count(control_.synced_lsn.load()),
                                .pending = pending.certain,
                                .uncertain = pending.uncertain});
  ledger_.end_life();
  const std::uint16_t life = control_.life.load();
  ring_.push(StampKind::kKill, 0, life);
  control_.life.store(static_cast<std::uint16_t>(life + 1));
  down_measured_ = false;
  return spawn();
}

bool Gateway::over(std::int64_t now_ns) {
  if (phase_ != Phase::kServing || !session_closed(now_ns) || now_ns < next_settle_ns_ ||
      control_.phase.load() != ServicePhase::kServing) {
    return false;
  }
  next_settle_ns_ = now_ns + 20 * kMillisecond;
  return ledger_.all_settled() || now_ns - last_stamp_ns_ > kSilenceNs;
}

Status Gateway::stop_service() {
  region_.push({.kind = CommandKind::kStop});
  if (!service_.wait(std::chrono::seconds(60))) {
    return failure("does not stop");
  }
  if (!service_.succeeded()) {
    return failure("ended badly (" + service_.how() + ")");
  }
  return {};
}

void Gateway::report_progress(std::int64_t now_ns) {
  if (!on_progress_ || now_ns < next_progress_ns_) {
    return;
  }
  next_progress_ns_ = now_ns + 100 * kMillisecond;
  GatewayProgress progress;
  progress.share = share_of(now_ns);
  progress.seconds_left =
      static_cast<double>(plan_.close_ns) / static_cast<double>(kSecond) * (1.0 - progress.share);
  progress.arrived_count = arrived_count_;
  progress.kill_count = report_.recoveries.size();
  progress.serving = phase_ == Phase::kServing;
  on_progress_(progress);
}

}  // namespace countwheel::drill
