// The timer service: the process that runs the engine, and that the drill kills.
//
// It keeps no truth of its own. Orders, commands and the book are in the region; what it answers
// and does is stamped there; the log is its memory. Started again on the same directory it goes on.
#ifndef COUNTWHEEL_TOOLS_DRILL_SERVICE_H_
#define COUNTWHEEL_TOOLS_DRILL_SERVICE_H_

namespace countwheel::drill {

// Runs until a stop command or the death of the parent. Returns the exit code of the process.
int run_service(int descriptor);

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_SERVICE_H_
