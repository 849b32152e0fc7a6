// The directory of a log: who may have it, what it looks like to others, and what is said when the
// machine does not give what is needed.
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "testing/directory.h"
#include "wal/log_writer.h"

namespace countwheel {
namespace {

using testing::LogContent;
using testing::LogWriter;
using testing::small_options;
using testing::TempDirectory;

Status open_once(const std::string& directory) {
  return Log::open(directory, small_options()).status();
}

mode_t mode_of(const std::string& path) {
  struct stat facts {};
  EXPECT_EQ(::lstat(path.c_str(), &facts), 0) << path;
  return facts.st_mode & 07777U;
}

// Runs `body` in a forked child that never returns to the test; answers its exit code.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(DataDirectory, NothingInItIsForOthers) {
  TempDirectory temp;
  const mode_t umask_before = ::umask(0);  // a program that lets everybody in
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(writer.commit(100, 1000).text(), "ok");  // enough for tables and a second log file
  }
  writer.close();
  ASSERT_EQ(writer.open().text(), "ok");
  ::umask(umask_before);
  EXPECT_EQ(mode_of(temp / "log"), 0700U);
  const std::vector<std::string> files = testing::files_in(temp / "log");
  EXPECT_GE(files.size(), 8U);
  for (const std::string& name : files) {
    EXPECT_EQ(mode_of(temp / "log/" + name), 0600U) << name;
  }
}

TEST(DataDirectory, AUmaskThatTakesEverythingAwayStillLeavesItToUs) {
  TempDirectory temp;
  const mode_t umask_before = ::umask(0777);
  const Status status = open_once(temp / "log");
  ::umask(umask_before);
  EXPECT_EQ(status.text(), "ok");
  EXPECT_EQ(mode_of(temp / "log"), 0700U);
}

TEST(DataDirectory, OneThatOthersCouldReadIsRefused) {
  TempDirectory temp;
  for (const mode_t mode : {0755U, 0710U, 0701U, 0770U}) {
    const std::string path = temp / std::to_string(mode);
    ASSERT_EQ(::mkdir(path.c_str(), 0700), 0);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const Status status = open_once(path);
    EXPECT_EQ(status.code(), Code::kInsecureDir);
    EXPECT_NE(status.text().find(path + ": mode 0"), std::string::npos) << status.text();
    EXPECT_TRUE(testing::files_in(path).empty());
  }
}

TEST(DataDirectory, OneOfAnotherUserIsRefused) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a directory of another user";
  }
  TempDirectory temp;
  ASSERT_EQ(::mkdir((temp / "log").c_str(), 0700), 0);
  ASSERT_EQ(::chown((temp / "log").c_str(), 65534, 65534), 0);
  EXPECT_EQ(open_once(temp / "log").code(), Code::kInsecureDir);
}

TEST(DataDirectory, PathsThatAreNone) {
  TempDirectory temp;
  std::ofstream(temp / "file") << "x";
  EXPECT_EQ(open_once("").code(), Code::kInvalidArgument);
  EXPECT_EQ(open_once(std::string("a\0b", 3)).code(), Code::kInvalidArgument);
  const Status file = open_once(temp / "file");
  EXPECT_EQ(file.code(), Code::kNotADirectory);
  EXPECT_NE(file.text().find(temp / "file"), std::string::npos) << file.text();
  EXPECT_EQ(open_once(temp / "missing/log").code(), Code::kNotADirectory);
  EXPECT_EQ(open_once(temp / std::string(300, 'n')).code(), Code::kInvalidArgument);
  std::filesystem::create_symlink(temp / "nowhere", temp / "dangling");
  EXPECT_EQ(open_once(temp / "dangling").code(), Code::kNotADirectory);
}

TEST(DataDirectory, OneWithoutPermissionSaysSo) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root to become somebody else";
  }
  TempDirectory temp;
  ASSERT_EQ(::chmod(temp.path().c_str(), 0755), 0);
  const std::string path = temp / "log";
  const int code = in_child([&path] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) {
      return 99;
    }
    return static_cast<int>(open_once(path).code());
  });
  EXPECT_EQ(code, static_cast<int>(Code::kPermission));
}

TEST(DataDirectory, TheLockIsNotALinkToSomewhereElse) {
  TempDirectory temp;
  ASSERT_EQ(::mkdir((temp / "log").c_str(), 0700), 0);
  std::ofstream(temp / "precious") << "keep me";
  std::filesystem::create_symlink(temp / "precious", temp / "log/countwheel.lock");
  EXPECT_EQ(open_once(temp / "log").code(), Code::kNotADirectory);
  std::string text;
  std::getline(std::ifstream(temp / "precious"), text);
  EXPECT_EQ(text, "keep me");
}

TEST(DataDirectory, ASecondOpenThroughALinkIsLocked) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  std::filesystem::create_directory_symlink(temp / "log", temp / "alias");
  EXPECT_EQ(open_once(temp / "alias").code(), Code::kLocked);
  EXPECT_EQ(open_once(temp / "alias/").code(), Code::kLocked);
  EXPECT_EQ(open_once(temp / "log/../alias/.").code(), Code::kLocked);
  ASSERT_EQ(writer.commit(1, 1).text(), "ok");
  writer.close();
  LogWriter through_alias(temp / "alias");
  ASSERT_EQ(through_alias.open().text(), "ok");
  EXPECT_EQ(through_alias.facts().path, std::filesystem::canonical(temp / "log").string());
  EXPECT_EQ(through_alias.content().scheduled.size(), 1U);
}

