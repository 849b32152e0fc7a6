// kill -9 of a real process, 200 times: a child opens the log, works on it with threads, and is
// killed at a random moment; the next one opens what is left. What was promised is kept in memory
// that both processes map. This proves `os` and `disk` against the end of a process; it proves
// nothing about the end of power (power_cut_test.cc).
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <new>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include <countwheel/recovery.h>

#include "testing/directory.h"
#include "testing/truth.h"
#include "testing/workload.h"

namespace countwheel::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Truth* map_truth(int descriptor) {
  void* const memory =
      ::mmap(nullptr, sizeof(Truth), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<Truth*>(memory);
}

// The life of one child: until it is killed, or until nothing is pending when `to_the_end`.
int child(const std::string& directory, int descriptor, std::uint64_t seed, bool to_the_end) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Truth* const truth = map_truth(descriptor);
  if (truth == nullptr) {
    return 1;
  }
  OpenOptions options;
  // Small, so that files are switched, dropped and the cleaner runs.
  options.wal.memtable_bytes = 256 << 10;
  options.wal.min_log_bytes = 256 << 10;
  options.wal.attempt_cells = 256;
  Result<Opened> opened = countwheel::open(directory, options);
  if (!opened.ok()) {
    truth->violation("open: " + opened.status().text());
    return 1;
  }
  Engine& engine = *opened->engine;
  ++truth->recoveries;
  truth->redelivered += static_cast<std::uint32_t>(opened->report.redelivered);
  truth->torn += opened->report.torn_bytes > 0 ? 1 : 0;
  const std::vector<TruthState> states = snapshot(*truth);
  verify_and_resync(engine, states, states, level_of(Durability::kOs), truth);
  Workload workload(engine, *truth);
  if (const Status status = engine.start(); !status.ok()) {
    truth->violation("start: " + status.text());
    return 1;
  }
  if (to_the_end) {
    if (!drain(engine, workload, 60)) {
      truth->violation("not at rest: " + std::to_string(engine.stats().pending) + " pending");
    }
    return engine.stop().ok() ? 0 : 1;
  }
  workload.drive({Durability::kDisk, Durability::kOs, Durability::kMemory}, seed);
  ++truth->ready;
  for (;;) {
    workload.sweep();
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
}

class Kill9 : public ::testing::Test {
 protected:
  Kill9() : descriptor_(::memfd_create("truth", 0)) {
    EXPECT_EQ(::ftruncate(descriptor_, sizeof(Truth)), 0);
    truth_ = map_truth(descriptor_);
  }
  ~Kill9() override {
    ::munmap(truth_, sizeof(Truth));
    ::close(descriptor_);
  }

  pid_t start(std::uint64_t seed, bool to_the_end) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      const std::string fd = std::to_string(descriptor_);
      const std::string seed_text = std::to_string(seed);
      ::execl("/proc/self/exe",
              "kill9_test",
              "--child",
              (temp_ / "log").c_str(),
              fd.c_str(),
              seed_text.c_str(),
              to_the_end ? "end" : "work",
              nullptr);
      std::_Exit(127);
    }
    return pid;
  }

  // Until the child works; false when it ended instead.
  bool wait_ready(pid_t pid, std::uint32_t ready) {
    const steady_clock::time_point until = steady_clock::now() + std::chrono::seconds(60);
    while (truth_->ready < ready && steady_clock::now() < until) {
      if (::waitpid(pid, nullptr, WNOHANG) == pid) {
        return false;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return truth_->ready >= ready;
  }

  // One log with one truth: kills until there were `wanted` in all or the truth has no room for
  // more, then everything that is owed runs.
  void kill_until_full(int wanted, std::mt19937_64& random, int* kills) {
    std::uint32_t here = 0;
    for (; *kills < wanted && truth_->size() < Truth::kCapacity / 2; ++*kills) {
      const pid_t pid = start(random(), /*to_the_end=*/false);
      ASSERT_TRUE(wait_ready(pid, ++here)) << "cycle " << *kills << "\n"
                                           << truth_->violations.data();
      std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 25'000));
      ASSERT_EQ(::kill(pid, SIGKILL), 0);
      ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
      ASSERT_EQ(truth_->violation_count, 0U) << "cycle " << *kills << "\n"
                                             << truth_->violations.data();
    }
    const pid_t last = start(random(), /*to_the_end=*/true);
    int status = 0;
    ASSERT_EQ(::waitpid(last, &status, 0), last);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    verify_at_rest(truth_);
    EXPECT_EQ(truth_->violation_count, 0U) << truth_->violations.data();
    EXPECT_EQ(truth_->recoveries, here + 1);
  }

  // Makes room for another log with another truth.
  void forget() {
    std::filesystem::remove_all(temp_ / "log");
    ASSERT_EQ(::ftruncate(descriptor_, 0), 0);  // and with it the old truth
    ASSERT_EQ(::ftruncate(descriptor_, sizeof(Truth)), 0);
  }

  TempDirectory temp_;
  int descriptor_;
  Truth* truth_ = nullptr;
};

int kills_wanted() {
  const char* const seconds = std::getenv("COUNTWHEEL_SOAK_SECONDS");
  return seconds == nullptr ? 200 : std::max(200, std::atoi(seconds) * 15);
}

TEST_F(Kill9, B40_NothingAcknowledgedIsLostAndNothingCancelledComesBack) {
  std::mt19937_64 random(seed_from_environment(9));
  const int wanted = kills_wanted();
  int kills = 0;
  unsigned long long tasks = 0;
  unsigned long long redelivered = 0;
  unsigned long long torn = 0;
  while (kills < wanted) {
    const int before = kills;
    kill_until_full(wanted, random, &kills);
    if (HasFatalFailure()) {
      return;
    }
    ASSERT_GT(kills, before);
    tasks += truth_->size();
    redelivered += truth_->redelivered;
    torn += truth_->torn;
    forget();
  }
  EXPECT_GT(redelivered, 0U);  // some were killed in a handler
  std::printf(
      "%d kills, %llu tasks, %llu redelivered, %llu torn tails\n", kills, tasks, redelivered, torn);
}

}  // namespace

int run_child(char** argv) {
  return child(argv[2],
               std::atoi(argv[3]),
               std::strtoull(argv[4], nullptr, 10),
               std::string(argv[5]) == "end");
}

}  // namespace countwheel::testing

int main(int argc, char** argv) {
  if (argc == 6 && std::string(argv[1]) == "--child") {
    return countwheel::testing::run_child(argv);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
