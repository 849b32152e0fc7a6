#include "attributes.h"

#include <bit>
#include <chrono>

namespace countwheel::detail {
namespace {

// Persistent: do not change the values of existing ones. docs/log-format.md has the same list.
enum class Tag : std::uint8_t {
  kMaxLateness = 1,   // ns
  kFirstDue = 2,      // ns since 1970
  kRequeuedFrom = 3,  // id
  kDied = 4,          // ns since 1970
  kReason = 5,        // DeadReason
  kGroup = 6,
  kDedupWindow = 7,   // ns
  kDoneUntil = 8,     // ns since 1970
  kRetryKind = 16,    // the first of a retry policy
  kRetryBase = 17,    // ns
  kRetryFactor = 18,  // bits of a double
  kRetryCap = 19,     // ns
  kRetryJitter = 20,  // bits of a double
  kRetryMaxAttempts = 21,
  kRetryMaxCrashes = 22,
  kRetryTotalTimeout = 23,  // ns
  kRetryDelay = 24,         // ns; once for each of the list
  kRecurrenceKind = 32,     // the first of a recurrence
  kRecurrencePeriod = 33,   // ns
  kRecurrenceCatchUp = 34,
  kRecurrenceUntil = 35,  // ns since 1970
  kRecurrenceCount = 36,
  kRun = 37,
  kRuns = 38,
  kRunDueWall = 39,  // ns since 1970
  kRunDueBoot = 40,  // ns; of a run on the boot clock
};

constexpr std::size_t kPairBytes = 9;

class Writer {
 public:
  void put(Tag tag, std::uint64_t value) {
    bytes_ += static_cast<char>(tag);
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_ += static_cast<char>(value >> shift & 0xff);
    }
  }
  void put_signed(Tag tag, std::int64_t value) { put(tag, static_cast<std::uint64_t>(value)); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

void put_retry(const RetryPolicy& retry, Writer* out) {
  out->put(Tag::kRetryKind, static_cast<std::uint64_t>(retry.kind));
  out->put_signed(Tag::kRetryBase, retry.base.count());
  out->put(Tag::kRetryFactor, std::bit_cast<std::uint64_t>(retry.factor));
  out->put_signed(Tag::kRetryCap, retry.cap.count());
  out->put(Tag::kRetryJitter, std::bit_cast<std::uint64_t>(retry.jitter));
  out->put(Tag::kRetryMaxAttempts, retry.max_attempts);
  out->put(Tag::kRetryMaxCrashes, retry.max_crashes);
  out->put_signed(Tag::kRetryTotalTimeout, retry.total_timeout.count());
  for (const std::chrono::nanoseconds delay : retry.delays) {
    out->put_signed(Tag::kRetryDelay, delay.count());
  }
}

void put_recurrence(const Recurrence& recurrence, Writer* out) {
  out->put(Tag::kRecurrenceKind, static_cast<std::uint64_t>(recurrence.kind));
  out->put_signed(Tag::kRecurrencePeriod, recurrence.period.count());
  out->put(Tag::kRecurrenceCatchUp, static_cast<std::uint64_t>(recurrence.catch_up));
  if (recurrence.until) {
    out->put_signed(Tag::kRecurrenceUntil, recurrence.until->time_since_epoch().count());
  }
  if (recurrence.count != 0) {
    out->put(Tag::kRecurrenceCount, recurrence.count);
  }
}

std::uint64_t load(std::string_view bytes) noexcept {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) {
    value = value << 8 | static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(i)]);
  }
  return value;
}

