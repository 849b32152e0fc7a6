// countwheel log dump: the operations of a log, one line each.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include <countwheel/wal.h>

#include "commands.h"
#include "json.h"
#include "text.h"

namespace countwheel::tools {
namespace {

struct DumpArguments {
  std::string directory;
  bool json = false;
  bool payload = false;
  bool blobs = false;
  std::uint64_t from_lsn = 0;
  std::uint64_t limit = UINT64_MAX;
  std::optional<std::uint64_t> id;
};

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::kNone:
      return "none";
    case OpKind::kSchedule:
      return "schedule";
    case OpKind::kCancel:
      return "cancel";
    case OpKind::kReschedule:
      return "reschedule";
    case OpKind::kDone:
      return "done";
    case OpKind::kRetry:
      return "retry";
    case OpKind::kDead:
      return "dead";
    case OpKind::kType:
      return "type";
    case OpKind::kCancelGroup:
      return "cancel_group";
    case OpKind::kRescheduleGroup:
      return "reschedule_group";
  }
  return "unknown";
}

bool has_deadline(OpKind kind) {
  return kind == OpKind::kSchedule || kind == OpKind::kReschedule || kind == OpKind::kRetry ||
         kind == OpKind::kRescheduleGroup;
}

bool has_counters(const Op& op) {
  return op.kind == OpKind::kRetry || op.kind == OpKind::kDead || op.attempts > 0;
}

class Dump {
 public:
  explicit Dump(const DumpArguments& arguments) : arguments_(arguments) {}

  // False once enough has been printed.
  bool print(const BlobHeader& header, std::span<const Op> ops) {
    if (arguments_.blobs && printed_ < arguments_.limit && header.last_lsn >= arguments_.from_lsn) {
      print_blob(header);
    }
    for (const Op& op : ops) {
      if (op.kind == OpKind::kType) {
        types_[op.id.value] = std::string(op.payload());
      }
      if (op.lsn < arguments_.from_lsn || (arguments_.id && op.id.value != *arguments_.id)) {
        continue;
      }
      if (printed_ == arguments_.limit) {
        return false;
      }
      ++printed_;
      arguments_.json ? print_object(header, op) : print_line(op);
    }
    return printed_ < arguments_.limit || arguments_.limit == 0;
  }

 private:
  void print_blob(const BlobHeader& header) const {
    if (arguments_.json) {
      print_json(boost::json::object{{"group_commit", header.sequence},
                                     {"first_lsn", header.first_lsn},
                                     {"last_lsn", header.last_lsn},
                                     {"ops", header.op_count},
                                     {"bytes", header.bytes},
                                     {"epoch", header.epoch},
                                     {"synced", header.synced},
                                     {"watermark", header.watermark},
                                     {"low_water", header.low_water},
                                     {"clean_stop", header.clean_stop},
                                     {"wall", utc(header.wall_ns)}});
      return;
    }
    // The first group commit, which makes the log, knows no time.
    const std::string when = header.wall_ns == 0 ? std::string() : " at " + utc(header.wall_ns);
    fmt::print("-- group commit {} of start {}: {} operations, {} bytes, {}{}{}\n",
               header.sequence,
               header.epoch,
               header.op_count,
               header.bytes,
               header.synced ? "synced" : "written",
               header.clean_stop ? ", clean stop" : "",
               when);
  }

  // The type a task was scheduled with, by name when the log has told it.
  std::string type_name(std::uint16_t type) const {
    const auto found = types_.find(type);
    return found == types_.end() ? fmt::format("#{}", type) : found->second;
  }

  void print_line(const Op& op) const {
    std::string line = fmt::format("{:>10}  {:<10}", op.lsn, name_of(op.kind));
    if (op.kind == OpKind::kType) {
      fmt::print("{}  {} = \"{}\"\n", line, op.id.value, escaped(op.payload()));
      return;
    }
    const auto out = std::back_inserter(line);
    fmt::format_to(out, "  {:016x}", op.id.value);
    if (has_deadline(op.kind)) {
      fmt::format_to(out, "  {}", utc(op.wall_deadline_ns));
      if (op.clock == ClockKind::kBoot) {
        fmt::format_to(out, " boot {}", op.boot_deadline_ns);
      }
    }
    if (op.kind == OpKind::kSchedule) {
      fmt::format_to(out,
                     "  {} key \"{}\" payload {} B",
                     escaped(type_name(op.type)),
                     escaped(op.key()),
                     op.payload_bytes);
      if (op.base_lsn != op.lsn) {
        fmt::format_to(out, " carried from {}", op.base_lsn);
      }
      if (op.slack_us > 0) {
        fmt::format_to(out, " slack {} us", op.slack_us);
      }
    }
    if (has_counters(op)) {
      fmt::format_to(
          out, "  attempts {} failures {} crashes {}", op.attempts, op.failures, op.crashes);
    }
    if (op.kind == OpKind::kDead || op.dead) {
      fmt::format_to(out, " dead by {}", to_string(op.reason));
    }
    if (op.text_bytes > 0) {
      fmt::format_to(out, " \"{}\"", escaped(op.text(), 120));
    }
    if (op.attribute_bytes > 0) {
      fmt::format_to(out, " attributes {}", hex(op.attributes()));
    }
    if (arguments_.payload && op.payload_bytes > 0) {
      fmt::format_to(out, "\n            {}", hex(op.payload()));
    }
    fmt::print("{}\n", line);
  }

