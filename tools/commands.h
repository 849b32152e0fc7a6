// The subcommands of `countwheel`: each file adds its own to the command line.
//
// A subcommand's work is its CLI11 callback; what the process exits with goes to `exit_code`:
//   0  well
//   1  the command could not do its work, or found that a promise was broken
//   2  usage
//   3  damaged data
#ifndef COUNTWHEEL_TOOLS_COMMANDS_H_
#define COUNTWHEEL_TOOLS_COMMANDS_H_

namespace CLI {
class App;
}  // namespace CLI

namespace countwheel::tools {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitDamaged = 3;

// REQUIRES: `exit_code` outlives the parsing of `app`, during which callbacks run.
void add_drill(CLI::App& app, int* exit_code);
void add_check(CLI::App& app, int* exit_code);
void add_log(CLI::App& app, int* exit_code);

}  // namespace countwheel::tools

#endif  // COUNTWHEEL_TOOLS_COMMANDS_H_
