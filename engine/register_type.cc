// on() and on_batch(): the handler of a type and how its tasks are treated.
#include <string>
#include <utility>

#include <countwheel/engine.h>

#include "engine_core.h"

namespace countwheel {
namespace detail {
namespace {

constexpr std::chrono::nanoseconds kMisfireSpanMax = std::chrono::hours(24 * 3653);

Status out_of_range(const char* field, const std::string& given, const char* allowed) {
  return Status(Code::kOutOfRange,
                std::string("TypePolicy::") + field + " is " + given + ", allowed: " + allowed);
}

std::string ns(std::chrono::nanoseconds duration) {
  return std::to_string(duration.count()) + " ns";
}

Status validate(const TypePolicy& policy) {
  if (Status status = countwheel::validate(policy.retry); !status.ok()) {
    return status;
  }
  if (policy.lease.count() < 0 || policy.lease > kLeaseMax) {
    return out_of_range("lease", ns(policy.lease), "0 to 30 days");
  }
  if (!(policy.max_per_second >= 0.0 && policy.max_per_second <= 1e6) || policy.burst == 0) {
    return out_of_range(
        "max_per_second",
        std::to_string(policy.max_per_second) + ", burst " + std::to_string(policy.burst),
        "0 to 1,000,000 and 1 and more");
  }
  if (policy.max_lateness.count() < 0) {
    return out_of_range("max_lateness", ns(policy.max_lateness), "0 and more");
  }
  if (policy.misfire.span.count() < 0 || policy.misfire.span > kMisfireSpanMax) {
    return out_of_range("misfire", ns(policy.misfire.span), "0 to 10 years");
  }
  if (policy.max_batch < 1 || policy.max_batch > DueRing::kClaimMax) {
    return out_of_range("max_batch", std::to_string(policy.max_batch), "1 to 64");
  }
  return {};
}

}  // namespace

Status EngineCore::register_type(std::string_view name,
                                 Handler handler,
                                 BatchHandler batch_handler,
                                 TypePolicy policy) {
  if (Status status = open_for_calls(); !status.ok()) {
    return status;
  }
  if (!handler && !batch_handler) {
    return Status(Code::kInvalidArgument, "the handler is empty");
  }
  if (Status status = validate(policy); !status.ok()) {
    return status;
  }
  const Result<std::uint32_t> slack = slack_us(policy.slack.value_or(options.slack));
  if (!slack.ok()) {
    return slack.status();
  }
  const Result<TaskType*> found =
      types.intern(name, [this](const TaskType& made) { carry_type_record(made); });
  if (!found.ok()) {
    return found.status();
  }
  TaskType& entry = **found;
  const std::lock_guard lock(registering);
  if (entry.ready.load()) {
    return Status(Code::kExists, "type " + entry.name + " has a handler");
  }
  entry.handler = std::move(handler);
  entry.batch_handler = std::move(batch_handler);
  entry.policy = std::move(policy);
  entry.slack_us.store(*slack);
  entry.rate.set(entry.policy.max_per_second, entry.policy.burst);
  entry.ring.open();
  entry.ready.store(true, std::memory_order_release);
  ticker.wake();
  return {};
}

}  // namespace detail

Status Engine::on(std::string_view type, Handler handler, TypePolicy policy) {
  return core_->register_type(type, std::move(handler), {}, std::move(policy));
}

Status Engine::on_batch(std::string_view type, BatchHandler handler, TypePolicy policy) {
  return core_->register_type(type, {}, std::move(handler), std::move(policy));
}

}  // namespace countwheel
