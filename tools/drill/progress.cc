#include "progress.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

#include <fmt/format.h>

namespace countwheel::drill {

namespace {

constexpr int kWidth = 30;

}  // namespace

ProgressBar::ProgressBar() : terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  clear();
}

void ProgressBar::show(double share, std::string_view text) {
  const double part = std::clamp(share, 0.0, 1.0);
  if (!terminal_) {
    const int quarters = static_cast<int>(part * 4.0);
    if (quarters > quarters_ || text_.empty()) {
      quarters_ = quarters;
      text_ = text;
      fmt::print(stderr, "{:3.0f} %  {}\n", part * 100.0, text);
    }
    return;
  }
  const int filled = static_cast<int>(part * kWidth);
  fmt::print(stderr,
             "\r[{:#<{}}{:.<{}}] {:3.0f} %  {}\x1b[K",
             "",
             filled,
             "",
             kWidth - filled,
             part * 100.0,
             text);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) {
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
    drawn_ = false;
  }
}

}  // namespace countwheel::drill
