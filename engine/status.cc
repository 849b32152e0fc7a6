#include <cstdio>
#include <cstdlib>

#include <countwheel/status.h>

namespace countwheel {
namespace detail {

void assert_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "countwheel: assertion failed: %s (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace detail

std::string_view to_string(Code code) noexcept {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kCancelled:
      return "cancelled";
    case Code::kTooLate:
      return "too_late";
    case Code::kChanged:
      return "changed";
    case Code::kExists:
      return "exists";
    case Code::kDuplicate:
      return "duplicate";
    case Code::kNotFound:
      return "not_found";
    case Code::kStaleLease:
      return "stale_lease";
    case Code::kRecovering:
      return "recovering";
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kOutOfRange:
      return "out_of_range";
    case Code::kSuspiciousUnit:
      return "suspicious_unit";
    case Code::kTooLarge:
      return "too_large";
    case Code::kOverloaded:
      return "overloaded";
    case Code::kStopped:
      return "stopped";
    case Code::kForked:
      return "forked";
    case Code::kTimedOut:
      return "timed_out";
    case Code::kNoSpace:
      return "no_space";
    case Code::kJournalFailed:
      return "journal_failed";
    case Code::kLocked:
      return "locked";
    case Code::kReadOnly:
      return "read_only";
    case Code::kNotADirectory:
      return "not_a_directory";
    case Code::kPermission:
      return "permission";
    case Code::kInsecureDir:
      return "insecure_dir";
    case Code::kResource:
      return "resource";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kVersion:
      return "version";
  }
  return "unknown";
}

std::string Status::text() const {
  std::string text(to_string(code_));
  if (!text_.empty()) {
    text += ": ";
    text += text_;
  }
  return text;
}

}  // namespace countwheel
