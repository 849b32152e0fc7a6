#include "replay.h"

namespace countwheel {
namespace {

// Below the second that is promised, so that a slow group commit does not break it.
constexpr std::chrono::milliseconds kTellEvery(250);

// How many operations before its turn a node is fetched.
constexpr std::size_t kAhead = 16;

}  // namespace

Replay::Replay(Engine& engine, const ProgressCallback& progress)
    : engine_(engine),
      progress_(progress),
      restorer_(engine),
      began_(SteadyClock::now()),
      told_(began_) {}

Status Replay::run(Log& log) {
  tell(0, 0);
  const auto visitor = [this](const BlobHeader& header, std::span<const Op> ops) {
    last_session_hash_ = header.session_hash;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const Op& op = ops[i];
      if (i + kAhead < ops.size()) {
        restorer_.expect(ops[i + kAhead]);
      }
      if (Status status = restorer_.apply(op, header.session_hash); !status.ok()) {
        return Status(status.code(),
                      "group commit " + std::to_string(header.sequence) + ", LSN " +
                          std::to_string(op.lsn) + ": " + status.detail());
      }
    }
    ops_ += ops.size();
    return Status();
  };
  const auto on_bytes = [this](std::uint64_t bytes_done, std::uint64_t bytes_total) {
    bytes_total_ = bytes_total;
    if (progress_ && SteadyClock::now() - told_ >= kTellEvery) {
      tell(bytes_done, bytes_total);
    }
  };
  return log.read(visitor, on_bytes);
}

Result<RestoreSummary> Replay::finish(const LogEnd& end) {
  Result<RestoreSummary> summary = restorer_.finish(end);
  if (summary.ok()) {
    tell(bytes_total_, bytes_total_);
  }
  return summary;
}

double Replay::seconds() const {
  return std::chrono::duration<double>(SteadyClock::now() - began_).count();
}

void Replay::tell(std::uint64_t bytes_done, std::uint64_t bytes_total) {
  told_ = SteadyClock::now();
  if (progress_) {
    progress_({bytes_done, bytes_total, ops_, seconds(), &engine_});
  }
}

}  // namespace countwheel