// Not a test of its own: the other process of B63, this program started again.
TEST(Helper, OwnsADirectoryUntilItIsKilled) {
  const char* path = std::getenv("COUNTWHEEL_TEST_OWNED");
  if (path == nullptr) {
    GTEST_SKIP() << "started by B63_TwoOwnersOfOneStore";
  }
  LogWriter writer(path);
  ASSERT_EQ(writer.open().text(), "ok");
  ASSERT_EQ(writer.commit(5, 5).text(), "ok");
  EXPECT_EQ(open_once(path).code(), Code::kLocked);
  ASSERT_EQ(writer.commit(5, 5).text(), "ok");
  ASSERT_EQ(::write(STDOUT_FILENO, "#", 1), 1);
  ::pause();
}

TEST(WalCases, B63_TwoOwnersOfOneStore) {
  // Second open fails at once with `locked (pid)`; the first continues; after SIGKILL of the first
  // the second succeeds. From a second process, and twice in one (the helper tries).
  TempDirectory temp;
  const std::string path = temp / "log";
  int output[2];
  ASSERT_EQ(::pipe(output), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    ::dup2(output[1], STDOUT_FILENO);
    ::setenv("COUNTWHEEL_TEST_OWNED", path.c_str(), 1);
    ::execl("/proc/self/exe", "owner", "--gtest_filter=Helper.*", nullptr);
    ::_exit(1);
  }
  ::close(output[1]);
  char byte = 0;
  while (byte != '#') {
    ASSERT_EQ(::read(output[0], &byte, 1), 1) << "the owner has ended";
  }
  const Status locked = open_once(path);
  EXPECT_EQ(locked.code(), Code::kLocked);
  EXPECT_NE(locked.text().find("pid " + std::to_string(owner) + " has it open"), std::string::npos)
      << locked.text();
  // Asking once more, and looking, does not take the name away from the one who has it.
  LogContent content;
  EXPECT_EQ(testing::read_directory(path, &content).text(), locked.text());
  ASSERT_EQ(::kill(owner, SIGKILL), 0);
  ASSERT_EQ(::waitpid(owner, nullptr, 0), owner);
  ::close(output[0]);
  ASSERT_EQ(testing::restart(path, &content).text(), "ok");
  EXPECT_EQ(content.scheduled.size(), 10U);
}

TEST(DataDirectory, SomeoneWhoOnlyLooksKeepsWritersOutAndLetsOthersLook) {
  TempDirectory temp;
  ASSERT_EQ(open_once(temp / "log").text(), "ok");
  const Result<std::unique_ptr<Log>> first = Log::open_read_only(temp / "log", small_options());
  const Result<std::unique_ptr<Log>> second = Log::open_read_only(temp / "log", small_options());
  EXPECT_EQ(first.status().text(), "ok");
  EXPECT_EQ(second.status().text(), "ok");
  EXPECT_EQ(open_once(temp / "log").code(), Code::kLocked);
}

TEST(Fork, TheChildMayNotWriteAndTheParentLosesNothing) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  ASSERT_EQ(writer.commit(3, 3).text(), "ok");
  const int code = in_child([&writer] {
    const Code append = writer.commit(1, 1).code();
    const Code recover = writer.journal().recover().code();
    CleanRequest request;
    const bool cleans = writer.journal().next_to_clean(0, &request);
    writer.close();  // closes nothing that is the parent's
    return append == Code::kForked && recover == Code::kForked && !cleans ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
  ASSERT_EQ(writer.commit(3, 3).text(), "ok");
  EXPECT_EQ(open_once(temp / "log").code(), Code::kLocked);
  writer.close();
  LogContent content;
  ASSERT_EQ(testing::restart(temp / "log", &content).text(), "ok");
  EXPECT_EQ(content.scheduled, writer.acknowledged());
}

TEST(Fork, AChildThatLivesOnDoesNotKeepTheLock) {
  TempDirectory temp;
  LogWriter writer(temp / "log");
  ASSERT_EQ(writer.open().text(), "ok");
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
  }
  writer.close();
  EXPECT_EQ(open_once(temp / "log").text(), "ok");
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(Fork, AChildOfAProcessThatHadALogMayNotOpenOne) {
  TempDirectory temp;
  ASSERT_EQ(open_once(temp / "log").text(), "ok");  // and closed again
  const std::string path = temp / "child";
  // RocksDB would wait for ever for threads that are in the parent.
  EXPECT_EQ(in_child([&path] { return static_cast<int>(open_once(path).code()); }),
            static_cast<int>(Code::kForked));
}

TEST(DescriptorLimit, TooFewAreRefusedAtOpenAndNotLater) {
  TempDirectory temp;
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  for (const rlim_t limit : {10U, 16U, 24U, 60U}) {
    struct rlimit low = before;
    low.rlim_cur = limit;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    const Status status = open_once(temp / "log");
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(status.code(), Code::kResource) << limit;
    EXPECT_NE(status.text().find("RLIMIT_NOFILE is " + std::to_string(limit)), std::string::npos)
        << status.text();
  }
  EXPECT_EQ(open_once(temp / "log").text(), "ok");
}

}  // namespace
}  // namespace countwheel
