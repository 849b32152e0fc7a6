// Calls from one thread as fast as they go, never more than a bounded number ahead of the log.
#ifndef COUNTWHEEL_BENCH_ENGINE_LOAD_H_
#define COUNTWHEEL_BENCH_ENGINE_LOAD_H_

#include <string>

#include "bench_engine.h"

namespace countwheel::bench {

// A task of the type "bench" hours away.
inline TaskSpec far_away(std::string_view payload, Durability durability) {
  return {.type = "bench",
          .deadline = after(std::chrono::hours(8)),
          .payload = payload,
          .durability = durability};
}

// Thread contract: one thread.
class Load {
 public:
  Load(Engine& engine, Durability durability, std::size_t payload_bytes)
      : engine_(engine), durability_(durability), payload_(payload_bytes, 'x') {}

  TaskId schedule() {
    const Result<Submitted> submitted = engine_.submit(far_away(payload_, durability_));
    if (!submitted.ok()) {
      std::fprintf(stderr, "cannot schedule: %s\n", submitted.status().text().c_str());
      std::abort();
    }
    went_to(submitted->lsn);
    return submitted->id;
  }

  void cancel(TaskId id) { went_to(engine_.submit_cancel(id, durability_).lsn); }

  // Waits until everything is as durable as was asked for.
  void settle() { (void)engine_.flush(durability_); }

 private:
  static constexpr std::uint64_t kAhead = 200'000;

  void went_to(Lsn lsn) {
    if (++calls_ % 512 == 0 && lsn.value > kAhead &&
        engine_.durable_lsn(durability_).value < lsn.value - kAhead) {
      (void)engine_.wait_durable({lsn.value - kAhead / 2}, durability_);
    }
  }

  Engine& engine_;
  Durability durability_;
  std::string payload_;
  std::uint64_t calls_ = 0;
};

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_ENGINE_LOAD_H_