  void print_object(const BlobHeader& header, const Op& op) const {
    boost::json::object object{
        {"lsn", op.lsn}, {"op", name_of(op.kind)}, {"group_commit", header.sequence}};
    if (op.kind == OpKind::kType) {
      object["number"] = op.id.value;
      object["name"] = escaped(op.payload());
      print_json(object);
      return;
    }
    object["id"] = fmt::format("{:016x}", op.id.value);
    if (has_deadline(op.kind)) {
      object["clock"] = op.clock == ClockKind::kBoot ? "boot" : "wall";
      object["deadline"] = utc(op.wall_deadline_ns);
      object["wall_deadline_ns"] = op.wall_deadline_ns;
      if (op.clock == ClockKind::kBoot) {
        object["boot_deadline_ns"] = op.boot_deadline_ns;
      }
    }
    if (op.kind == OpKind::kSchedule) {
      object["type"] = escaped(type_name(op.type));
      object["key"] = escaped(op.key());
      object["payload_bytes"] = op.payload_bytes;
      object["order_lsn"] = op.base_lsn;
      object["slack_us"] = op.slack_us;
    }
    if (has_counters(op)) {
      object["attempts"] = op.attempts;
      object["failures"] = op.failures;
      object["crashes"] = op.crashes;
    }
    if (op.kind == OpKind::kDead || op.dead) {
      object["reason"] = to_string(op.reason);
    }
    if (op.text_bytes > 0) {
      object["text"] = escaped(op.text(), 512);
    }
    if (op.attribute_bytes > 0) {
      object["attributes"] = hex(op.attributes());
    }
    if (arguments_.payload) {
      object["payload"] = hex(op.payload());
    }
    print_json(object);
  }

  const DumpArguments& arguments_;
  std::unordered_map<std::uint64_t, std::string> types_;
  std::uint64_t printed_ = 0;
};

int run(const DumpArguments& arguments) {
  WalOptions options;
  options.create_if_missing = false;
  const Result<std::unique_ptr<Log>> log = Log::open_read_only(arguments.directory, options);
  if (!log.ok()) {
    fmt::print(stderr, "countwheel log dump: {}\n", log.status().text());
    return log.code() == Code::kCorrupt ? kExitDamaged : kExitFailed;
  }
  Dump dump(arguments);
  bool enough = false;
  const Status status = (*log)->read([&](const BlobHeader& header, std::span<const Op> ops) {
    enough = !dump.print(header, ops);
    return enough ? Status(Code::kStopped) : Status();
  });
  if (!enough && !status.ok()) {
    fmt::print(stderr, "countwheel log dump: {}\n", status.text());
    return status.code() == Code::kCorrupt ? kExitDamaged : kExitFailed;
  }
  return kExitOk;
}

}  // namespace

void add_log(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<DumpArguments>();
  CLI::App* log = app.add_subcommand("log", "Look into a log.");
  log->require_subcommand(1);
  CLI::App* dump = log->add_subcommand("dump", "Print the operations of a log, one line each.");
  dump->add_option("DIR", arguments->directory, "The data directory.")->required();
  dump->add_flag("--json", arguments->json, "Print one JSON object a line.");
  dump->add_option("--from", arguments->from_lsn, "Start at this LSN.")->type_name("LSN");
  dump->add_option("--limit", arguments->limit, "Stop after this many operations.")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  dump->add_option_function<std::string>(
          "--id",
          [arguments](const std::string& text) { arguments->id = parse_id(text); },
          "Only operations of this task, its id in hexadecimal as printed here.")
      ->type_name("ID")
      ->check([](const std::string& text) {
        return parse_id(text) ? std::string() : "'" + escaped(text) + "' is not an id";
      });
  dump->add_flag("--payload", arguments->payload, "Print payloads too, in hexadecimal.");
  dump->add_flag("--commits", arguments->blobs, "Print a line for each group commit too.");
  dump->footer(
      "Changes nothing; the directory must not be open elsewhere. Keys are escaped and cut at 64\n"
      "characters. Exit code: 0 well, 1 could not look, 2 usage, 3 damaged.");
  dump->callback([arguments, exit_code] { *exit_code = run(*arguments); });
}

}  // namespace countwheel::tools
