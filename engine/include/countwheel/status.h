// Status and Result<T>: what the world did.
//
// Every call that can fail for a reason outside the program returns one of these; nothing throws
// across the API. A Status is a code from one closed list and a text that names the path or field,
// the value given and the values allowed:
//
//   countwheel::Result<countwheel::TaskId> id = engine.schedule(spec);
//   if (!id.ok()) log(id.status().text());   // "no_space: /var/lib/orders: ..."
//
// Codes are stable: a program may switch over them. Texts are for people and may change.
#ifndef COUNTWHEEL_STATUS_H_
#define COUNTWHEEL_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <countwheel/assert.h>

namespace countwheel {

enum class Code : std::uint8_t {
  kOk = 0,
  // Outcomes of calls.
  kCancelled,   // The task will not start (again).
  kTooLate,     // The task is running or has ended; the call changed nothing.
  kChanged,     // The task's deadline is not the one the caller expected.
  kExists,      // A live task has this key.
  kDuplicate,   // The key is inside its deduplication window.
  kNotFound,    // No live task has this id or key.
  kStaleLease,  // The answer belongs to an attempt that is no longer the current one.
  kRecovering,  // The engine is still loading its log.
  // Refused before anything was logged.
  kInvalidArgument,
  kOutOfRange,
  kSuspiciousUnit,  // A raw integer that looks like another unit than nanoseconds.
  kTooLarge,
  kOverloaded,
  kStopped,
  kForked,  // The process is a fork of the one that opened the engine.
  kTimedOut,
  // The world.
  kNoSpace,        // Nothing was written; accepted again once there is space.
  kJournalFailed,  // The outcome of the operation is unknown until the log is reopened.
  kLocked,
  kReadOnly,
  kNotADirectory,
  kPermission,
  kInsecureDir,
  kResource,
  kCorrupt,
  kVersion,
};

// The code in the spelling of the documentation: "no_space", "too_late", ...
std::string_view to_string(Code code) noexcept;

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;  // ok
  explicit Status(Code code) noexcept : code_(code) {}
  Status(Code code, std::string text) noexcept : code_(code), text_(std::move(text)) {}

  bool ok() const noexcept { return code_ == Code::kOk; }
  Code code() const noexcept { return code_; }
  // "code: text", or the code alone.
  std::string text() const;
  const std::string& detail() const noexcept { return text_; }

 private:
  Code code_ = Code::kOk;
  std::string text_;
};

// A value or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    COUNTWHEEL_ASSERT(!status_.ok());
  }
  // Of a value that converts: what is more is cut off.
  template <class U>
  requires(!std::is_same_v<U, T> && std::is_convertible_v<U, T>) Result(Result<U> other)
      : status_(other.status()) {  // NOLINT(google-explicit-constructor)
    if (other.ok()) {
      value_.emplace(*std::move(other));
    }
  }

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status& status() const noexcept { return status_; }
  Code code() const noexcept { return status_.code(); }

  // REQUIRES: ok().
  T& operator*() {
    COUNTWHEEL_ASSERT(ok());
    return *value_;
  }
  const T& operator*() const {
    COUNTWHEEL_ASSERT(ok());
    return *value_;
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace countwheel

#endif  // COUNTWHEEL_STATUS_H_
