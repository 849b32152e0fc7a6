#include "testing/memory_log.h"

#include <utility>

namespace countwheel::testing {

class MemoryLog::MemoryJournal final : public Journal {
 public:
  explicit MemoryJournal(MemoryLog* log) : log_(log) {}

  Status append(const Batch& batch) noexcept override { return log_->append(batch); }
  Status recover() noexcept override { return {}; }
  Status check_writes(std::string_view bytes) const noexcept override {
    return bytes == kBadWrites ? Status(Code::kInvalidArgument, "bad writes") : Status();
  }
  bool next_to_clean(std::uint64_t, CleanRequest* request) noexcept override {
    return log_->next_to_clean(request);
  }
  std::span<AttemptCell> attempt_cells() noexcept override { return log_->cells_; }
  bool durable() const noexcept override { return true; }
  std::string_view path() const noexcept override { return "(test memory)"; }
  JournalStats stats() const noexcept override {
    JournalStats stats;
    stats.blobs = log_->size();
    return stats;
  }

 private:
  MemoryLog* const log_;
};

Op MemoryLog::StoredOp::view() const noexcept {
  Op copy = op;
  copy.data = bytes.data();
  return copy;
}

MemoryLog::MemoryLog(std::size_t cell_count) : cells_(cell_count) {}

std::unique_ptr<Journal> MemoryLog::journal() {
  return std::make_unique<MemoryJournal>(this);
}

std::size_t MemoryLog::size() const {
  const std::lock_guard lock(mutex_);
  return batches_.size();
}

std::size_t MemoryLog::synced_size() const {
  const std::lock_guard lock(mutex_);
  return synced_size_;
}

std::uint64_t MemoryLog::op_count() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  for (const StoredBatch& batch : batches_) {
    count += batch.ops.size();
  }
  return count;
}

std::vector<MemoryLog::StoredBatch> MemoryLog::batches() const {
  const std::lock_guard lock(mutex_);
  // Replay starts at the newest low-water mark.
  const std::size_t first = low_water_ == 0 ? 0 : low_water_ - 1;
  return {batches_.begin() + static_cast<std::ptrdiff_t>(first), batches_.end()};
}

std::vector<std::string> MemoryLog::writes() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> writes;
  for (const StoredBatch& batch : batches_) {
    writes.insert(writes.end(), batch.writes.begin(), batch.writes.end());
  }
  return writes;
}

LogEnd MemoryLog::end() const {
  const std::lock_guard lock(mutex_);
  LogEnd end;
  if (!batches_.empty()) {
    const Batch& last = batches_.back().header;
    end.last_lsn = last.last_lsn;
    end.lsn_ceiling = last.lsn_ceiling;
    end.generation_ceiling = last.generation_ceiling;
    end.epoch = last.epoch;
    end.last_seen_wall_ns = last.wall_ns;
    end.clean_stop = last.clean_stop;
  }
  return end;
}

std::unique_ptr<MemoryLog> MemoryLog::killed() const {
  const std::lock_guard lock(mutex_);
  auto image = std::make_unique<MemoryLog>(cells_.size());
  image->batches_ = batches_;
  image->synced_size_ = batches_.size();
  image->low_water_ = low_water_;
  image->clean_above = clean_above;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    image->cells_[i].id = cells_[i].id.load();
    image->cells_[i].mark = cells_[i].mark.load();
  }
  return image;
}

std::unique_ptr<MemoryLog> MemoryLog::prefix(std::size_t size) const {
  const std::lock_guard lock(mutex_);
  COUNTWHEEL_ASSERT(size <= batches_.size());
  auto image = std::make_unique<MemoryLog>(cells_.size());
  image->clean_above = clean_above;
  for (std::size_t i = 0; i < size; ++i) {
    image->batches_.push_back(batches_[i]);
    image->low_water_ = std::max(image->low_water_, batches_[i].header.low_water);
  }
  image->synced_size_ = size;
  return image;
}

Status MemoryLog::append(const Batch& batch) {
  if (before_append) {
    if (Status refused = before_append(batch); !refused.ok()) {
      return refused;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    StoredBatch stored;
    stored.header = batch;
    stored.header.ops = {};
    stored.header.writes = {};
    for (const OpWrites& writes : batch.writes) {
      stored.writes.emplace_back(writes.bytes);
    }
    std::uint32_t op_count = 0;
    for (const Op& op : batch.ops) {
      if (op.kind == OpKind::kNone) {
        continue;
      }
      ++op_count;
      const std::size_t bytes =
          std::size_t{op.key_bytes} + op.payload_bytes + op.text_bytes + op.attribute_bytes;
      StoredOp& kept = stored.ops.emplace_back();
      kept.op = op;
      kept.bytes.assign(op.data == nullptr ? "" : op.data, bytes);
      // What is not on disk must not be read back.
      kept.op.type = op.kind == OpKind::kSchedule ? op.type : std::uint16_t{0};
      kept.op.upsert = false;
      kept.op.releases = false;
      kept.op.cell = 0;
    }
    COUNTWHEEL_ASSERT(op_count == batch.op_count);
    batches_.push_back(std::move(stored));
    low_water_ = std::max(low_water_, batch.low_water);
    if (batch.sync) {
      synced_size_ = batches_.size();
    }
  }
  if (after_append) {
    after_append();
  }
  return {};
}

bool MemoryLog::next_to_clean(CleanRequest* request) {
  const std::lock_guard lock(mutex_);
  const std::size_t oldest = low_water_ == 0 ? 1 : low_water_;
  if (clean_above == 0 || batches_.size() < oldest + clean_above) {
    return false;
  }
  request->low_water = oldest + 1;
  for (const StoredOp& stored : batches_[oldest - 1].ops) {
    if (stored.op.kind == OpKind::kSchedule) {
      request->ids.push_back(stored.op.id);
    } else if (stored.op.kind == OpKind::kType) {
      request->types.push_back(static_cast<std::uint16_t>(stored.op.id.value));
    }
  }
  return true;
}

Result<Recovered> recover(MemoryLog& log,
                          const EngineOptions& options,
                          Clock* clock,
                          Executor* executor) {
  EngineParts parts;
  parts.clock = clock;
  parts.executor = executor;
  parts.journal = log.journal();
  Result<std::unique_ptr<Engine>> engine = Engine::create(options, std::move(parts));
  if (!engine.ok()) {
    return engine.status();
  }
  Restorer restorer(**engine);
  for (const MemoryLog::StoredBatch& batch : log.batches()) {
    for (const MemoryLog::StoredOp& stored : batch.ops) {
      if (Status status = restorer.apply(stored.view(), batch.header.session_hash); !status.ok()) {
        return status;
      }
    }
  }
  Result<RestoreSummary> summary = restorer.finish(log.end());
  if (!summary.ok()) {
    return summary.status();
  }
  return Recovered{std::move(*engine), *summary};
}

}  // namespace countwheel::testing
