#include "log_writer.h"

#include <algorithm>
#include <utility>

#include "faulty_fs.h"

namespace countwheel::testing {

Op& BatchBuilder::schedule(TaskId id, std::string key, std::string payload) {
  Op& op = add(OpKind::kSchedule, id);
  op.base_lsn = op.lsn;
  op.type = 1;
  op.wall_deadline_ns = 1'700'000'000'000'000'000 + static_cast<std::int64_t>(op.lsn);
  set_data(&op, std::move(key), std::move(payload), {});
  return op;
}

Op& BatchBuilder::add(OpKind kind, TaskId id) {
  Op op;
  op.kind = kind;
  op.id = id;
  op.lsn = first_lsn_ + ops_.size() + skipped_;
  ops_.push_back(op);
  return ops_.back();
}

void BatchBuilder::set_data(Op* op,
                            std::string key,
                            std::string payload,
                            std::string text,
                            std::string attributes) {
  op->key_bytes = static_cast<std::uint16_t>(key.size());
  op->payload_bytes = static_cast<std::uint32_t>(payload.size());
  op->text_bytes = static_cast<std::uint16_t>(text.size());
  op->attribute_bytes = static_cast<std::uint16_t>(attributes.size());
  bytes_.push_back(std::move(key) + payload + text + attributes);
  op->data = bytes_.back().data();
}

void BatchBuilder::write_with(const Op* op, std::string_view writes) {
  writes_.push_back({op->lsn, bytes_.emplace_back(writes)});
}

Batch BatchBuilder::batch(bool sync) const {
  Batch batch;
  batch.ops = ops_;
  batch.writes = writes_;
  batch.op_count = static_cast<std::uint32_t>(ops_.size());
  batch.first_lsn = first_lsn_;
  batch.last_lsn = last_lsn();
  batch.lsn_ceiling = last_lsn() + (1 << 20);
  batch.generation_ceiling = 1 << 20;
  batch.session_hash = 0x5e5510;
  batch.wall_ns = 1'700'000'000'000'000'000;
  batch.sync = sync;
  return batch;
}

WalOptions small_options() {
  WalOptions options;
  options.memtable_bytes = std::size_t{1} << 20;
  options.min_log_bytes = std::uint64_t{4} << 20;
  options.attempt_cells = 64;
  options.env = env_without_syncs();
  return options;
}

Status read_content(Log& log, LogContent* content) {
  *content = LogContent();
  return log.read([content](const BlobHeader& header, std::span<const Op> ops) {
    content->blobs.push_back(header);
    content->ops += ops.size();
    for (const Op& op : ops) {
      if (op.kind == OpKind::kSchedule) {
        content->scheduled.push_back(op.id);
        content->payloads.emplace_back(op.payload());
      }
    }
    return Status();
  });
}

namespace {

Status read_opened(Result<std::unique_ptr<Log>> log, LogContent* content, LogFacts* facts) {
  if (!log.ok()) {
    return log.status();
  }
  Status status = read_content(**log, content);
  if (facts != nullptr) {
    *facts = (*log)->facts();
  }
  return status;
}

}  // namespace

Status read_directory(const std::string& directory, LogContent* content, LogFacts* facts) {
  return read_opened(Log::open_read_only(directory, small_options()), content, facts);
}

Status restart(const std::string& directory, LogContent* content, LogFacts* facts) {
  return read_opened(Log::open(directory, small_options()), content, facts);
}

Status LogWriter::open() {
  Result<std::unique_ptr<Log>> log = Log::open(directory_, options_);
  if (!log.ok()) {
    return log.status();
  }
  if (Status status = read_content(**log, &content_); !status.ok()) {
    return status;
  }
  facts_ = (*log)->facts();
  const LogEnd end = (*log)->end();
  next_lsn_ = std::max(next_lsn_, end.last_lsn + 1);
  epoch_ = end.epoch + 1;
  Result<std::unique_ptr<Journal>> journal = std::move(**log).into_journal();
  if (!journal.ok()) {
    return journal.status();
  }
  journal_ = std::move(*journal);
  return {};
}

Status LogWriter::commit(std::size_t count, std::size_t payload_bytes, bool sync) {
  BatchBuilder builder(next_lsn_);
  for (std::size_t i = 0; i < count; ++i) {
    builder.schedule(next_id(), {}, std::string(payload_bytes, static_cast<char>('a' + i % 26)));
  }
  return commit(builder, sync);
}

Status LogWriter::commit(const BatchBuilder& builder, bool sync, std::uint64_t low_water) {
  Batch batch = builder.batch(sync);
  batch.epoch = epoch_;
  batch.low_water = low_water;
  Status status = journal_->append(batch);
  if (!status.ok()) {
    return status;
  }
  next_lsn_ = batch.last_lsn + 1;
  for (const Op& op : builder.ops()) {
    if (op.kind == OpKind::kSchedule) {
      acknowledged_.push_back(op.id);
    }
  }
  durable_count_ = sync ? acknowledged_.size() : durable_count_;
  return {};
}

Status LogWriter::watermark() {
  return commit(BatchBuilder(next_lsn_), true);
}

}  // namespace countwheel::testing
