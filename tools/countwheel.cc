// The command: parses and dispatches; every subcommand is a file of its own.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include <countwheel/version.h>

#include "commands.h"

int main(int argc, char** argv) {
  using namespace countwheel;
  CLI::App app("Durable timers: look into their log, or run a fire drill.", "countwheel");
  app.set_version_flag("--version", "countwheel " + std::string(version()));
  app.require_subcommand(1);
  app.footer("`countwheel COMMAND --help` says more about one command.");
  int exit_code = tools::kExitOk;
  tools::add_drill(app, &exit_code);
  tools::add_check(app, &exit_code);
  tools::add_log(app, &exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // --help and --version end here too, with 0. CLI11's own codes start at 100.
    return app.exit(error) == 0 ? tools::kExitOk : tools::kExitUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "countwheel: %s\n", error.what());
    return tools::kExitFailed;
  }
  if (std::fflush(stdout) != 0) {
    std::perror("countwheel: standard output");
    return tools::kExitFailed;
  }
  return exit_code;
}
