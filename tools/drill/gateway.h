// Gateway: the parent process. It plays the market, keeps the book, and kills the service.
//
// Orders go to the timer service as soon as they arrive; fills and cancels change the book at once
// and then cancel the order's timer. While the service is away the market goes on; when it is back
// it is sent every open order again (the same key: what survived answers `exists`) and every cancel
// without an answer, and only then may anything fall due.
//
// A kill comes at the first moment, at or after its share of the session, at which the ring shows a
// call without an answer and a running handler.
#ifndef COUNTWHEEL_TOOLS_DRILL_GATEWAY_H_
#define COUNTWHEEL_TOOLS_DRILL_GATEWAY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <countwheel/status.h>

#include "book.h"
#include "child_process.h"
#include "ledger.h"
#include "plan.h"
#include "region.h"

namespace countwheel::drill {

// One kill and what came back.
struct Recovery {
  double share = 0;             // of the session, when it happened
  std::uint64_t unacked = 0;    // calls without an answer
  std::uint64_t running = 0;    // handlers
  std::uint64_t unsynced = 0;   // calls answered below disk
  std::uint64_t pending = 0;    // by the parent's count: certainly live in the log
  std::uint64_t uncertain = 0;  // and perhaps: their call or completion was under way
  double down_ms = 0;           // from the kill to serving again, sending orders again included
  RecoveryRecord found = {};    // by the service

  bool agrees() const noexcept {
    return found.live >= pending && found.live <= pending + uncertain;
  }
};

struct GatewayProgress {
  double share = 0;  // of the session, above 1 while the last orders end
  double seconds_left = 0;
  std::uint64_t arrived_count = 0;
  std::uint64_t kill_count = 0;
  bool serving = false;
};

struct GatewayReport {
  std::vector<Recovery> recoveries;
  std::uint64_t missed_kills = 0;  // no moment with work in flight came before the end
  BookTotals totals;
  double seconds = 0;
};

// Thread contract: one thread.
class Gateway {
 public:
  using OnProgress = std::function<void(const GatewayProgress&)>;

  // `plan` and `region` must outlive the gateway. `kill_shares` ascend.
  Gateway(const Plan& plan, Region& region, std::vector<double> kill_shares, OnProgress progress);

  // Plays the whole session. A Status when the service failed or would not come back.
  Result<GatewayReport> run();

 private:
  enum class Phase : std::uint8_t { kOpening, kServing };

  Status spawn();
  Status supervise();
  void begin_serving();
  void send_again();
  bool play_market(std::int64_t now_ns);
  void play(const PlannedEvent& event);
  bool read_stamps();
  void read_last_stamps();
  bool hunting(std::int64_t now_ns) const;
  bool holds(std::int64_t now_ns);
  bool caught(std::int64_t now_ns) const;
  Status kill_service(std::int64_t now_ns);
  bool over(std::int64_t now_ns);
  Status stop_service();
  Status failure(const std::string& what) const;
  void report_progress(std::int64_t now_ns);
  double share_of(std::int64_t now_ns) const;
  bool session_closed(std::int64_t now_ns) const;

  const Plan& plan_;
  Region& region_;
  Control& control_;
  StampRing ring_;
  Book book_;
  Ledger ledger_;
  std::vector<double> kill_shares_;
  OnProgress on_progress_;

  ChildProcess service_;
  Phase phase_ = Phase::kOpening;
  GatewayReport report_;
  std::int64_t start_boot_ns_ = 0;  // 0 until the first life serves
  std::int64_t opening_since_ns_ = 0;
  std::size_t next_event_ = 0;
  std::uint64_t next_stamp_ = 0;
  std::uint32_t arrived_count_ = 0;
  std::int64_t kill_boot_ns_ = 0;
  bool down_measured_ = true;
  std::int64_t last_stamp_ns_ = 0;
  std::int64_t next_check_ns_ = 0;   // of the process
  std::int64_t next_settle_ns_ = 0;  // whether all is settled
  std::int64_t next_progress_ns_ = 0;
};

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_GATEWAY_H_
