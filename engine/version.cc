#include <countwheel/version.h>

namespace countwheel {

std::string_view version() noexcept {
  return COUNTWHEEL_VERSION;
}

}  // namespace countwheel
