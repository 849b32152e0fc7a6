#include <string>

#include <countwheel/recurrence.h>

namespace countwheel {

Recurrence Recurrence::rate(std::chrono::nanoseconds period, CatchUp catch_up) {
  Recurrence recurrence;
  recurrence.period = period;
  recurrence.catch_up = catch_up;
  return recurrence;
}

Recurrence Recurrence::delay(std::chrono::nanoseconds period) {
  Recurrence recurrence;
  recurrence.kind = Kind::kDelay;
  recurrence.period = period;
  return recurrence;
}

Status validate(const Recurrence& recurrence) {
  if (recurrence.period.count() < 1 || recurrence.period > std::chrono::hours(24 * 3653)) {
    return Status(Code::kInvalidArgument,
                  "Recurrence::period is " + std::to_string(recurrence.period.count()) +
                      " ns, allowed: 1 ns to 10 years");
  }
  return {};
}

std::optional<std::int64_t> next_deadline(const Recurrence& recurrence,
                                          std::int64_t due_ns,
                                          std::int64_t now_ns) noexcept {
  const std::int64_t period = recurrence.period.count();
  std::int64_t next = 0;
  if (recurrence.kind == Recurrence::Kind::kDelay) {
    return __builtin_add_overflow(now_ns, period, &next) ? std::nullopt : std::optional(next);
  }
  if (__builtin_add_overflow(due_ns, period, &next)) {
    return std::nullopt;
  }
  if (next > now_ns || recurrence.catch_up == Recurrence::CatchUp::kAll) {
    return next;
  }
  // The first of the series that is still to come; next <= now, so the difference fits 64 bits.
  const std::uint64_t behind =
      static_cast<std::uint64_t>(now_ns) - static_cast<std::uint64_t>(next);
  const std::uint64_t step = static_cast<std::uint64_t>(period);
  if (__builtin_add_overflow(now_ns, static_cast<std::int64_t>(step - behind % step), &next)) {
    return std::nullopt;
  }
  return next;
}

}  // namespace countwheel