// Those that stand alone; false for a tag or a reason that this build does not know.
bool read_plain(Tag tag, std::uint64_t value, Attributes* attributes) {
  const auto ns = static_cast<std::int64_t>(value);
  switch (tag) {
    case Tag::kMaxLateness:
      attributes->max_lateness_ns = ns;
      return true;
    case Tag::kFirstDue:
      attributes->first_due_wall_ns = ns;
      return true;
    case Tag::kRequeuedFrom:
      attributes->requeued_from = TaskId{value};
      return true;
    case Tag::kDied:
      attributes->died_wall_ns = ns;
      return true;
    case Tag::kReason:
      attributes->reason = static_cast<DeadReason>(value);
      return value <= static_cast<std::uint64_t>(kLastDeadReason);
    case Tag::kGroup:
      attributes->group = value;
      return true;
    case Tag::kDedupWindow:
      attributes->dedup_window_ns = ns;
      return true;
    case Tag::kDoneUntil:
      attributes->done_until_wall_ns = ns;
      return true;
    default:
      return false;
  }
}

// False when there is no policy it could belong to, or the number does not fit.
bool read_retry(Tag tag, std::uint64_t value, std::optional<RetryPolicy>* retry) {
  const std::chrono::nanoseconds ns(static_cast<std::int64_t>(value));
  if (tag == Tag::kRetryKind) {
    retry->emplace().kind = static_cast<RetryPolicy::Kind>(value);
    return value <= static_cast<std::uint64_t>(RetryPolicy::Kind::kList);
  }
  if (!*retry) {
    return false;
  }
  RetryPolicy& policy = **retry;
  switch (tag) {
    case Tag::kRetryBase:
      policy.base = ns;
      return true;
    case Tag::kRetryFactor:
      policy.factor = std::bit_cast<double>(value);
      return true;
    case Tag::kRetryCap:
      policy.cap = ns;
      return true;
    case Tag::kRetryJitter:
      policy.jitter = std::bit_cast<double>(value);
      return true;
    case Tag::kRetryMaxAttempts:
      policy.max_attempts = static_cast<std::uint32_t>(value);
      return value <= 0xffffffff;
    case Tag::kRetryMaxCrashes:
      policy.max_crashes = static_cast<std::uint32_t>(value);
      return value <= 0xffffffff;
    case Tag::kRetryTotalTimeout:
      policy.total_timeout = ns;
      return true;
    default:
      policy.delays.push_back(ns);
      return policy.delays.size() <= kRetryDelaysMax;
  }
}

// The same for a recurrence and where a chain stands.
bool read_recurrence(Tag tag, std::uint64_t value, Attributes* attributes) {
  const auto ns = static_cast<std::int64_t>(value);
  if (tag == Tag::kRecurrenceKind) {
    attributes->recurrence.emplace().kind = static_cast<Recurrence::Kind>(value);
    return value <= static_cast<std::uint64_t>(Recurrence::Kind::kDelay);
  }
  switch (tag) {
    case Tag::kRun:
      attributes->run = value;
      return true;
    case Tag::kRuns:
      attributes->runs = value;
      return true;
    case Tag::kRunDueWall:
      attributes->run_due = DueTime{ClockKind::kWall, ns, ns};
      return true;
    case Tag::kRunDueBoot:
      if (!attributes->run_due) {
        return false;
      }
      attributes->run_due->clock = ClockKind::kBoot;
      attributes->run_due->deadline_ns = ns;
      return true;
    default:
      break;
  }
  if (!attributes->recurrence) {
    return false;
  }
  Recurrence& recurrence = *attributes->recurrence;
  switch (tag) {
    case Tag::kRecurrencePeriod:
      recurrence.period = std::chrono::nanoseconds(ns);
      return true;
    case Tag::kRecurrenceCatchUp:
      recurrence.catch_up = static_cast<Recurrence::CatchUp>(value);
      return value <= static_cast<std::uint64_t>(Recurrence::CatchUp::kAll);
    case Tag::kRecurrenceUntil:
      recurrence.until = WallTime(std::chrono::nanoseconds(ns));
      return true;
    default:
      recurrence.count = value;
      return true;
  }
}

