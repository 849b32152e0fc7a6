#include "peers/netty_peer.h"

#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <unistd.h>

#include "bench_engine.h"
#include "peers/live_lateness.h"

namespace countwheel::bench {
namespace {

// netty-all.jar of Debian is empty; the timer is in netty-common.jar beside it.
constexpr const char* kMarkerJar = "/usr/share/java/netty-all.jar";
constexpr const char* kJar = "/usr/share/java/netty-common.jar";

bool is_in_path(const std::string& program) {
  std::istringstream directories(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  std::string directory;
  while (std::getline(directories, directory, ':')) {
    if (access((directory + "/" + program).c_str(), X_OK) == 0) {
      return true;
    }
  }
  return false;
}

std::string quoted(const std::string& text) {
  return "'" + text + "'";
}

// Compiles and runs the program; every line `name value` of its output becomes a counter.
void run_java(benchmark::State& state, const std::string& arguments) {
  const Directory directory;
  const std::string classes = directory.path();
  const std::string command = "javac -nowarn -cp " + quoted(kJar) + " -d " + quoted(classes) + " " +
                              quoted(COUNTWHEEL_NETTY_SOURCE) + " && exec java -Xms2g -Xmx8g -cp " +
                              quoted(classes + ":" + kJar) + " NettyTimers " + arguments +
                              " 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(command.c_str(), "r"), pclose);
  char name[64];
  double value = 0;
  bool found = false;
  while (output != nullptr && std::fscanf(output.get(), "%63s %lf", name, &value) == 2) {
    state.counters[name] = value;
    found = found || std::string(name) == "value";
  }
  state.SetIterationTime(1.0);
  if (!found) {
    state.SkipWithError("the Java program gave no figure");
  }
}

}  // namespace

std::string netty_missing() {
  if (!is_in_path("java") || !is_in_path("javac")) {
    return "java and javac are not installed";
  }
  if (access(kMarkerJar, R_OK) != 0 || access(kJar, R_OK) != 0) {
    return "libnetty-java is not installed";
  }
  return "";
}

void register_netty_rows() {
  for (const std::string row : {"schedule", "cancel", "reschedule"}) {
    for (const auto& [text, count] : {std::pair{"10k", "10000"}, {"1m", "1000000"}}) {
      const std::string name = "wheel." + row + "." + text + "/netty";
      const std::string arguments = row + " " + count;
      add_live_row(name.c_str(), [=](benchmark::State& state) { run_java(state, arguments); });
    }
  }
  for (const auto& [name, arguments] :
       {std::pair{"engine.lateness.tick.10k/netty", "lateness 30000"},
        {"engine.idle_cpu.10ms/netty", "idle 1000000"}}) {
    add_live_row(name, [=](benchmark::State& state) { run_java(state, arguments); });
  }
}

}  // namespace countwheel::bench
