// What a drill says at its end: text for people, JSON for programs.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "../json.h"
#include "drill.h"

namespace countwheel::drill {

namespace {

// 200000 as 200,000.
std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) {
    digits.insert(i - 3, 1, ',');
  }
  return digits;
}

std::string microseconds(double us) {
  return us < 1000.0        ? fmt::format("{:.0f} us", us)
         : us < 1'000'000.0 ? fmt::format("{:.1f} ms", us / 1000.0)
                            : fmt::format("{:.1f} s", us / 1'000'000.0);
}

// 1 kill, 2 kills.
std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

// Digits beyond the third decimal are noise.
double rounded(double value) {
  return std::round(value * 1000.0) / 1000.0;
}

std::string text_of(const Recovery& recovery, std::size_t number) {
  return fmt::format(
      "Kill {}      at {:.1f} %: {} unanswered, {} running, {} not synced\n"
      "            back in {:.0f} ms (log read in {:.1f} ms), {} live; the parent counts {} to "
      "{}\n",
      number,
      recovery.share * 100.0,
      counted(recovery.unacked, "call"),
      counted(recovery.running, "handler"),
      counted(recovery.unsynced, "answer"),
      recovery.down_ms,
      recovery.found.seconds * 1000.0,
      grouped(recovery.found.live),
      grouped(recovery.pending),
      grouped(recovery.pending + recovery.uncertain));
}

std::string text_of(const LatenessUs& lateness, std::string_view which) {
  return fmt::format("p50 {}, p99 {}, max {} ({} {} {})\n",
                     microseconds(lateness.p50),
                     microseconds(lateness.p99),
                     microseconds(lateness.max),
                     grouped(lateness.count),
                     lateness.count == 1 ? "expiry" : "expiries",
                     which);
}

std::string text_of(const Verdict& verdict) {
  std::string text =
      fmt::format("Orders      {} scheduled = {} cancelled + {} filled + {} expired + {} unknown\n",
                  grouped(verdict.scheduled),
                  grouped(verdict.cancelled),
                  grouped(verdict.filled),
                  grouped(verdict.expired),
                  grouped(verdict.unknown));
  if (verdict.never_sent > 0) {
    text +=
        fmt::format("            {} more ended while the service was away, before it saw them\n",
                    grouped(verdict.never_sent));
  }
  text += "Lateness    " + text_of(verdict.lateness_us, "in all") + "            " +
          text_of(verdict.session_us, "during the session");
  if (verdict.close_us.count > 0) {
    text += "            " + text_of(verdict.close_us, "in one instant at the close");
  }
  if (verdict.overdue_us.count > 0) {
    text += fmt::format("            {} more fell due while the service was away, up to {} late\n",
                        grouped(verdict.overdue_us.count),
                        microseconds(verdict.overdue_us.max));
  }
  return text;
}

boost::json::object json_of(const LatenessUs& lateness) {
  return {{"p50", rounded(lateness.p50)},
          {"p99", rounded(lateness.p99)},
          {"max", rounded(lateness.max)},
          {"count", lateness.count}};
}

boost::json::object json_of(const ServiceTotals& totals) {
  return {{"ops", totals.ops},
          {"elided", totals.elided},
          {"commits", totals.commits},
          {"syncs", totals.syncs},
          {"handover_us",
           {{"p50", rounded(static_cast<double>(totals.handover_p50_ns) / 1000.0)},
            {"p99", rounded(static_cast<double>(totals.handover_p99_ns) / 1000.0)}}}};
}

boost::json::array json_of(const std::vector<Recovery>& recoveries) {
  boost::json::array array;
  for (const Recovery& recovery : recoveries) {
    array.push_back({{"live", recovery.found.live},
                     {"ms", rounded(recovery.found.seconds * 1000.0)},
                     {"unacked", recovery.unacked},
                     {"running", recovery.running},
                     {"unsynced", recovery.unsynced},
                     {"pending", recovery.pending},
                     {"uncertain", recovery.uncertain},
                     {"overdue", recovery.found.overdue},
                     {"redelivered", recovery.found.redelivered},
                     {"log_ops", recovery.found.ops},
                     {"down_ms", rounded(recovery.down_ms)},
                     {"share", rounded(recovery.share)}});
  }
  return array;
}

