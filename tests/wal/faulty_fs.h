// FaultyFs: a file system whose writes and fsyncs fail when a test says so.
#ifndef COUNTWHEEL_TESTS_WAL_FAULTY_FS_H_
#define COUNTWHEEL_TESTS_WAL_FAULTY_FS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

namespace countwheel::testing {

enum class Fault : std::uint8_t { kNone, kNoSpace, kInputOutput };

// Thread contract: any thread. Faults hit log files (names ending in .log) unless said otherwise.
class FaultyFs final : public rocksdb::FileSystemWrapper {
 public:
  FaultyFs() : rocksdb::FileSystemWrapper(rocksdb::FileSystem::Default()) {}

  // From the n-th call on (1 is the next), every such call fails.
  void fail_log_append(Fault fault, int n = 1) { append_.arm(fault, n); }
  // What a full disk answers before anything is written.
  void fail_log_reserve(Fault fault, int n = 1) { reserve_.arm(fault, n); }
  void fail_log_sync(Fault fault, int n = 1) { sync_.arm(fault, n); }
  void fail_table_append(Fault fault, int n = 1) { table_append_.arm(fault, n); }
  void fail_table_read(Fault fault, int n = 1) { table_read_.arm(fault, n); }
  // Of an append that fails, so many bytes are written all the same.
  void tear_failed_append(std::uint64_t bytes) { torn_bytes_.store(bytes); }
  // What is synced is not waited for: tests of damage need the order of writes, not the disk.
  void skip_syncs() { skip_syncs_.store(true); }

  std::uint64_t log_sync_count() const { return log_sync_count_.load(); }

  const char* Name() const override { return "FaultyFs"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name,
                                    const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                        rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& name,
                                 const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* result,
                                 rocksdb::IODebugContext* debug) override;

 private:
  class Trigger {
   public:
    void arm(Fault fault, int n) {
      left_.store(n);
      fault_.store(fault);
    }
    rocksdb::IOStatus fire();

   private:
    std::atomic<Fault> fault_{Fault::kNone};
    std::atomic<int> left_{0};
  };
  class File;
  class Table;
  class Directory;

  Trigger append_;
  Trigger reserve_;
  Trigger sync_;
  Trigger table_append_;
  Trigger table_read_;
  std::atomic<std::uint64_t> torn_bytes_{0};
  std::atomic<bool> skip_syncs_{false};
  std::atomic<std::uint64_t> log_sync_count_{0};
};

// An Env on such a file system, and the file system itself to arm.
struct FaultyEnv {
  FaultyEnv() : files(std::make_shared<FaultyFs>()), env(rocksdb::NewCompositeEnv(files)) {}
  std::shared_ptr<FaultyFs> files;
  std::unique_ptr<rocksdb::Env> env;
};

// One for all tests that only want fast syncs.
rocksdb::Env* env_without_syncs();

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_WAL_FAULTY_FS_H_
