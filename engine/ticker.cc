#include "ticker.h"

#include <algorithm>
#include <sys/prctl.h>

#include <countwheel/assert.h>

#include "tick_thread.h"

namespace countwheel::detail {
namespace {

// Between two looks the wall drifts against the boot clock by NTP's slew, at most 500 us a second.
// A larger change is a step.
constexpr std::int64_t kStepNs = 5'000'000;
// Later than planned by more than this is a stall: the thread or the machine was held up.
constexpr std::int64_t kStallNs = 100'000'000;

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

std::optional<TaskTable::Scheduled> TableHome::read(std::uint32_t index) const noexcept {
  std::optional<TaskTable::Scheduled> read = table->read_scheduled(index);
  const std::uint8_t face = clock == ClockKind::kBoot ? kFlagBoot : 0;
  if (!read || (read->flags & kFlagBoot) != face || read->lsn > released) {
    return std::nullopt;
  }
  return read;
}

std::int64_t TableHome::deadline_of(std::uint32_t index) const noexcept {
  const std::optional<TaskTable::Scheduled> scheduled = read(index);
  return scheduled ? scheduled->deadline_ns : kNotAlive;
}
std::uint64_t TableHome::sequence_of(std::uint32_t index) const noexcept {
  return table->node(index).lsn.load(kRelaxed);
}
std::int64_t TableHome::slack_of(std::uint32_t index) const noexcept {
  return std::int64_t{table->node(index).slack_us.load(kRelaxed)} * 1000;
}

Ticker::Ticker(TickParts parts, const WheelOptions& options, std::unique_ptr<Sleeper> sleeper)
    : parts_(std::move(parts)), options_(options), sleeper_(std::move(sleeper)) {
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    sides_[i].home.table = &parts_.table;
    sides_[i].home.limits = &parts_.limits;
    sides_[i].home.clock = static_cast<ClockKind>(i);
  }
}

Ticker::~Ticker() {
  COUNTWHEEL_ASSERT(!thread_.joinable());
}

void Ticker::begin(Instant start, std::size_t reserve_count) {
  for (Side& side : sides_) {
    side.wheel = std::make_unique<Wheel>(options_, start.on(side.home.clock), side.home);
    if (reserve_count > 0) {
      side.wheel->reserve(reserve_count);
    }
  }
}

void Ticker::file(const MailItem& item) {
  sides_[static_cast<std::size_t>(item.clock)].wheel->insert(
      item.index, item.deadline_ns, std::int64_t{item.slack_us} * 1000);
}

std::size_t Ticker::step(std::size_t limit) {
  const std::lock_guard lock(step_mutex_);
  const Instant now = read_clock();
  parts_.dispatcher.sweep_leases(now.boot_ns, parts_.eager);
  take_mail();
  const bool had_mail = !mail_.empty();
  mail_.clear();
  const std::size_t handed_over = merge(now, limit);
  ++counters_.steps;
  counters_.spurious_wakes += handed_over == 0 && !had_mail ? 1 : 0;
  return handed_over;
}

// The clock, with its faults counted. The boot face is never let back.
Instant Ticker::read_clock() {
  Instant now = parts_.now();
  if (!has_last_) {
    last_ = now;
    has_last_ = true;
    return now;
  }
  if (now.boot_ns < last_.boot_ns) {
    ++counters_.clock_backsteps;
    now.boot_ns = last_.boot_ns;
  }
  const std::int64_t moved = (now.wall_ns - now.boot_ns) - (last_.wall_ns - last_.boot_ns);
  counters_.clock_steps_forward += moved > kStepNs ? 1 : 0;
  // Behind its floor the wall stands still (ClockPolicy::kFloor): that is no step.
  counters_.clock_steps_back += moved < -kStepNs && now.wall_ns != last_.wall_ns ? 1 : 0;
  std::int64_t late_ns = 0;
  if (planned_boot_ns_ != kNever) {
    late_ns = std::max(late_ns, now.boot_ns - planned_boot_ns_);
  }
  if (planned_wall_ns_ != kNever && moved <= kStepNs) {
    late_ns = std::max(late_ns, now.wall_ns - planned_wall_ns_);
  }
  if (late_ns > kStallNs) {
    ++counters_.tick_stalls;
    counters_.longest_stall_ns = std::max(counters_.longest_stall_ns, late_ns);
  }
  planned_boot_ns_ = kNever;
  planned_wall_ns_ = kNever;
  last_ = now;
  return now;
}

void Ticker::take_mail() {
  const std::uint64_t released = parts_.mailbox.take(mail_);
  for (Side& side : sides_) {
    side.home.released = released;
  }
  more_to_sweep_ = parts_.sweep_groups(released, &mail_);
  for (const MailItem& item : mail_) {
    file(item);
  }
}

// The next due tasks of one wheel, in order. A task that changed since the wheel looked is left
// out: its new deadline comes by mail.
void Ticker::refill(Side& side, std::int64_t now_ns) {
  side.due.clear();
  side.head = 0;
  const auto sink = [this, &side, now_ns](std::span<const CoreDue> batch) {
    for (const CoreDue& due : batch) {
      const std::optional<TaskTable::Scheduled> task = side.home.read(due.index);
      if (task && task->deadline_ns == due.deadline_ns) {
        if ((task->flags & kFlagTouched) != 0 && put_off(due.index, now_ns)) {
          continue;
        }
        side.due.push_back({task->wall_ns,
                            task->lsn,
                            task->type,
                            {due.index, side.home.clock, task->word, task->deadline_ns, 0}});
      }
    }
  };
  side.more = side.wheel->advance(now_ns, sink, kRefill).more_due;
  for (const MailItem& item : put_off_) {
    file(item);
  }
  put_off_.clear();
  const auto before = [](const Ordered& a, const Ordered& b) {
    return a.wall_ns != b.wall_ns ? a.wall_ns < b.wall_ns : a.lsn < b.lsn;
  };
  if (!std::is_sorted(side.due.begin(), side.due.end(), before)) {
    std::sort(side.due.begin(), side.due.end(), before);
  }
}

// Touched since it was filed: it is due later.
bool Ticker::put_off(std::uint32_t index, std::int64_t now_ns) {
  Shard& shard = parts_.table.shard(shard_of(index));
  const std::lock_guard lock(shard.mutex);
  const auto later = parts_.table.put_off(shard, slot_of(index), now_ns);
  if (later) {
    put_off_.push_back({later->deadline_ns,
                        index,
                        parts_.table.node(index).slack_us.load(kRelaxed),
                        later->clock});
  }
  return later.has_value();
}

std::size_t Ticker::merge(Instant now, std::size_t limit) {
  for (Side& side : sides_) {
    side.more = true;
  }
  std::size_t handed_over = 0;
  while (handed_over < limit) {
    for (Side& side : sides_) {
      while (side.empty() && side.more) {
        refill(side, now.on(side.home.clock));
      }
    }
    Side& wall = sides_[0];
    Side& boot = sides_[1];
    if (wall.empty() && boot.empty()) {
      break;
    }
    const auto order = [](const Side& side) {
      return std::pair(side.due[side.head].wall_ns, side.due[side.head].lsn);
    };
    Side& first = boot.empty() || (!wall.empty() && order(wall) < order(boot)) ? wall : boot;
    Ordered& next = first.due[first.head++];
    next.entry.sequence = ++sequence_;
    out_.emplace_back(next.type, next.entry);
    ++handed_over;
    if (out_.size() == kPublish) {
      publish(now);
    }
  }
  publish(now);
  counters_.handed_over += handed_over;
  return handed_over;
}

// In pieces, so that the first handlers of a herd start while the rest is still being sorted.
void Ticker::publish(Instant now) {
  if (out_.empty()) {
    return;
  }
  for (const auto& [type, entry] : out_) {
    const std::int64_t late_ns = now.on(entry.clock) - entry.deadline_ns;
    counters_.lateness_ns.add(static_cast<std::uint64_t>(std::max<std::int64_t>(late_ns, 0)));
    counters_.lateness_ns_max = std::max(counters_.lateness_ns_max, late_ns);
  }
  parts_.dispatcher.hand_over(out_);
  if (parts_.eager) {
    parts_.dispatcher.ensure_workers();
  }
  out_.clear();
}

Instant Ticker::next_wake() {
  const std::lock_guard lock(step_mutex_);
  Instant wake{kNever, kNever};
  for (Side& side : sides_) {
    std::int64_t& face = side.home.clock == ClockKind::kWall ? wake.wall_ns : wake.boot_ns;
    if (!side.empty()) {
      face = std::numeric_limits<std::int64_t>::min();
    } else if (side.wheel) {
      face = side.wheel->next_wake();
    }
  }
  if (more_to_sweep_) {
    wake.boot_ns = std::min(wake.boot_ns, last_.boot_ns);
  }
  wake.boot_ns = std::min(wake.boot_ns, parts_.dispatcher.next_allowed());
  if (std::int64_t lease_end = parts_.dispatcher.next_lease_end(); lease_end != kNever) {
    if (parts_.eager) {
      lease_end = std::min(lease_end, last_.boot_ns + Leases::kBeatNs);
    }
    wake.boot_ns = std::min(wake.boot_ns, lease_end);
  }
  return wake;
}

void Ticker::start_thread(const TickThreadOptions& options) {
  stopping_.store(false);
  thread_ = std::thread([this] { run(); });
  std::string refused = set_up_tick_thread(thread_.native_handle(), options);
  const std::lock_guard lock(step_mutex_);
  counters_.tick_thread_refused = std::move(refused);
}

void Ticker::stop_thread() {
  if (thread_.joinable()) {
    stopping_.store(true);
    wake();
    thread_.join();
  }
}

void Ticker::run() {
  prctl(PR_SET_NAME, "cw-tick", 0UL, 0UL, 0UL);
  while (!stopping_.load()) {
    parts_.mailbox.awake();
    step(static_cast<std::size_t>(-1));
    parts_.dispatcher.ensure_workers();
    const Instant wake = next_wake();
    if (parts_.mailbox.announce(wake)) {
      continue;
    }
    planned_wall_ns_ = wake.wall_ns;
    planned_boot_ns_ = wake.boot_ns;
    sleeper_->wait(wake);
  }
}

void Ticker::fill(Stats* stats) const {
  const std::lock_guard lock(step_mutex_);
  stats->handed_over = counters_.handed_over;
  stats->lateness_ns = counters_.lateness_ns;
  stats->lateness_ns_max = counters_.lateness_ns_max;
  stats->steps = counters_.steps;
  stats->spurious_wakes = counters_.spurious_wakes;
  stats->clock_steps_forward = counters_.clock_steps_forward;
  stats->clock_steps_back = counters_.clock_steps_back;
  stats->clock_backsteps = counters_.clock_backsteps;
  stats->tick_stalls = counters_.tick_stalls;
  stats->longest_stall_ns = counters_.longest_stall_ns;
  stats->tick_thread_refused = counters_.tick_thread_refused;
  for (const Side& side : sides_) {
    if (side.wheel) {
      stats->wheel_entries += side.wheel->counters().entry_count;
    }
  }
}

std::string Ticker::check_invariants() {
  const std::lock_guard lock(step_mutex_);
  std::string why;
  for (Side& side : sides_) {
    if (side.wheel && !side.wheel->check_invariants(&why)) {
      return why;
    }
  }
  return {};
}

}  // namespace countwheel::detail
