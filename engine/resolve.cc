// What is refused before anything is decided: deadlines, sizes, options. Pure.
#include <algorithm>
#include <string>

#include <countwheel/options.h>

#include "engine_core.h"

namespace countwheel {
namespace {

Status refuse(const char* option, const std::string& given, const std::string& allowed) {
  return Status(Code::kInvalidArgument,
                std::string("EngineOptions::") + option + " is " + given + ", allowed: " + allowed);
}

Status validate(const TickThreadOptions& options) {
  if (options.max_spin.count() < 0 || options.max_spin > std::chrono::milliseconds(10)) {
    return refuse(
        "tick_thread.max_spin", std::to_string(options.max_spin.count()) + " ns", "0 to 10 ms");
  }
  if (options.realtime_priority < 0 || options.realtime_priority > 99) {
    return refuse(
        "tick_thread.realtime_priority", std::to_string(options.realtime_priority), "0 to 99");
  }
  if (options.cpu < -1 || options.cpu > 1023) {
    return refuse("tick_thread.cpu", std::to_string(options.cpu), "-1 to 1023");
  }
  return {};
}

}  // namespace

Status validate(const EngineOptions& options) {
  if (const std::string error = wheel_options_error(options.wheel); !error.empty()) {
    return Status(Code::kInvalidArgument, "EngineOptions::wheel: " + error);
  }
  if (const auto slack = detail::slack_us(options.slack); !slack.ok()) {
    return refuse("slack", std::to_string(options.slack.count()) + " ns", "0 to 60 s");
  }
  if (options.os_sync_bound < std::chrono::milliseconds(1) ||
      options.os_sync_bound > std::chrono::hours(1)) {
    return refuse(
        "os_sync_bound", std::to_string(options.os_sync_bound.count()) + " ns", "1 ms to 1 h");
  }
  if (options.touch_interval.count() < 0 || options.touch_interval > std::chrono::hours(1)) {
    return refuse(
        "touch_interval", std::to_string(options.touch_interval.count()) + " ns", "0 to 1 h");
  }
  if (Status status = validate(options.tick_thread); !status.ok()) {
    return status;
  }
  if (options.workers < 1 || options.workers > 1024) {
    return refuse("workers", std::to_string(options.workers), "1 to 1024");
  }
  if (options.max_pending_count < 1 || options.max_pending_count > std::uint64_t{1} << 32) {
    return refuse("max_pending_count", std::to_string(options.max_pending_count), "1 to 2^32");
  }
  if (options.reserve_count > options.max_pending_count) {
    return refuse("reserve_count", std::to_string(options.reserve_count), "0 to max_pending_count");
  }
  if (options.max_dead_age.count() < 0) {
    return refuse(
        "max_dead_age", std::to_string(options.max_dead_age.count()) + " ns", "0 and more");
  }
  if (options.max_in_flight < 1) {
    return refuse("max_in_flight", "0", "1 and more");
  }
  if (options.max_pending_bytes < 1) {
    return refuse("max_pending_bytes", "0", "1 and more");
  }
  if (options.max_key_bytes > 1024) {
    return refuse("max_key_bytes", std::to_string(options.max_key_bytes), "0 to 1024");
  }
  if (options.max_payload_bytes > std::size_t{1} << 20) {
    return refuse("max_payload_bytes", std::to_string(options.max_payload_bytes), "0 to 1048576");
  }
  if (options.max_writes_bytes > std::size_t{64} << 20) {
    return refuse("max_writes_bytes", std::to_string(options.max_writes_bytes), "0 to 67108864");
  }
  if (options.max_delay.count() < 1) {
    return refuse("max_delay", std::to_string(options.max_delay.count()) + " ns", "1 ns and more");
  }
  return {};
}

namespace detail {
namespace {

constexpr std::int64_t kYearNs = std::int64_t{31'557'600} * 1'000'000'000;
constexpr std::int64_t kSlackMaxNs = std::int64_t{60} * 1'000'000'000;

Status out_of_range(std::int64_t given_ns, const EngineOptions& options) {
  return Status(Code::kOutOfRange,
                "the deadline is " + std::to_string(given_ns) +
                    " ns from now, allowed: up to EngineOptions::max_delay = " +
                    std::to_string(options.max_delay.count()) + " ns");
}

}  // namespace

Result<std::uint32_t> slack_us(std::chrono::nanoseconds slack) {
  if (slack.count() < 0 || slack.count() > kSlackMaxNs) {
    return Status(Code::kOutOfRange,
                  "slack is " + std::to_string(slack.count()) + " ns, allowed: 0 to 60 s");
  }
  return static_cast<std::uint32_t>(slack.count() / 1000);
}

Result<ResolvedDeadline> resolve(const Deadline& deadline,
                                 const Instant& now,
                                 const EngineOptions& options) {
  ResolvedDeadline resolved;
  resolved.clock = deadline.clock();
  std::int64_t from_now = 0;
  switch (deadline.kind()) {
    case Deadline::Kind::kNotRepresentable:
      return Status(Code::kOutOfRange, "the deadline does not fit 64 bits of nanoseconds");
    case Deadline::Kind::kRawWall:
      if (__builtin_sub_overflow(deadline.ns(), now.wall_ns, &from_now) ||
          from_now < -10 * kYearNs || from_now > 100 * kYearNs) {
        return Status(Code::kSuspiciousUnit,
                      std::to_string(deadline.ns()) +
                          " is not nanoseconds since 1970 within now - 10 and + 100 years");
      }
      break;
    case Deadline::Kind::kWall:
      if (__builtin_sub_overflow(deadline.ns(), now.wall_ns, &from_now) ||
          from_now < -200 * kYearNs) {
        return Status(Code::kOutOfRange, "the deadline is centuries from now");
      }
      break;
    case Deadline::Kind::kDelay:
      // Centuries ago is as due as a century ago, and lateness must not overflow.
      from_now = std::max(deadline.ns(), -100 * kYearNs);
      break;
  }
  if (from_now > options.max_delay.count()) {
    return out_of_range(from_now, options);
  }
  if (__builtin_add_overflow(now.wall_ns, from_now, &resolved.wall_ns) ||
      __builtin_add_overflow(now.boot_ns, from_now, &resolved.boot_ns)) {
    return out_of_range(from_now, options);
  }
  resolved.overdue = from_now <= 0;
  return resolved;
}

void ResolvedDeadline::put_into(NodeContent* content) const noexcept {
  content->deadline_ns = on_clock();
  content->wall_ns = wall_ns;
  content->lsn = kNoLsnYet;
  content->flags = static_cast<std::uint8_t>((content->flags & ~(kFlagBoot | kFlagOverdue)) |
                                             (clock == ClockKind::kBoot ? kFlagBoot : 0) |
                                             (overdue ? kFlagOverdue : 0));
}

void ResolvedDeadline::put_into(Op* op) const noexcept {
  op->clock = clock;
  op->wall_deadline_ns = wall_ns;
  op->boot_deadline_ns = boot_ns;
}

Status check_sizes(const TaskSpec& spec, const EngineOptions& options) {
  if (spec.key.size() > options.max_key_bytes) {
    return Status(Code::kTooLarge,
                  "TaskSpec::key has " + std::to_string(spec.key.size()) +
                      " bytes, allowed: " + std::to_string(options.max_key_bytes));
  }
  if (spec.payload.size() > options.max_payload_bytes) {
    return Status(Code::kTooLarge,
                  "TaskSpec::payload has " + std::to_string(spec.payload.size()) +
                      " bytes, allowed: " + std::to_string(options.max_payload_bytes));
  }
  return {};
}

}  // namespace detail
}  // namespace countwheel
