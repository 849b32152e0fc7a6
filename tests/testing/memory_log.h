// MemoryLog: a log that is a vector, so that thousands of crashes cost milliseconds.
//
// It keeps every batch an engine appends, whether it was synced, and the attempt cells. An image of
// it is what a crash leaves: kill -9 all that was written and the cells, a power failure any prefix
// that holds the last synced batch and no cells. recover() replays an image into a new engine as
// open() does from files.
#ifndef COUNTWHEEL_TESTS_TESTING_MEMORY_LOG_H_
#define COUNTWHEEL_TESTS_TESTING_MEMORY_LOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <countwheel/engine.h>
#include <countwheel/journal.h>
#include <countwheel/restore.h>

namespace countwheel::testing {

class MemoryLog {
 public:
  // An operation with the bytes it points to.
  struct StoredOp {
    Op op;
    std::string bytes;
    // The operation with `data` pointing into `bytes`.
    Op view() const noexcept;
  };
  struct StoredBatch {
    Batch header;  // its `ops` and `writes` are empty
    std::vector<StoredOp> ops;
    std::vector<std::string> writes;  // of the application
  };

  explicit MemoryLog(std::size_t cell_count = 64);

  // For one engine at a time; it borrows the log, which must outlive it.
  std::unique_ptr<Journal> journal();

  std::size_t size() const;         // batches
  std::size_t synced_size() const;  // batches up to the last synced one
  std::uint64_t op_count() const;
  std::vector<StoredBatch> batches() const;
  // The application's writes of all batches, in order.
  std::vector<std::string> writes() const;
  LogEnd end() const;

  // What kill -9 leaves now.
  std::unique_ptr<MemoryLog> killed() const;
  // The first `size` batches and no cells: what a power failure may leave if it keeps at least
  // synced_size() of them. REQUIRES: size <= size().
  std::unique_ptr<MemoryLog> prefix(std::size_t size) const;

  // What the application may not write; everything else it may.
  static constexpr std::string_view kBadWrites = "bad";

  // Called after each batch, on the committing thread.
  std::function<void()> after_append;
  // Called before each batch; what is not ok refuses it.
  std::function<Status(const Batch&)> before_append;
  // The cleaner's bound: batches kept behind the low-water mark. 0: no cleaning.
  std::size_t clean_above = 0;

 private:
  class MemoryJournal;

  Status append(const Batch& batch);
  bool next_to_clean(CleanRequest* request);

  mutable std::mutex mutex_;
  std::vector<StoredBatch> batches_;
  std::size_t synced_size_ = 0;
  std::uint64_t low_water_ = 0;  // sequence of a batch: its index + 1
  std::vector<AttemptCell> cells_;
};

// A recovered engine, not started.
struct Recovered {
  std::unique_ptr<Engine> engine;
  RestoreSummary summary;
};
Result<Recovered> recover(MemoryLog& log,
                          const EngineOptions& options,
                          Clock* clock,
                          Executor* executor);

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_MEMORY_LOG_H_
