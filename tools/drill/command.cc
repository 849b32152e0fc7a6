// `countwheel drill`: its options.
#include <CLI/CLI.hpp>
#include <charconv>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../commands.h"
#include "drill.h"
#include "service.h"

namespace countwheel::tools {

namespace {

using drill::DrillOptions;

// What the command line holds before it is an option of the drill.
struct Arguments {
  DrillOptions options;
  std::string preset = "equity";
  std::string kill_at = "30%,60%";
  std::string precision = "exact";
  std::string durability = "disk";
  std::string plant;
  bool no_unpaced = false;
  int child = -1;
};

// "30%,60%" as shares; "none" or nothing as no kill.
std::vector<double> kill_shares_of(const std::string& text) {
  std::vector<double> shares;
  if (text == "none" || text.empty()) {
    return shares;
  }
  for (const std::string& part : CLI::detail::split(text, ',')) {
    const std::size_t length = part.ends_with('%') ? part.size() - 1 : part.size();
    double percent = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + length, percent);
    if (error != std::errc() || end != part.data() + length || percent < 0 || percent > 100) {
      throw CLI::ValidationError("--kill-at", "'" + part + "' is not a percentage from 0% to 100%");
    }
    if (!shares.empty() && percent / 100.0 <= shares.back()) {
      throw CLI::ValidationError("--kill-at", "'" + text + "' does not ascend");
    }
    shares.push_back(percent / 100.0);
  }
  return shares;
}

void finish(Arguments* arguments) {
  DrillOptions& options = arguments->options;
  options.preset = *drill::preset_of(arguments->preset);
  options.kill_shares = kill_shares_of(arguments->kill_at);
  options.tick_precision = arguments->precision == "tick";
  options.durability = arguments->durability == "disk" ? Durability::kDisk
                       : arguments->durability == "os" ? Durability::kOs
                                                       : Durability::kMemory;
  const std::map<std::string, drill::Plant> plants = {{"lost", drill::Plant::kLost},
                                                      {"dup", drill::Plant::kDup},
                                                      {"early", drill::Plant::kEarly},
                                                      {"revive", drill::Plant::kRevive}};
  if (const auto plant = plants.find(arguments->plant); plant != plants.end()) {
    options.plant = plant->second;
  }
  options.unpaced = !arguments->no_unpaced;
}

void add_input(CLI::App& command, Arguments& arguments) {
  CLI::Option* preset = command.add_option("--preset", arguments.preset, "Generated order flow")
                            ->check(CLI::IsMember({"equity", "crypto", "session-close"}))
                            ->capture_default_str();
  CLI::Option* lobster = command.add_option(
      "--lobster", arguments.options.lobster_path, "Order flow from a LOBSTER message file");
  CLI::Option* bitstamp = command.add_option("--bitstamp",
                                             arguments.options.bitstamp_path,
                                             "Order flow from a CSV of Bitstamp order events; "
                                             "- is standard input");
  preset->excludes(lobster)->excludes(bitstamp);
  lobster->excludes(bitstamp);
  command
      .add_option("--orders",
                  arguments.options.order_count,
                  "How many orders (default 200000, or all of a file)")
      ->check(CLI::Range(1U, 10'000'000U));
  command.add_option("--seed", arguments.options.seed, "Seed of everything drawn")
      ->capture_default_str()
      ->envname("COUNTWHEEL_SEED");
  command
      .add_option("--speed",
                  arguments.options.speed,
                  "Divides arrivals, lives and expiries (default: 12,500 orders a second, and at "
                  "least 8 seconds)")
      ->check(CLI::Range(0.001, 1e9));
}

void add_behaviour(CLI::App& command, Arguments& arguments) {
  command
      .add_option("--kill-at",
                  arguments.kill_at,
                  "Shares of the session at which the service is killed, or none")
      ->capture_default_str();
  command.add_option("--dir",
                     arguments.options.directory,
                     "Directory of the log, kept (default: a temporary one)");
  command.add_option("--precision", arguments.precision, "When a deadline counts as reached")
      ->check(CLI::IsMember({"exact", "tick"}))
      ->capture_default_str();
  command
      .add_option("--durability", arguments.durability, "How far a call travels before its answer")
      ->check(CLI::IsMember({"disk", "os", "memory"}))
      ->capture_default_str();
  command
      .add_option("--plant", arguments.plant, "Commit one fault on purpose: the audit must find it")
      ->check(CLI::IsMember({"lost", "dup", "early", "revive"}));
  command.add_flag("--no-unpaced",
                   arguments.no_unpaced,
                   "Leave out the measurement of durable operations a second");
  command.add_flag("--json", arguments.options.json, "Print the report as one JSON object");
  command.add_option("--child", arguments.child)->group("");
}

}  // namespace

void add_drill(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "drill", "Fire drill: expire real order flow, kill the service twice, audit every order");
  command->footer(
      "Exits 0 when every promise was kept, 1 when one was broken or the drill could not run, "
      "2 on wrong usage, 3 on a bad file.");
  auto arguments = std::make_shared<Arguments>();
  add_input(*command, *arguments);
  add_behaviour(*command, *arguments);
  command->callback([arguments, exit_code] {
    if (arguments->child >= 0) {
      *exit_code = drill::run_service(arguments->child);
      return;
    }
    finish(arguments.get());
    *exit_code = drill::run_drill(arguments->options);
  });
}

}  // namespace countwheel::tools