// Those that are left out instead.
bool never_zero(Tag tag) noexcept {
  switch (tag) {
    case Tag::kGroup:
    case Tag::kDedupWindow:
    case Tag::kDoneUntil:
    case Tag::kRecurrenceCount:
    case Tag::kRun:
    case Tag::kRuns:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::string encode(const Attributes& attributes) {
  Writer out;
  if (attributes.max_lateness_ns) {
    out.put_signed(Tag::kMaxLateness, *attributes.max_lateness_ns);
  }
  if (attributes.first_due_wall_ns != 0) {
    out.put_signed(Tag::kFirstDue, attributes.first_due_wall_ns);
  }
  if (attributes.requeued_from) {
    out.put(Tag::kRequeuedFrom, attributes.requeued_from.value);
  }
  if (attributes.died_wall_ns != 0) {
    out.put_signed(Tag::kDied, attributes.died_wall_ns);
  }
  if (attributes.reason != DeadReason::kNone) {
    out.put(Tag::kReason, static_cast<std::uint64_t>(attributes.reason));
  }
  if (attributes.group != 0) {
    out.put(Tag::kGroup, attributes.group);
  }
  if (attributes.dedup_window_ns != 0) {
    out.put_signed(Tag::kDedupWindow, attributes.dedup_window_ns);
  }
  if (attributes.done_until_wall_ns != 0) {
    out.put_signed(Tag::kDoneUntil, attributes.done_until_wall_ns);
  }
  if (attributes.retry) {
    put_retry(*attributes.retry, &out);
  }
  if (attributes.recurrence) {
    put_recurrence(*attributes.recurrence, &out);
  }
  if (attributes.run != 0) {
    out.put(Tag::kRun, attributes.run);
  }
  if (attributes.runs != 0) {
    out.put(Tag::kRuns, attributes.runs);
  }
  if (attributes.run_due) {
    out.put_signed(Tag::kRunDueWall, attributes.run_due->wall_ns);
    if (attributes.run_due->clock == ClockKind::kBoot) {
      out.put_signed(Tag::kRunDueBoot, attributes.run_due->deadline_ns);
    }
  }
  return out.take();
}

Result<Attributes> decode_attributes(std::string_view bytes) {
  const auto corrupt = [](const char* why) { return Status(Code::kCorrupt, why); };
  Attributes attributes;
  if (bytes.size() % kPairBytes != 0) {
    return corrupt("attributes of an impossible length");
  }
  std::uint8_t last = 0;
  for (; !bytes.empty(); bytes.remove_prefix(kPairBytes)) {
    const auto number = static_cast<std::uint8_t>(bytes[0]);
    const auto tag = static_cast<Tag>(number);
    const std::uint64_t value = load(bytes.substr(1));
    if (number < last || (number == last && tag != Tag::kRetryDelay)) {
      return corrupt("attributes out of order");
    }
    last = number;
    if (value == 0 && never_zero(tag)) {
      return corrupt("an attribute that says nothing");
    }
    if (number <= static_cast<std::uint8_t>(Tag::kDoneUntil)) {
      if (!read_plain(tag, value, &attributes)) {
        return Status(Code::kVersion,
                      "an attribute with tag " + std::to_string(number) + " and value " +
                          std::to_string(value));
      }
      continue;
    }
    if (number >= static_cast<std::uint8_t>(Tag::kRecurrenceKind) &&
        number <= static_cast<std::uint8_t>(Tag::kRunDueBoot)) {
      if (!read_recurrence(tag, value, &attributes)) {
        return corrupt("a recurrence that makes no sense");
      }
      continue;
    }
    if (number < static_cast<std::uint8_t>(Tag::kRetryKind) ||
        number > static_cast<std::uint8_t>(Tag::kRetryDelay)) {
      return Status(Code::kVersion, "an attribute with tag " + std::to_string(number));
    }
    if (!read_retry(tag, value, &attributes.retry)) {
      return corrupt("a retry policy that makes no sense");
    }
  }
  if (attributes.retry && !validate(*attributes.retry).ok()) {
    return corrupt("a retry policy that makes no sense");
  }
  if (attributes.recurrence && !validate(*attributes.recurrence).ok()) {
    return corrupt("a recurrence that makes no sense");
  }
  return attributes;
}

}  // namespace countwheel::detail
