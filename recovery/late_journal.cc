#include "late_journal.h"

namespace countwheel {

Status LateJournal::append(const Batch& batch) noexcept {
  Journal* const journal = get();
  return journal == nullptr ? Status(Code::kJournalFailed) : journal->append(batch);
}

Status LateJournal::recover() noexcept {
  Journal* const journal = get();
  return journal == nullptr ? Status(Code::kJournalFailed) : journal->recover();
}

Status LateJournal::check_writes(std::string_view bytes) const noexcept {
  const Journal* const journal = get();
  return journal == nullptr ? Status(Code::kRecovering) : journal->check_writes(bytes);
}

AppDatabase* LateJournal::app_database() noexcept {
  Journal* const journal = get();
  return journal == nullptr ? nullptr : journal->app_database();
}

bool LateJournal::next_to_clean(std::uint64_t live_bytes, CleanRequest* request) noexcept {
  Journal* const journal = get();
  return journal != nullptr && journal->next_to_clean(live_bytes, request);
}

JournalStats LateJournal::stats() const noexcept {
  const Journal* const journal = get();
  return journal == nullptr ? JournalStats{} : journal->stats();
}

}  // namespace countwheel
