#include "table_dropper.h"

namespace countwheel::wal {

void TableDropper::drop_below(std::uint64_t sequence) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (busy_) {
      return;
    }
    busy_ = true;
  }
  below_.store(sequence);
  store_.database().GetEnv()->Schedule(&TableDropper::run, this, rocksdb::Env::Priority::LOW);
}

void TableDropper::wait() noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  idle_.wait(lock, [this] { return !busy_; });
}

void TableDropper::run(void* dropper) {
  auto* self = static_cast<TableDropper*>(dropper);
  self->drop();
  const std::lock_guard<std::mutex> lock(self->mutex_);
  self->busy_ = false;
  // Under the lock: the waiter may destroy the condition as soon as it has the lock.
  self->idle_.notify_all();
}

// DeleteFilesInRange() would be the documented way and does nothing here: it leaves level 0 alone,
// and without compactions everything is at level 0. DeleteFile() takes the oldest file of level 0.
void TableDropper::drop() {
  for (const TableFile& file : store_.table_files()) {
    if (file.last_sequence == 0 || file.last_sequence >= below_.load()) {
      return;
    }
    if (!store_.database().DeleteFile(file.name).ok()) {
      return;  // a full disk; the next call tries again
    }
  }
}

}  // namespace countwheel::wal
