// Runs the countwheel command as a user would, and keeps what it prints.
#ifndef COUNTWHEEL_TESTS_DRILL_COMMAND_H_
#define COUNTWHEEL_TESTS_DRILL_COMMAND_H_

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace countwheel::drill {

struct CommandResult {
  int exit_code = -1;
  std::string output;  // standard output

  // The object it printed; fails the test when it is none.
  boost::json::object json() const {
    boost::system::error_code error;
    boost::json::value value = boost::json::parse(output, error);
    if (error || !value.is_object()) {
      ADD_FAILURE() << "not a JSON object: " << output;
      return {};
    }
    return value.as_object();
  }
};

// `arguments` pass through the shell. The path of the command is in COUNTWHEEL_COMMAND.
inline CommandResult run_command(const std::string& arguments) {
  CommandResult result;
  const char* command = std::getenv("COUNTWHEEL_COMMAND");
  if (command == nullptr) {
    ADD_FAILURE() << "COUNTWHEEL_COMMAND names no command";
    return result;
  }
  std::FILE* pipe = popen((std::string("'") + command + "' " + arguments).c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "popen";
    return result;
  }
  std::array<char, 4096> buffer;
  for (std::size_t read = fread(buffer.data(), 1, buffer.size(), pipe); read > 0;
       read = fread(buffer.data(), 1, buffer.size(), pipe)) {
    result.output.append(buffer.data(), read);
  }
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TESTS_DRILL_COMMAND_H_
