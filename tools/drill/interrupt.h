// Control-C, as something to ask about: the drill stops in order and removes what it made.
#ifndef COUNTWHEEL_TOOLS_DRILL_INTERRUPT_H_
#define COUNTWHEEL_TOOLS_DRILL_INTERRUPT_H_

namespace countwheel::drill {

// SIGINT and SIGTERM are noted instead of ending the process; a second one ends it.
void note_interrupts();
bool interrupted() noexcept;

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_INTERRUPT_H_
