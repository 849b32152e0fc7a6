// The command as its users run it: `check` and `log dump` on directories that an engine wrote,
// their output and what they exit with.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <vector>

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <countwheel/rocksdb.h>

#include "recovery/restart_fixture.h"

namespace countwheel::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string out;  // standard output and error
  std::vector<std::string> lines;
};

// `arguments` as a shell reads them.
Outcome command(const std::string& arguments) {
  const char* const path = std::getenv("COUNTWHEEL_COMMAND");
  EXPECT_NE(path, nullptr) << "COUNTWHEEL_COMMAND is not set";
  Outcome outcome;
  if (path == nullptr) {
    return outcome;
  }
  std::FILE* const pipe = ::popen((std::string(path) + " " + arguments + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    outcome.out.append(buffer.data(), got);
  }
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  for (std::size_t at = 0; at < outcome.out.size();) {
    const std::size_t end = outcome.out.find('\n', at);
    outcome.lines.push_back(outcome.out.substr(at, end - at));
    at = end == std::string::npos ? outcome.out.size() : end + 1;
  }
  return outcome;
}

class Command : public Restart {
 protected:
  // Three tasks: one with a hostile key, one cancelled, one failed and waiting.
  void fill() {
    policy_.retry = RetryPolicy::fixed(hours(1));
    open();
    plain_ = schedule({.type = "work",
                       .deadline = after(hours(2)),
                       .key = std::string_view("tab\tnul\0end", 11),
                       .payload = "secret"});
    const TaskId cancelled = schedule({.type = "work", .deadline = after(hours(2))});
    schedule({.type = "work", .deadline = after(seconds(1)), .key = std::string(1000, 'k')});
    ASSERT_TRUE(engine_->cancel(cancelled));
    fail_with_ = "no \"connection\"";
    run_for(seconds(2));
    ASSERT_TRUE(engine_->stop().ok());
    engine_.reset();
  }

  TaskId plain_;
};

TEST_F(Command, VersionAndHelpExitWithZero) {
  EXPECT_THAT(command("--version").out, HasSubstr("countwheel "));
  EXPECT_EQ(command("--version").exit_code, 0);
  for (const char* name : {"", "check", "log", "log dump", "drill"}) {
    const Outcome help = command(std::string(name) + " --help");
    EXPECT_EQ(help.exit_code, 0) << name;
    EXPECT_THAT(help.out, HasSubstr("Usage")) << name;
  }
}

TEST_F(Command, WrongUsageExitsWithTwo) {
  for (const char* arguments : {"",
                                "nonsense",
                                "check",
                                "check --nonsense x",
                                "log",
                                "log dump",
                                "log dump x --from y",
                                "log dump x --limit -1",
                                "log dump x --id nonsense"}) {
    EXPECT_EQ(command(arguments).exit_code, 2) << arguments;
  }
}

TEST_F(Command, WhatCannotBeLookedAtExitsWithOne) {
  for (const char* name : {"check", "log dump"}) {
    const Outcome outcome = command(name + (" " + (temp_ / "nothing")));
    EXPECT_EQ(outcome.exit_code, 1) << name;
    EXPECT_THAT(outcome.out, HasSubstr(temp_ / "nothing"));
  }
  open();
  const Outcome locked = command("check " + directory_);
  EXPECT_EQ(locked.exit_code, 1);
  EXPECT_THAT(locked.out, HasSubstr("locked"));
}

TEST_F(Command, CheckOfASoundLog) {
  fill();
  const Outcome text = command("check " + directory_);
  EXPECT_EQ(text.exit_code, 0) << text.out;
  EXPECT_THAT(text.out, HasSubstr("sound"));
  EXPECT_THAT(text.out, HasSubstr("2 live tasks"));
  const Outcome object = command("check --json " + directory_);
  ASSERT_EQ(object.lines.size(), 1U);
  const json::object report = json::parse(object.lines[0]).as_object();
  EXPECT_TRUE(report.at("ok").as_bool());
  EXPECT_EQ(report.at("live"), json::value(2));
  EXPECT_EQ(report.at("clean_stop"), json::value(true));
  EXPECT_TRUE(report.at("problems").as_array().empty());
}

TEST_F(Command, CheckOfADamagedLogExitsWithThreeAndNamesThePlace) {
  fill();
  const std::string log = directory_ + "/" + files_in(directory_, ".log").back();
  flip_byte(log, used_bytes(log) / 2);
  const Outcome text = command("check " + directory_);
  EXPECT_EQ(text.exit_code, 3) << text.out;
  EXPECT_THAT(text.out, HasSubstr("DAMAGED"));
  EXPECT_THAT(text.out, HasSubstr(fs::path(log).filename().string()));
  EXPECT_THAT(text.out, HasSubstr("offset"));
  const json::object report =
      json::parse(command("check --json " + directory_).lines[0]).as_object();
  EXPECT_FALSE(report.at("ok").as_bool());
  const json::object problem = report.at("problems").as_array().at(0).as_object();
  EXPECT_EQ(problem.at("code").as_string(), "corrupt");
  EXPECT_THAT(std::string(problem.at("file").as_string()),
              HasSubstr(fs::path(log).filename().string()));
  EXPECT_EQ(command("log dump " + directory_).exit_code, 3);
}

TEST_F(Command, DumpPrintsALineForEachOperation) {
  fill();
  const Outcome dump = command("log dump " + directory_);
  EXPECT_EQ(dump.exit_code, 0) << dump.out;
  for (const char* word : {"type", "schedule", "cancel", "retry"}) {
    EXPECT_THAT(dump.out, HasSubstr(word));
  }
  EXPECT_THAT(dump.out, HasSubstr("tab\\x09nul\\x00end"));
  EXPECT_THAT(dump.out, HasSubstr("no \\\"connection\\\""));
  EXPECT_THAT(dump.out, HasSubstr("2026-01-05T11:00:00.000000000Z"));
  EXPECT_THAT(dump.out, HasSubstr(std::string(61, 'k') + "..."));
  EXPECT_THAT(dump.out, Not(HasSubstr(std::string(65, 'k'))));
  EXPECT_THAT(dump.out, HasSubstr("payload 6 B"));
  EXPECT_THAT(dump.out, Not(HasSubstr("secret")));
  EXPECT_THAT(command("log dump --payload " + directory_).out, HasSubstr("736563726574"));
}

TEST_F(Command, DumpCanBeNarrowed) {
  fill();
  const std::size_t all = command("log dump " + directory_).lines.size();
  ASSERT_GE(all, 6U);
  EXPECT_EQ(command("log dump --limit 2 " + directory_).lines.size(), 2U);
  EXPECT_EQ(command("log dump --limit 0 " + directory_).lines.size(), 0U);
  EXPECT_EQ(command("log dump --from 3 " + directory_).lines.size(), all - 2);
  char id[32];
  std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(plain_.value));
  const Outcome one = command("log dump --id " + std::string(id) + " " + directory_);
  ASSERT_EQ(one.lines.size(), 1U) << one.out;
  EXPECT_THAT(one.out, HasSubstr("schedule"));
}

