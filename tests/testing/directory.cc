#include "testing/directory.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <thread>

#include <countwheel/assert.h>

namespace countwheel::testing {
namespace fs = std::filesystem;

namespace {

std::map<std::string, std::uint64_t> sizes_in(const std::string& directory) {
  std::map<std::string, std::uint64_t> sizes;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    sizes[entry->path().string()] = entry->is_regular_file(gone) ? entry->file_size(gone) : 0;
  }
  return sizes;
}

bool copy_once(const std::string& source, const std::string& target) {
  std::error_code error;
  fs::copy(source, target, fs::copy_options::recursive, error);
  if (error) {
    return false;
  }
  fs::permissions(target, fs::status(source).permissions());
  for (const auto& [name, size] : sizes_in(source)) {
    const fs::path copy = fs::path(target) / fs::path(name).lexically_relative(source);
    const fs::perms modes = fs::status(name, error).permissions();
    if (!error && fs::exists(copy)) {
      fs::permissions(copy, modes, error);
    }
  }
  return !error;
}

}  // namespace

TempDirectory::TempDirectory() {
  std::string pattern = (fs::temp_directory_path() / "countwheel-test-XXXXXX").string();
  COUNTWHEEL_ASSERT(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void copy_directory(const std::string& source, const std::string& target) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::map<std::string, std::uint64_t> before = sizes_in(source);
    if (copy_once(source, target) && sizes_in(source) == before) {
      return;
    }
    fs::remove_all(target);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  COUNTWHEEL_ASSERT(!"the directory keeps changing");
}

std::vector<std::string> files_in(const std::string& directory, const std::string& suffix) {
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.is_regular_file() && entry.path().string().ends_with(suffix)) {
      files.push_back(entry.path().lexically_relative(directory).string());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void flip_byte(const std::string& file, std::uint64_t offset, unsigned char mask) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(static_cast<std::streamoff>(offset));
  const int byte = stream.get();
  COUNTWHEEL_ASSERT(byte != EOF);
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.put(static_cast<char>(static_cast<unsigned char>(byte) ^ mask));
  stream.flush();
  COUNTWHEEL_ASSERT(stream.good());
}

std::uint64_t used_bytes(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::size_t last = bytes.find_last_not_of('\0');
  return last == std::string::npos ? 0 : last + 1;
}

std::uint64_t seed_from_environment(std::uint64_t fallback) {
  const char* text = std::getenv("COUNTWHEEL_SEED");
  const std::uint64_t seed = text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
  std::printf("COUNTWHEEL_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace countwheel::testing
