// Directories for tests: a temporary one, and what a crash leaves of one.
#ifndef COUNTWHEEL_TESTS_TESTING_DIRECTORY_H_
#define COUNTWHEEL_TESTS_TESTING_DIRECTORY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace countwheel::testing {

// A directory below the system's temporary one, removed with all that is in it.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const noexcept { return path_; }
  // `name` inside it; nothing is made.
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Copies `source` to `target` as kill -9 of its owner would leave it: every write that has
// returned, mapped files included. Modes are kept. Starts over when a file came, went or grew
// meanwhile: a copy of two moments is no crash.
void copy_directory(const std::string& source, const std::string& target);

// The files below `directory`, relative to it and sorted, whose name ends in `suffix`.
std::vector<std::string> files_in(const std::string& directory, const std::string& suffix = {});

// Inverts the bits of `mask` in one byte.
void flip_byte(const std::string& file, std::uint64_t offset, unsigned char mask = 0xff);

// The size without what was preallocated behind the last byte that is not zero.
std::uint64_t used_bytes(const std::string& file);

// The value of COUNTWHEEL_SEED, or `fallback`; printed, so that a failure can be repeated.
std::uint64_t seed_from_environment(std::uint64_t fallback);

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_DIRECTORY_H_
