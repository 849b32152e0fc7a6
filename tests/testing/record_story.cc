// What a record says about one task and its key, a line a note: for whoever reads a failure.
#include <map>
#include <string>

#include "testing/record.h"

namespace countwheel::testing {
namespace {

std::string number(std::uint64_t at) {
  return at == kOpen ? "never" : std::to_string(at);
}

std::string line_of(const Call& call) {
  constexpr const char* kKinds[] = {
      "schedule", "cancel", "reschedule", "requeue", "purge", "cancel_group"};
  constexpr const char* kSettled[] = {"unknown", "held", "refused"};
  std::string line = kKinds[static_cast<std::size_t>(call.kind)];
  line += " task " + std::to_string(call.id.value) + " group " + std::to_string(call.group) +
          " type '" + call.type + "' key '" + call.key + "' payload '" + call.payload + "' " +
          (call.clock == ClockKind::kWall ? "wall " : "boot ") + std::to_string(call.deadline_ns) +
          " slack " + std::to_string(call.slack_ns) + " at " +
          std::string(to_string(call.durability)) + " -> " + std::string(to_string(call.code)) +
          " lsn " + std::to_string(call.lsn) + (call.replaced ? " replaced" : "") +
          (call.kept ? " kept" : "") + ", " + kSettled[static_cast<std::size_t>(call.settled)] +
          " since " + number(call.settled_at);
  return line;
}

std::string line_of(const Attempt& attempt) {
  return "attempt " + std::to_string(attempt.attempt) + " of task " +
         std::to_string(attempt.id.value) + " epoch " + std::to_string(attempt.epoch) +
         " sequence " + std::to_string(attempt.sequence) + " type '" + attempt.type + "' key '" +
         attempt.key + "' payload '" + attempt.payload + "' boot " +
         std::to_string(attempt.at.boot_ns) + " wall " + std::to_string(attempt.at.wall_ns) +
         " deadline " + std::to_string(attempt.wall_deadline_ns) +
         (attempt.in_handler ? "" : " kept");
}

std::string line_of(const Answer& answer) {
  constexpr const char* kKinds[] = {"done", "fail", "retry", "drop", "throw"};
  return std::string("answer ") + kKinds[static_cast<std::size_t>(answer.kind)] + " after " +
         std::to_string(answer.delay_ns) + " -> " + std::string(to_string(answer.code));
}

}  // namespace

std::string story_of(const Record& record, TaskId id) {
  std::multimap<std::uint64_t, std::string> lines;
  const auto add = [&](std::uint64_t begin, std::uint64_t end, int life, const std::string& text) {
    lines.emplace(
        begin,
        std::to_string(begin) + ".." + number(end) + " life " + std::to_string(life) + ": " + text);
  };
  std::string key;
  for (const Call& call : record.calls) {
    key = call.id == id && !call.key.empty() ? call.key : key;
  }
  const auto same_key = [&key](const std::string& other) { return !key.empty() && other == key; };
  for (const Call& call : record.calls) {
    if (call.id == id || call.letter == id || (call.end == kOpen && !call.id) ||
        same_key(call.key) || call.kind == CallKind::kCancelGroup) {
      add(call.begin, call.end, call.life, line_of(call));
    }
  }
  for (const Attempt& attempt : record.attempts) {
    if (attempt.id == id || same_key(attempt.key)) {
      add(attempt.start, attempt.start, attempt.life, line_of(attempt));
      for (const Answer& answer : attempt.answers) {
        add(answer.begin, answer.end, attempt.life, line_of(answer));
      }
    }
  }
  for (const Look& look : record.looks) {
    if (look.id == id) {
      add(look.begin, look.end, look.life, "find -> " + std::string(to_string(look.code)));
    }
  }
  for (const Crash& crash : record.crashes) {
    add(crash.begin, crash.end, 0, crash.power ? "power failure" : "kill -9");
  }
  std::string text;
  for (const auto& [at, line] : lines) {
    text += "    " + line + "\n";
  }
  return text;
}

}  // namespace countwheel::testing
