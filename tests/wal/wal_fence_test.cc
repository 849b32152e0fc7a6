// The fence: it knows what was acknowledged, and when it does not know, it binds nobody.
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "testing/directory.h"
#include "wal/fence.h"

namespace countwheel::wal {
namespace {

using testing::TempDirectory;

StoreUuid store_named(std::uint8_t byte) {
  StoreUuid store;
  store.fill(byte);
  return store;
}

const StoreUuid kOurs = store_named(1);
const StoreUuid kAnother = store_named(2);

// Opens the fence of a directory once more, as a restart does.
class Restart {
 public:
  explicit Restart(const std::string& path, const std::string& boot_id = "first boot")
      : directory_(std::move(*DataDir::open(path, Access::kCreate))),
        fence_(std::move(*Fence::open(*directory_, boot_id))) {}
  Fence* operator->() { return &fence_; }

 private:
  std::unique_ptr<DataDir> directory_;
  Fence fence_;
};

TEST(Fence, RemembersWhatWasSyncedAndWhatWasWritten) {
  TempDirectory temp;
  {
    Restart fence(temp / "log");
    EXPECT_EQ(fence->disk(nullptr).sequence, 0U);
    fence->begin(kOurs, {5, 50});
    fence->store_os({6, 60});
    fence->store_disk({6, 60});
    fence->store_os({7, 70});
  }
  Restart fence(temp / "log");
  EXPECT_EQ(fence->disk(&kOurs).sequence, 6U);
  EXPECT_EQ(fence->disk(&kOurs).lsn, 60U);
  EXPECT_EQ(fence->os(&kOurs).sequence, 7U);
  EXPECT_EQ(fence->os(&kOurs).lsn, 70U);
}

TEST(Fence, WhatWasOnlyWrittenBindsWhileTheMachineRuns) {
  TempDirectory temp;
  {
    Restart fence(temp / "log");
    fence->begin(kOurs, {5, 50});
    fence->store_os({9, 90});
  }
  {
    Restart fence(temp / "log", "second boot");
    EXPECT_EQ(fence->disk(&kOurs).sequence, 5U);
    EXPECT_EQ(fence->os(&kOurs).sequence, 0U);
  }
  Restart fence(temp / "log");
  EXPECT_EQ(fence->os(&kOurs).sequence, 9U);
}

TEST(Fence, OfAnotherLogBindsNobodyAndALogWithoutIdentityIsBoundByAny) {
  TempDirectory temp;
  {
    Restart fence(temp / "log");
    fence->begin(kOurs, {5, 50});
  }
  Restart fence(temp / "log");
  EXPECT_EQ(fence->disk(&kAnother).sequence, 0U);
  EXPECT_EQ(fence->disk(nullptr).sequence, 5U);
  fence->begin(kAnother, {1, 1});
  EXPECT_EQ(fence->disk(&kAnother).sequence, 1U);
  EXPECT_EQ(fence->disk(&kOurs).sequence, 0U);
}

TEST(Fence, MissingShortOrZeroIsNoBound) {
  TempDirectory temp;
  const std::string file = temp / "log/countwheel.fence";
  { Restart fence(temp / "log"); }
  for (const std::uintmax_t size : {0U, 1U, 64U, 4096U}) {
    std::ofstream(file, std::ios::trunc | std::ios::binary) << std::string(size, '\0');
    Restart fence(temp / "log");
    EXPECT_EQ(fence->disk(nullptr).sequence, 0U);
    EXPECT_EQ(fence->os(nullptr).sequence, 0U);
  }
}

TEST(Fence, AnyPageBindsToWhatWasStoredOrToNothing) {
  // A page is written to disk at any moment, and a power failure may keep parts of two versions.
  TempDirectory temp;
  {
    Restart fence(temp / "log");
    fence->begin(kOurs, {5, 50});
    fence->store_disk({6, 60});
    fence->store_disk({7, 70});
  }
  const std::string file = temp / "log/countwheel.fence";
  std::string page(4096, '\0');
  std::ifstream(file, std::ios::binary).read(page.data(), 4096);
  std::mt19937_64 random(testing::seed_from_environment(3));
  for (int round = 0; round < 300; ++round) {
    std::string damaged = page;
    const std::size_t begin = random() % 256;
    const std::size_t count = 1 + random() % 64;
    for (std::size_t i = begin; i < begin + count; ++i) {
      damaged[i] = round % 2 == 0 ? '\0' : static_cast<char>(random());
    }
    std::ofstream(file, std::ios::trunc | std::ios::binary) << damaged;
    Restart fence(temp / "log");
    const FenceMark mark = fence->disk(&kOurs);
    ASSERT_TRUE(mark.sequence == 0 || (mark.sequence >= 5 && mark.sequence <= 7));
    ASSERT_EQ(mark.lsn, mark.sequence * 10);
  }
}

TEST(Fence, AMarkThatWasBeingWrittenLeavesTheOneBefore) {
  TempDirectory temp;
  const std::string file = temp / "log/countwheel.fence";
  {
    Restart fence(temp / "log");
    fence->begin(kOurs, {5, 50});
    fence->store_disk({6, 60});
  }
  // The copy of 6 is the one that was written last: cut it in the middle.
  std::string page(4096, '\0');
  std::ifstream(file, std::ios::binary).read(page.data(), 4096);
  const std::size_t place = page.find(std::string("\x06\0\0\0\0\0\0\0", 8));
  ASSERT_NE(place, std::string::npos);
  page[place + 8] = '\x7f';
  std::ofstream(file, std::ios::trunc | std::ios::binary) << page;
  Restart fence(temp / "log");
  EXPECT_EQ(fence->disk(&kOurs).sequence, 5U);
}

TEST(Fence, TheKernelNamesThisStartOfTheMachine) {
  EXPECT_EQ(kernel_boot_id(), kernel_boot_id());
  EXPECT_GE(kernel_boot_id().size(), 36U);
}

}  // namespace
}  // namespace countwheel::wal
