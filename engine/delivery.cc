#include <countwheel/handler.h>

#include "dispatcher.h"
#include "leases.h"

namespace countwheel {

Delivery& Delivery::operator=(Delivery&& other) noexcept {
  if (this != &other) {
    if (in_flight_ != nullptr) {
      dispatcher_->drop(in_flight_);
    }
    dispatcher_ = other.dispatcher_;
    in_flight_ = std::exchange(other.in_flight_, nullptr);
  }
  return *this;
}

Delivery::~Delivery() {
  if (in_flight_ != nullptr) {
    dispatcher_->drop(in_flight_);
  }
}

TaskId Delivery::id() const noexcept {
  return in_flight_->id;
}
std::string_view Delivery::type() const noexcept {
  return in_flight_->type->name;
}
std::string_view Delivery::key() const noexcept {
  return in_flight_->lease != nullptr ? in_flight_->lease->key() : in_flight_->node->key();
}
std::string_view Delivery::payload() const noexcept {
  return in_flight_->lease != nullptr ? in_flight_->lease->payload() : in_flight_->node->payload();
}
WallTime Delivery::deadline() const noexcept {
  return WallTime(std::chrono::nanoseconds(in_flight_->wall_ns));
}
std::chrono::nanoseconds Delivery::lateness() const noexcept {
  return std::chrono::nanoseconds(in_flight_->lateness_ns);
}
std::uint32_t Delivery::attempt() const noexcept {
  return in_flight_->attempt;
}
std::uint64_t Delivery::run() const noexcept {
  return in_flight_->run + 1;
}
FencingToken Delivery::fencing_token() const noexcept {
  return {dispatcher_->epoch(), in_flight_->run << 16 | in_flight_->attempt};
}
bool Delivery::overdue() const noexcept {
  return in_flight_->overdue;
}
std::uint64_t Delivery::sequence() const noexcept {
  return in_flight_->sequence;
}
bool Delivery::cancel_requested() const noexcept {
  const bool requested = in_flight_->node->has(detail::kFlagCancelRequested);
  // In this order: once the lease is over the flag may be another tenant's.
  return (in_flight_->lease != nullptr && in_flight_->lease->over.load()) || requested;
}

Status Delivery::extend_lease(std::chrono::nanoseconds by) {
  if (in_flight_ == nullptr) {
    return Status(Code::kStaleLease, "this attempt has been answered");
  }
  if (by.count() <= 0 || by > detail::kLeaseMax) {
    return Status(
        Code::kOutOfRange,
        "extend_lease() by " + std::to_string(by.count()) + " ns, allowed: 1 ns to 30 days");
  }
  return dispatcher_->extend_lease(in_flight_, by);
}

Status Delivery::done() {
  if (in_flight_ == nullptr) {
    return Status(Code::kStaleLease, "this attempt has been answered");
  }
  return dispatcher_->answer(std::exchange(in_flight_, nullptr), {});
}

Status Delivery::done(const Writes& writes) {
  if (in_flight_ == nullptr) {
    return Status(Code::kStaleLease, "this attempt has been answered");
  }
  if (Status status = dispatcher_->check_writes(writes); !status.ok()) {
    return status;
  }
  return dispatcher_->answer(std::exchange(in_flight_, nullptr),
                             {detail::Outcome::Kind::kDone, 0, std::string(writes.bytes), {}});
}

Status Delivery::fail(std::string_view reason) {
  if (in_flight_ == nullptr) {
    return Status(Code::kStaleLease, "this attempt has been answered");
  }
  return dispatcher_->answer(std::exchange(in_flight_, nullptr),
                             {detail::Outcome::Kind::kFailed, 0, std::string(reason), {}});
}

Status Delivery::keep(Deadline until) {
  if (in_flight_ == nullptr) {
    return Status(Code::kStaleLease, "this attempt has been answered");
  }
  return dispatcher_->keep(&in_flight_, until);
}

Status Delivery::not_now() {
  if (in_flight_ == nullptr) {
    return Status(Code::kStaleLease, "this attempt has been answered");
  }
  return dispatcher_->answer(std::exchange(in_flight_, nullptr),
                             {detail::Outcome::Kind::kKept, 0, {}, {}});
}

Status Delivery::retry(std::chrono::nanoseconds delay, std::string_view reason) {
  if (in_flight_ == nullptr) {
    return Status(Code::kStaleLease, "this attempt has been answered");
  }
  return dispatcher_->answer(
      std::exchange(in_flight_, nullptr),
      {detail::Outcome::Kind::kRetry, delay.count(), std::string(reason), {}});
}

}  // namespace countwheel
