// A disk that takes its time to sync, for RocksDB.
#ifndef COUNTWHEEL_BENCH_SLOW_SYNC_ENV_H_
#define COUNTWHEEL_BENCH_SLOW_SYNC_ENV_H_

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <rocksdb/env.h>

namespace countwheel::bench {

class SlowSyncEnv final : public rocksdb::EnvWrapper {
 public:
  explicit SlowSyncEnv(std::chrono::milliseconds sync)
      : rocksdb::EnvWrapper(rocksdb::Env::Default()), sync_(sync) {}

  const char* Name() const override { return "SlowSyncEnv"; }

  rocksdb::Status NewWritableFile(const std::string& name,
                                  std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions& options) override {
    const rocksdb::Status status = target()->NewWritableFile(name, file, options);
    if (status.ok()) {
      *file = std::make_unique<File>(std::move(*file), sync_);
    }
    return status;
  }

 private:
  class File final : public rocksdb::WritableFileWrapper {
   public:
    File(std::unique_ptr<rocksdb::WritableFile> inner, std::chrono::milliseconds sync)
        : rocksdb::WritableFileWrapper(inner.get()), inner_(std::move(inner)), sync_(sync) {}
    rocksdb::Status Sync() override {
      std::this_thread::sleep_for(sync_);
      return inner_->Sync();
    }
    rocksdb::Status Fsync() override {
      std::this_thread::sleep_for(sync_);
      return inner_->Fsync();
    }

   private:
    std::unique_ptr<rocksdb::WritableFile> inner_;
    const std::chrono::milliseconds sync_;
  };

  const std::chrono::milliseconds sync_;
};

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_SLOW_SYNC_ENV_H_
