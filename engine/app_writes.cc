// Calls that bring writes of the application (countwheel/writes.h). They are checked before
// anything is decided, travel with the operation, and reach the journal in the batch of its record.
#include <utility>

#include <countwheel/engine.h>

#include "engine_core.h"

namespace countwheel {
namespace detail {

Status EngineCore::check_writes(const Writes& writes) const {
  if (writes.empty()) {
    return {};
  }
  if (writes.bytes.size() > options.max_writes_bytes) {
    return Status(Code::kTooLarge,
                  "the writes have " + std::to_string(writes.bytes.size()) +
                      " bytes, allowed: EngineOptions::max_writes_bytes = " +
                      std::to_string(options.max_writes_bytes));
  }
  return journal->check_writes(writes.bytes);
}

Status EngineCore::accept_writes(const Writes& writes) const {
  Status status = check_writes(writes);
  return status.ok() ? commit.accepting_writes(writes.bytes.size()) : status;
}

}  // namespace detail

Result<Scheduled> Engine::schedule(const TaskSpec& spec, const Writes& writes) {
  const Result<Submitted> submitted = core_->submit(spec, writes);
  if (!submitted.ok()) {
    return submitted.status();
  }
  const Durability level = spec.durability.value_or(core_->options.durability);
  if (Status status = wait_durable(submitted->lsn, level); !status.ok()) {
    return status;
  }
  return Scheduled{submitted->id, submitted->lsn, reached(submitted->lsn)};
}

Result<Submitted> Engine::submit(const TaskSpec& spec, const Writes& writes) {
  return core_->submit(spec, writes);
}

Change Engine::cancel(TaskId id, const Writes& writes) {
  return detail::acknowledged(submit_cancel(id, writes), *core_, core_->options.durability);
}
Change Engine::cancel(std::string_view key, const Writes& writes) {
  return detail::acknowledged(submit_cancel(key, writes), *core_, core_->options.durability);
}
Change Engine::submit_cancel(TaskId id, const Writes& writes) {
  return core_->cancel(id, core_->options.durability, writes);
}
Change Engine::submit_cancel(std::string_view key, const Writes& writes) {
  return core_->cancel(key, core_->options.durability, writes);
}

AppDatabase* Engine::app_database() const noexcept {
  return core_->journal->app_database();
}

}  // namespace countwheel
