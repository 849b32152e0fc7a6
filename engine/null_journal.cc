#include <string>

#include <countwheel/journal.h>

namespace countwheel {

Status Journal::check_writes(std::string_view) const noexcept {
  return Status(Code::kInvalidArgument,
                std::string(path()) + ": no database that could take writes of the application");
}

NullJournal::NullJournal(std::size_t cells)
    : cells_(std::make_unique<AttemptCell[]>(cells)), cell_count_(cells) {}

Status NullJournal::append(const Batch& batch) noexcept {
  blobs_.fetch_add(1, std::memory_order_relaxed);
  syncs_.fetch_add(batch.sync ? 1 : 0, std::memory_order_relaxed);
  return {};
}

JournalStats NullJournal::stats() const noexcept {
  JournalStats stats;
  stats.blobs = blobs_.load(std::memory_order_relaxed);
  stats.syncs = syncs_.load(std::memory_order_relaxed);
  return stats;
}

}  // namespace countwheel