boost::json::array json_of(const std::vector<std::string>& texts) {
  boost::json::array array;
  for (const std::string& text : texts) {
    array.emplace_back(text);
  }
  return array;
}

}  // namespace

std::string text_of(const DrillReport& report) {
  const Verdict& verdict = report.verdict;
  std::string text = fmt::format(
      "Fire drill  {}: {} at {:.4g} times their speed, {} with kill -9\n"
      "            acknowledged at {}, {} precision, seed {}{}\n",
      report.source,
      counted(report.order_count, "order"),
      report.speed,
      counted(report.gateway.recoveries.size(), "kill"),
      to_string(report.durability),
      report.tick_precision ? "tick" : "exact",
      report.seed,
      report.memory_disk ? "; in a memory disk, where fsync costs nothing" : "");
  text += text_of(verdict);
  for (std::size_t i = 0; i < report.gateway.recoveries.size(); ++i) {
    text += text_of(report.gateway.recoveries[i], i + 1);
  }
  text += fmt::format(
      "Audit       {} lost, {} duplicated, {} early, {} inconsistent; {} delivered again\n",
      verdict.lost,
      verdict.duplicated,
      verdict.early,
      verdict.inconsistent,
      verdict.redelivered);
  for (const std::string& problem : verdict.problems) {
    text += "            " + problem + "\n";
  }
  if (report.unpaced) {
    text += fmt::format(
        "Unpaced     {} durable operations a second, {:.1f} % more elided, {} operations a sync\n",
        grouped(static_cast<std::uint64_t>(report.unpaced->ops_per_second())),
        report.unpaced->elided_share() * 100.0,
        grouped(report.unpaced->syncs > 0 ? report.unpaced->logged_ops / report.unpaced->syncs
                                          : 0));
  }
  if (!report.directory.empty()) {
    text += "Log         kept in " + report.directory + "\n";
  }
  text +=
      fmt::format("Verdict     {} ({:.1f} s)\n",
                  verdict.ok() ? "passed: no promise was broken" : "FAILED: a promise was broken",
                  report.seconds);
  return text;
}

void print_json_of(const DrillReport& report) {
  const Verdict& verdict = report.verdict;
  boost::json::object object = {{"ok", verdict.ok()},
                                {"source", report.source},
                                {"orders", report.order_count},
                                {"seed", report.seed},
                                {"speed", rounded(report.speed)},
                                {"durability", std::string(to_string(report.durability))},
                                {"precision", report.tick_precision ? "tick" : "exact"},
                                {"scheduled", verdict.scheduled},
                                {"cancelled", verdict.cancelled},
                                {"filled", verdict.filled},
                                {"expired", verdict.expired},
                                {"unknown", verdict.unknown},
                                {"never_sent", verdict.never_sent},
                                {"partial_fills", report.gateway.totals.partial_fill_count},
                                {"redelivered", verdict.redelivered},
                                {"lost", verdict.lost},
                                {"duplicated", verdict.duplicated},
                                {"early", verdict.early},
                                {"inconsistent", verdict.inconsistent},
                                {"revived", verdict.revived},
                                {"lateness_us", json_of(verdict.lateness_us)},
                                {"session_us", json_of(verdict.session_us)},
                                {"close_us", json_of(verdict.close_us)},
                                {"overdue_us", json_of(verdict.overdue_us)},
                                {"last_life", json_of(report.service)},
                                {"recoveries", json_of(report.gateway.recoveries)},
                                {"problems", json_of(verdict.problems)},
                                {"seconds", rounded(report.seconds)}};
  object["durable_ops_per_s"] =
      report.unpaced ? boost::json::value(std::round(report.unpaced->ops_per_second()))
                     : boost::json::value(nullptr);
  object["elided_share"] = report.unpaced
                               ? boost::json::value(rounded(report.unpaced->elided_share()))
                               : boost::json::value(nullptr);
  tools::print_json(object);
}

}  // namespace countwheel::drill
