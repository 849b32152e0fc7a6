// LateJournal: stands in for a journal that does not exist yet.
//
// An engine is made with its journal, but the log becomes a journal only when it has been read to
// its end, into that engine. Until then nothing is appended: calls answer `recovering`.
#ifndef COUNTWHEEL_RECOVERY_LATE_JOURNAL_H_
#define COUNTWHEEL_RECOVERY_LATE_JOURNAL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <countwheel/assert.h>
#include <countwheel/journal.h>

namespace countwheel {

// Thread contract: as Journal; set() once, before the first append().
class LateJournal final : public Journal {
 public:
  // `cells` are those of the log, whose mapping its journal takes over.
  LateJournal(std::string path, std::span<AttemptCell> cells)
      : path_(std::move(path)), cells_(cells) {}

  void set(std::unique_ptr<Journal> journal) {
    COUNTWHEEL_ASSERT(owned_ == nullptr);
    COUNTWHEEL_ASSERT(journal->attempt_cells().data() == cells_.data());
    owned_ = std::move(journal);
    journal_.store(owned_.get(), std::memory_order_release);  // partner: get()
  }

  Status append(const Batch& batch) noexcept override;
  Status recover() noexcept override;
  Status check_writes(std::string_view bytes) const noexcept override;
  AppDatabase* app_database() noexcept override;
  bool next_to_clean(std::uint64_t live_bytes, CleanRequest* request) noexcept override;
  std::span<AttemptCell> attempt_cells() noexcept override { return cells_; }
  bool durable() const noexcept override { return true; }
  std::string_view path() const noexcept override { return path_; }
  JournalStats stats() const noexcept override;

 private:
  Journal* get() const noexcept { return journal_.load(std::memory_order_acquire); }

  const std::string path_;
  const std::span<AttemptCell> cells_;
  std::unique_ptr<Journal> owned_;
  std::atomic<Journal*> journal_{nullptr};
};

}  // namespace countwheel

#endif  // COUNTWHEEL_RECOVERY_LATE_JOURNAL_H_
