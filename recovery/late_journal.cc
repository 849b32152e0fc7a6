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

bool LateJournal::next_to_clean(std::uint64_t live_bytes, CleanRequest* request) noexcept {
  Journal* const journal = get();
  return journal != nullptr && journal->next_to_clean(live_bytes, request);
}

JournalStats LateJournal::stats() const noexcept {
  const Journal* const journal = get();
  return journal == nullptr ? JournalStats{} : journal->stats();
}

}  // namespace countwheel
