// countwheel check: reads a whole data directory and says what is wrong with it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <countwheel/recovery.h>

#include "commands.h"
#include "json.h"

namespace countwheel::tools {
namespace {

struct CheckArguments {
  std::string directory;
  bool json = false;
};

boost::json::object to_json(const CheckReport& report) {
  boost::json::array problems;
  for (const CheckProblem& problem : report.problems) {
    problems.push_back(boost::json::object{{"code", to_string(problem.code)},
                                           {"file", problem.file},
                                           {"offset", problem.offset},
                                           {"text", problem.text}});
  }
  return {{"directory", report.directory},
          {"ok", report.ok()},
          {"problems", std::move(problems)},
          {"live", report.log.live},
          {"dead", report.log.dead},
          {"running", report.running_cells},
          {"format", report.format},
          {"group_commits", report.log.blobs},
          {"first_group_commit", report.first_blob},
          {"last_group_commit", report.last_blob},
          {"ops", report.log.ops},
          {"first_lsn", report.first_lsn},
          {"last_lsn", report.last_lsn},
          {"epoch", report.log.epoch},
          {"log_bytes", report.log.log_bytes},
          {"disk_bytes", report.disk_bytes},
          {"torn_bytes", report.log.torn_bytes},
          {"clean_stop", report.log.clean_stop}};
}

int run(const CheckArguments& arguments) {
  const Result<CheckReport> report = check(arguments.directory);
  if (!report.ok()) {
    if (arguments.json) {
      print_json(boost::json::object{{"directory", arguments.directory},
                                     {"ok", false},
                                     {"code", to_string(report.code())},
                                     {"text", report.status().detail()}});
    }
    fmt::print(stderr, "countwheel check: {}\n", report.status().text());
    return kExitFailed;
  }
  if (arguments.json) {
    print_json(to_json(*report));
  } else {
    fmt::print("{}", report->text());
  }
  return report->ok() ? kExitOk : kExitDamaged;
}

}  // namespace

void add_check(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<CheckArguments>();
  CLI::App* command =
      app.add_subcommand("check", "Read a data directory to its end and list what is damaged.");
  command->add_option("DIR", arguments->directory, "The data directory.")->required();
  command->add_flag("--json", arguments->json, "Print one JSON object.");
  command->footer(
      "Changes nothing; the directory must not be open elsewhere.\n"
      "Exit code: 0 sound, 1 could not look, 2 usage, 3 damaged.");
  command->callback([arguments, exit_code] { *exit_code = run(*arguments); });
}

}  // namespace countwheel::tools
