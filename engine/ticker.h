// Ticker: the one thread that knows what time it is.
//
// Owns both wheels. One step: take what has become durable from the mailbox, advance both wheels to
// now, hand what is due over in (wall deadline, LSN) order across both clocks. It runs no user
// code, does no I/O and waits for nobody; what the rings cannot take stays with it as backlog.
//
// The same step() is called by the tick thread and, with Drive::kHost, by Engine::poll().
#ifndef COUNTWHEEL_ENGINE_TICKER_H_
#define COUNTWHEEL_ENGINE_TICKER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <countwheel/clock.h>
#include <countwheel/options.h>
#include <countwheel/stats.h>
#include <countwheel/wheel_core.h>

#include "dispatcher.h"
#include "mailbox.h"
#include "pending_limits.h"
#include "task_table.h"

namespace countwheel::detail {

// What a wheel asks of the task table (wheel_core.h). An entry counts only while its task is
// scheduled on this wheel's clock and its latest (re)schedule is durable.
struct TableHome {
  static constexpr bool kLazyMoves = false;  // every reschedule files an entry of its own

  const TaskTable* table = nullptr;
  const Limits* limits = nullptr;
  ClockKind clock = ClockKind::kWall;
  std::uint64_t released = 0;  // LSN up to which everything is durable

  std::optional<TaskTable::Scheduled> read(std::uint32_t index) const noexcept;
  std::int64_t deadline_of(std::uint32_t index) const noexcept;
  std::uint64_t sequence_of(std::uint32_t index) const noexcept;
  std::int64_t slack_of(std::uint32_t index) const noexcept;
  std::size_t live_count() const noexcept { return limits->count(); }
  void prefetch(std::uint32_t index) const noexcept { table->prefetch(index); }
};

struct TickParts {
  TaskTable& table;
  Limits& limits;
  Mailbox& mailbox;
  Dispatcher& dispatcher;
  std::function<Instant()> now;
  // Takes changes of groups that are durable, up to an LSN, to some of their members; adds those
  // that must be filed. True when there is more to do.
  std::function<bool(std::uint64_t, std::vector<MailItem>*)> sweep_groups;
  // Drive::kThreads: workers are posted while a step is still handing over, and the thread looks at
  // the clock now and then while leases run. The executor of a host may run handlers at once and so
  // must not be called inside a step, and when a host looks at the clock is its own affair.
  bool eager = true;
};

// Thread contract: step() by one thread at a time; wake() and fill() from any thread.
class Ticker {
 public:
  // `sleeper` may be null with Drive::kHost.
  Ticker(TickParts parts, const WheelOptions& options, std::unique_ptr<Sleeper> sleeper);
  ~Ticker();

  // Before the first step: the wheels, each with room for `reserve_count` tasks, begin at `start`,
  // which is not after the first deadline that will be filed.
  void begin(Instant start, std::size_t reserve_count);
  // Before the first step, after begin(): files a restored task.
  void file(const MailItem& item);

  // Hands over up to `limit` due tasks; answers how many.
  std::size_t step(std::size_t limit);
  // When step() must be called next.
  Instant next_wake();

  // Answers nothing: what the kernel refused of `options` is in Stats::tick_thread_refused.
  void start_thread(const TickThreadOptions& options);
  void stop_thread();
  void wake() noexcept {
    if (sleeper_) {
      sleeper_->wake();
    }
  }

  void fill(Stats* stats) const;
  std::string check_invariants();

 private:
  using Wheel = WheelCore<TableHome>;
  using Due = std::pair<std::uint16_t, DueEntry>;

  // A due task with what orders it across clocks.
  struct Ordered {
    std::int64_t wall_ns = 0;
    std::uint64_t lsn = 0;
    std::uint16_t type = 0;
    DueEntry entry;
  };
  // One wheel and what it has given out and has not been handed over yet.
  struct Side {
    TableHome home;
    std::unique_ptr<Wheel> wheel;
    std::vector<Ordered> due;
    std::size_t head = 0;
    bool more = false;

    bool empty() const noexcept { return head == due.size(); }
  };

  static constexpr std::size_t kRefill = 4096;
  static constexpr std::size_t kPublish = 512;

  void run();
  Instant read_clock();
  void take_mail();
  void refill(Side& side, std::int64_t now_ns);
  bool put_off(std::uint32_t index, std::int64_t now_ns);
  std::size_t merge(Instant now, std::size_t limit);
  void publish(Instant now);

  TickParts parts_;
  WheelOptions options_;
  std::unique_ptr<Sleeper> sleeper_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};

  // Held during a step; guards everything below against stats and invariants.
  mutable std::mutex step_mutex_;
  std::array<Side, 2> sides_;  // by ClockKind
  std::vector<MailItem> mail_;
  std::vector<MailItem> put_off_;
  std::vector<Due> out_;
  bool more_to_sweep_ = false;
  Instant last_;  // never goes back on the boot face
  bool has_last_ = false;
  std::int64_t planned_boot_ns_ = kNever;  // when the sleep should have ended
  std::int64_t planned_wall_ns_ = kNever;
  std::uint64_t sequence_ = 0;
  Stats counters_;  // the tick thread's part
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_TICKER_H_
