// FaultJournal: a journal that fails or waits when a test says so.
//
// It writes to another journal while all is well. The faults are set from any thread; they apply
// from the next append on.
#ifndef COUNTWHEEL_TESTS_TESTING_FAULT_JOURNAL_H_
#define COUNTWHEEL_TESTS_TESTING_FAULT_JOURNAL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <countwheel/journal.h>

namespace countwheel::testing {

// What a test holds on to while the engine owns the journal. Must outlive the engine.
class Faults {
 public:
  // Appends answer `code` from now on; kOk ends it.
  void answer(Code code) { code_.store(code); }
  Code code() const { return code_.load(); }

  // Appends wait from now on until release().
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release() {
    {
      const std::lock_guard lock(mutex_);
      held_ = false;
    }
    released_.notify_all();
  }
  // Whether an append is waiting.
  bool waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_ != 0;
  }

  std::uint64_t appends() const { return appends_.load(); }  // those that succeeded
  std::uint64_t syncs() const { return syncs_.load(); }
  std::uint64_t ops() const { return ops_.load(); }  // operations that reached the journal
  std::uint64_t recovers() const { return recovers_.load(); }

  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    released_.wait(lock, [this] { return !held_; });
    --waiting_;
  }
  void count(const Batch& batch) {
    ++appends_;
    syncs_ += batch.sync ? 1 : 0;
    ops_ += batch.op_count;
  }
  void count_recover() { ++recovers_; }

 private:
  std::atomic<Code> code_{Code::kOk};
  mutable std::mutex mutex_;
  std::condition_variable released_;
  bool held_ = false;  // guarded by mutex_
  int waiting_ = 0;    // guarded by mutex_
  std::atomic<std::uint64_t> appends_{0};
  std::atomic<std::uint64_t> syncs_{0};
  std::atomic<std::uint64_t> ops_{0};
  std::atomic<std::uint64_t> recovers_{0};
};

class FaultJournal final : public Journal {
 public:
  explicit FaultJournal(Faults* faults, std::unique_ptr<Journal> below = nullptr)
      : faults_(faults), below_(std::move(below)) {
    if (below_ == nullptr) {
      below_ = std::make_unique<NullJournal>();
    }
  }

  Status append(const Batch& batch) noexcept override {
    faults_->pass();
    if (const Code code = faults_->code(); code != Code::kOk) {
      return Status(code, "the test said so");
    }
    Status status = below_->append(batch);
    if (status.ok()) {
      faults_->count(batch);
    }
    return status;
  }
  Status recover() noexcept override {
    faults_->count_recover();
    return Status(faults_->code());
  }
  Status check_writes(std::string_view bytes) const noexcept override {
    return below_->check_writes(bytes);
  }
  bool next_to_clean(std::uint64_t live_bytes, CleanRequest* request) noexcept override {
    return below_->next_to_clean(live_bytes, request);
  }
  std::span<AttemptCell> attempt_cells() noexcept override { return below_->attempt_cells(); }
  bool durable() const noexcept override { return below_->durable(); }
  std::string_view path() const noexcept override { return "(faults)"; }
  JournalStats stats() const noexcept override { return below_->stats(); }

 private:
  Faults* const faults_;
  std::unique_ptr<Journal> below_;
};

}  // namespace countwheel::testing

#endif  // COUNTWHEEL_TESTS_TESTING_FAULT_JOURNAL_H_
