// PowerCutFs: a file system that remembers what a power failure would leave.
//
// It writes through to a real directory and keeps, for every file RocksDB makes, how many bytes
// were fsynced, and for every directory, which of its entries were. cut() then builds the image of
// a machine whose power failed at that moment in another directory:
//   files    the fsynced bytes, then nothing, a part of what was written behind them, or as many
//            zeroes or random bytes
//   entries  those of fsynced directories, then a prefix of the later creations, renames, deletions
//   mapped files (the fence, the attempt cells), which no file system sees being written: each page
//            has any content it had before, or is zero, or the file is missing
// The cut is taken under a gate shared with all calls that change something: a copy taken beside a
// running flush would lose what no power failure can.
//
// Instead of cut() a test may ask for the end of the machine, or of the process alone, at a certain
// change of a file: crash_at(). The image is then taken before that change, or half way through it.
//
// A real fsync is not waited for: what it would bring is exactly what is recorded here.
#ifndef COUNTWHEEL_TESTS_TESTING_POWER_CUT_FS_H_
#define COUNTWHEEL_TESTS_TESTING_POWER_CUT_FS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <string>
#include <vector>

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

namespace countwheel::testing {

class PowerCutFs final : public rocksdb::FileSystemWrapper {
 public:
  using IOStatus = rocksdb::IOStatus;

  // `root`: the data directory; what is in it counts as fsynced. `shadow`: a directory of ours on
  // the same file system, which keeps files that are deleted while a power failure could still
  // bring them back.
  PowerCutFs(std::string root, std::string shadow);
  ~PowerCutFs() override;

  // The image of a power failure, in `image`, which must not exist: half of them now, half of them
  // between the next write of a log and its fsync, if one comes within 20 ms.
  void cut(const std::string& image, std::mt19937_64& random);

  // What ends. kProcess leaves every byte that was written, and the mapped files as they are.
  enum class End : std::uint8_t { kMachine, kProcess };
  // The n-th change of a file from now on (1 is the next) leaves the image of a crash, in `image`,
  // which must not exist. Then `note` is called, while nothing changes. Once.
  void crash_at(std::uint64_t nth,
                End end,
                std::string image,
                std::uint64_t seed,
                std::function<void()> note);
  // Leaves the image now, if no change has.
  void crash_now();
  bool crashed() const noexcept { return crashed_.load(); }

  // fsyncs of log files that have returned.
  std::uint64_t log_sync_count() const noexcept { return log_sync_count_.load(); }
  // Calls that this file system cannot model; must stay 0.
  std::uint64_t unmodelled_count() const noexcept { return unmodelled_count_.load(); }
  // Log files that began while an earlier one was not fsynced: a power failure could keep the later
  // record and lose the earlier. Must stay 0.
  std::uint64_t early_log_count() const noexcept { return early_log_count_.load(); }
  // Bytes that were written and not fsynced, over all cuts: shows that cuts cut something.
  std::uint64_t dropped_bytes() const noexcept { return dropped_bytes_.load(); }

  const char* Name() const override { return "PowerCutFs"; }
  IOStatus NewWritableFile(const std::string& name,
                           const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           rocksdb::IODebugContext* debug) override;
  IOStatus NewDirectory(const std::string& name,
                        const rocksdb::IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* result,
                        rocksdb::IODebugContext* debug) override;
  IOStatus DeleteFile(const std::string& name,
                      const rocksdb::IOOptions& options,
                      rocksdb::IODebugContext* debug) override;
  IOStatus RenameFile(const std::string& source,
                      const std::string& target,
                      const rocksdb::IOOptions& options,
                      rocksdb::IODebugContext* debug) override;
  IOStatus LinkFile(const std::string& source,
                    const std::string& target,
                    const rocksdb::IOOptions& options,
                    rocksdb::IODebugContext* debug) override;
  IOStatus Truncate(const std::string& name,
                    std::size_t size,
                    const rocksdb::IOOptions& options,
                    rocksdb::IODebugContext* debug) override;
  IOStatus ReopenWritableFile(const std::string& name,
                              const rocksdb::FileOptions& options,
                              std::unique_ptr<rocksdb::FSWritableFile>* result,
                              rocksdb::IODebugContext* debug) override;
  IOStatus ReuseWritableFile(const std::string& name,
                             const std::string& old_name,
                             const rocksdb::FileOptions& options,
                             std::unique_ptr<rocksdb::FSWritableFile>* result,
                             rocksdb::IODebugContext* debug) override;
  IOStatus NewRandomRWFile(const std::string& name,
                           const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSRandomRWFile>* result,
                           rocksdb::IODebugContext* debug) override;

