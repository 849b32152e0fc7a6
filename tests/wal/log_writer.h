// LogWriter: an engine's side of a log, for tests: numbers operations, commits batches, remembers
// what was acknowledged.
#ifndef COUNTWHEEL_TESTS_WAL_LOG_WRITER_H_
#define COUNTWHEEL_TESTS_WAL_LOG_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <countwheel/journal.h>
#include <countwheel/status.h>
#include <countwheel/wal.h>

namespace countwheel::testing {

// Operations of one batch and the bytes they point to.
class BatchBuilder {
 public:
  explicit BatchBuilder(std::uint64_t first_lsn) : first_lsn_(first_lsn) {}

  Op& schedule(TaskId id, std::string key, std::string payload);
  Op& add(OpKind kind, TaskId id);
  // The bytes behind an operation.
  void set_data(Op* op,
                std::string key,
                std::string payload,
                std::string text,
                std::string attributes = {});
  // What the application writes with an operation, the newest of those that have some.
  void write_with(const Op* op, std::string_view writes);
  // The next operation's LSN is one further.
  void skip_lsn() { ++skipped_; }

  // Views into this.
  Batch batch(bool sync) const;
  std::uint64_t last_lsn() const { return first_lsn_ + ops_.size() + skipped_ - 1; }
  const std::vector<Op>& ops() const { return ops_; }

 private:
  std::uint64_t first_lsn_;
  std::uint64_t skipped_ = 0;
  std::vector<Op> ops_;
  std::vector<OpWrites> writes_;
  std::deque<std::string> bytes_;
};

// What a log holds, read from its low-water mark on.
struct LogContent {
  std::vector<BlobHeader> blobs;
  std::vector<TaskId> scheduled;  // of every kSchedule, in order
  std::vector<std::string> payloads;
  std::uint64_t ops = 0;
};

// Options for small logs, so that a test writes kilobytes where a program writes gigabytes, and
// does not wait for the disk.
WalOptions small_options();

// Reads all of it.
Status read_content(Log& log, LogContent* content);
// Opens for reading, reads, closes.
Status read_directory(const std::string& directory, LogContent* content, LogFacts* facts = nullptr);
// Opens for writing, reads, closes. What a restart does.
Status restart(const std::string& directory, LogContent* content, LogFacts* facts = nullptr);

class LogWriter {
 public:
  explicit LogWriter(std::string directory, WalOptions options = small_options())
      : directory_(std::move(directory)), options_(std::move(options)) {}

  // Opens the directory, which may be new, and reads it.
  Status open();
  void close() { journal_.reset(); }

  // One blob of `count` schedules with payloads of `payload_bytes`.
  Status commit(std::size_t count, std::size_t payload_bytes, bool sync = true);
  // A blob of the caller's.
  Status commit(const BatchBuilder& builder, bool sync, std::uint64_t low_water = 0);
  Status watermark();

  Journal& journal() { return *journal_; }
  const LogContent& content() const { return content_; }
  const LogFacts& facts() const { return facts_; }
  std::uint64_t next_lsn() const { return next_lsn_; }
  // Tasks whose schedule was acknowledged, at all and at disk, since the first open().
  const std::vector<TaskId>& acknowledged() const { return acknowledged_; }
  std::size_t durable_count() const { return durable_count_; }
  TaskId next_id() { return TaskId::of(next_index_++, 1); }

 private:
  std::string directory_;
  WalOptions options_;
  std::unique_ptr<Journal> journal_;
  LogContent content_;
  LogFacts facts_;
  std::uint64_t next_lsn_ = 1;
  std::uint32_t next_index_ = 1;
  std::uint64_t epoch_ = 0;
  std::vector<TaskId> acknowledged_;
  std::size_t durable_count_ = 0;
};

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_WAL_LOG_WRITER_H_
