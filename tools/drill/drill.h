// The fire drill: order expiry under kill -9, and the audit of what became of every order.
#ifndef COUNTWHEEL_TOOLS_DRILL_DRILL_H_
#define COUNTWHEEL_TOOLS_DRILL_DRILL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <countwheel/task.h>

#include "audit.h"
#include "gateway.h"
#include "generator.h"
#include "region.h"
#include "unpaced.h"

namespace countwheel::drill {

struct DrillOptions {
  Preset preset = Preset::kEquity;
  std::string lobster_path;       // instead of the preset
  std::string bitstamp_path;      // instead of the preset; "-" is standard input
  std::uint32_t order_count = 0;  // 0: 200,000 of a preset, all of a file
  std::uint64_t seed = 1;
  double speed = 0;  // 0: such that the session takes about as long whatever the source
  std::vector<double> kill_shares = {0.3, 0.6};
  std::string directory;  // empty: a temporary one, removed at the end
  Durability durability = Durability::kDisk;
  bool tick_precision = false;
  Plant plant = Plant::kNone;
  bool unpaced = true;
  bool json = false;
};

// Everything there is to report.
struct DrillReport {
  std::string source;
  std::uint32_t order_count = 0;
  std::uint64_t seed = 0;
  double speed = 0;
  Durability durability = Durability::kDisk;
  bool tick_precision = false;
  std::string directory;     // empty when it was temporary
  bool memory_disk = false;  // the directory is on a file system without a disk
  GatewayReport gateway;
  ServiceTotals service;  // of the last life of the service
  Verdict verdict = {};
  std::optional<UnpacedResult> unpaced = {};
  double seconds = 0;
};

// Runs a drill and prints its report. Returns the exit code (tools/commands.h).
int run_drill(const DrillOptions& options);

// For people, several lines; for programs, one object on one line.
std::string text_of(const DrillReport& report);
void print_json_of(const DrillReport& report);

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_DRILL_H_