 private:
  class File;
  class Directory;

  // A file apart from its names; its bytes are also reachable as shadow/<number>.
  struct Inode {
    std::uint64_t number = 0;
    bool is_log = false;
    std::atomic<std::uint64_t> written_bytes{0};
    std::atomic<std::uint64_t> synced_bytes{0};
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;  // by full path

  // A change of a directory that its fsync has not covered yet: `name` stands for `inode`, or for
  // nothing. A rename is two of them that belong together.
  struct EntryChange {
    std::string directory;
    std::string name;
    std::shared_ptr<Inode> inode;
    std::string removed_name;  // of a rename
  };

  static bool is_rocksdb_file(const std::filesystem::path& path);
  static void apply(const EntryChange& change, Names* names);
  std::string shadow_path(const Inode& inode) const;
  std::shared_ptr<Inode> adopt(const std::string& path);
  void file_synced(Inode& inode, std::uint64_t bytes);
  void directory_synced(const std::string& directory);
  void remember_mapped_files();
  void write_file(const Inode& inode, const std::string& target, std::mt19937_64& random);
  void write_mapped_file(const std::string& name,
                         const std::string& target,
                         std::mt19937_64& random);
  IOStatus unmodelled(const char* call);
  void take_image(const std::string& image, std::mt19937_64& random);
  // With the gate held alone.
  void take_image_locked(const std::string& image, std::mt19937_64& random);
  void take_image_of_process(const std::string& image);
  // Called before each change: true for the one at which it ends.
  bool ends_here() noexcept;
  // Before a change that is done whole or not at all.
  void count_change();
  void catch_append();
  void release_append();
  void stop_if_wanted();

  const std::string root_;
  const std::string shadow_;

  // Held shared by every call that changes something, alone by cut().
  std::shared_mutex gate_;

  // What was asked of crash_at(): written before the first change is counted.
  struct Planned {
    End end = End::kMachine;
    std::string image;
    std::mt19937_64 random;
    std::function<void()> note;
  };
  Planned planned_;
  std::atomic<std::int64_t> changes_left_{0};  // 0 and below: nothing is planned
  std::atomic<bool> crashed_{false};

  std::mutex stop_mutex_;  // guards the next two
  bool stop_wanted_ = false;
  bool append_stopped_ = false;
  std::condition_variable stop_changed_;

  std::mutex mutex_;  // guards what follows, up to the counters
  Names live_;
  Names durable_;
  std::vector<EntryChange> unsynced_changes_;
  std::uint64_t next_number_ = 1;
  // Mapped files, by full path: contents they had, oldest first.
  std::map<std::string, std::deque<std::string>> mapped_history_;

  std::atomic<std::uint64_t> log_sync_count_{0};
  std::atomic<std::uint64_t> unmodelled_count_{0};
  std::atomic<std::uint64_t> early_log_count_{0};
  std::atomic<std::uint64_t> dropped_bytes_{0};
};

// An Env over `fs`, as WalOptions takes it.
std::unique_ptr<rocksdb::Env> make_env(const std::shared_ptr<PowerCutFs>& fs);

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_POWER_CUT_FS_H_
