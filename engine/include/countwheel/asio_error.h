// The codes of status.h as error codes of Boost. Part of countwheel/asio.h: include that.
//
// An error code holds a Code and nothing else; the text of a Status, which names paths and values,
// is in Change::status and, for the state of the log, in Stats::health_reason.
#ifndef COUNTWHEEL_ASIO_ERROR_H_
#define COUNTWHEEL_ASIO_ERROR_H_

#include <string>
#include <type_traits>

#include <boost/system/error_code.hpp>

#include <countwheel/status.h>

namespace countwheel {

// Named "countwheel"; messages are the words of the documentation: "no_space", "too_late", ...
const boost::system::error_category& error_category() noexcept;

// Found by Boost: `error == countwheel::Code::kNoSpace` compiles.
boost::system::error_code make_error_code(Code code) noexcept;

namespace detail {

// Boost's base has no virtual destructor, on purpose: categories live for ever.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
class ErrorCategory final : public boost::system::error_category {
 public:
  // The number makes the category the same one in every shared library.
  constexpr ErrorCategory() noexcept : error_category(0x636f756e74776865ULL) {}

  const char* name() const noexcept override { return "countwheel"; }
  std::string message(int value) const override {
    return std::string(to_string(static_cast<Code>(value)));
  }
  // What a program that knows only the generic conditions can make of it.
  boost::system::error_condition default_error_condition(int value) const noexcept override {
    namespace errc = boost::system::errc;
    switch (static_cast<Code>(value)) {
      case Code::kInvalidArgument:
        return make_error_condition(errc::invalid_argument);
      case Code::kTimedOut:
        return make_error_condition(errc::timed_out);
      case Code::kNoSpace:
        return make_error_condition(errc::no_space_on_device);
      case Code::kJournalFailed:
        return make_error_condition(errc::io_error);
      case Code::kPermission:
        return make_error_condition(errc::permission_denied);
      default:
        return {value, *this};
    }
  }
};
#pragma GCC diagnostic pop

}  // namespace detail

inline const boost::system::error_category& error_category() noexcept {
  static constexpr detail::ErrorCategory kCategory;
  return kCategory;
}

inline boost::system::error_code make_error_code(Code code) noexcept {
  return {static_cast<int>(code), error_category()};
}

}  // namespace countwheel

template <>
struct boost::system::is_error_code_enum<countwheel::Code> : std::true_type {};

#endif  // COUNTWHEEL_ASIO_ERROR_H_
