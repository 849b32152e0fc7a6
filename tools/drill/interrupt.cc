#include "interrupt.h"

#include <csignal>
#include <signal.h>

namespace countwheel::drill {

namespace {

volatile std::sig_atomic_t noted = 0;

void note(int) {
  noted = 1;
}

}  // namespace

void note_interrupts() {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() noexcept {
  return noted != 0;
}

}  // namespace countwheel::drill