TEST_F(Command, DumpAsJsonIsOneObjectALine) {
  fill();
  const Outcome dump = command("log dump --json --payload --commits " + directory_);
  ASSERT_EQ(dump.exit_code, 0) << dump.out;
  std::size_t operations = 0;
  std::int64_t last_lsn = 0;
  for (const std::string& line : dump.lines) {
    const json::object object = json::parse(line).as_object();
    if (!object.contains("op")) {
      EXPECT_TRUE(object.contains("group_commit"));
      continue;
    }
    ++operations;
    EXPECT_GT(object.at("lsn").to_number<std::int64_t>(), last_lsn);
    last_lsn = object.at("lsn").to_number<std::int64_t>();
  }
  EXPECT_EQ(operations, command("log dump " + directory_).lines.size());
}

// Beside a log that has tables of the application, whose names the command does not know, and whose
// writes stand between and behind ours.
TEST_F(Command, CheckAndDumpOfALogWithTablesOfTheApplication) {
  options_.wal.app_column_families = {{"orders"}};
  open();
  const AppDatabase& data = *engine_->app_database();
  for (int i = 0; i < 100; ++i) {
    const std::string key = std::to_string(i);
    rocksdb::WriteBatch batch;
    ASSERT_TRUE(batch.Put(data.family("orders"), key, std::string(500, 'r')).ok());
    ASSERT_TRUE(
        engine_
            ->schedule({.type = "work", .deadline = after(hours(1)), .key = key}, writes_of(batch))
            .ok());
    ASSERT_TRUE(data.db().Put({}, data.family("orders"), "own", key).ok());
  }
  const std::string killed = temp_ / "killed";
  copy_directory(directory_, killed);
  ASSERT_TRUE(engine_->stop().ok());
  engine_.reset();
  for (const std::string& directory : {directory_, killed}) {
    const Outcome sound = command("check " + directory);
    EXPECT_EQ(sound.exit_code, 0) << sound.out;
    EXPECT_THAT(sound.out, HasSubstr("100 live tasks"));
    const Outcome dump = command("log dump " + directory);
    EXPECT_EQ(dump.exit_code, 0) << dump.out;
    EXPECT_THAT(dump.out, HasSubstr("payload"));
    EXPECT_THAT(dump.out, Not(HasSubstr("rrrr")));
  }
}

TEST_F(Command, LookingChangesNothing) {
  fill();
  const std::vector<std::string> before = files_in(directory_);
  EXPECT_EQ(command("check " + directory_).exit_code, 0);
  EXPECT_EQ(command("log dump " + directory_).exit_code, 0);
  EXPECT_EQ(files_in(directory_), before);
  open();
  EXPECT_EQ(report_.live, 2U);
  EXPECT_TRUE(report_.clean_stop);
}

}  // namespace
}  // namespace countwheel::testing
