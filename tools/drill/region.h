// Region: the memory that the parent shares with the timer service it kills.
//
// It holds what the service needs to know, the commands of the gateway, the book and the stamps.
// The parent owns it; a service attaches to the descriptor it inherits and may die at any moment
// without taking anything along. Only fixed-size types and lock-free atomics live in it.
#ifndef COUNTWHEEL_TOOLS_DRILL_REGION_H_
#define COUNTWHEEL_TOOLS_DRILL_REGION_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <countwheel/status.h>
#include <countwheel/task.h>

#include "book.h"
#include "plan.h"
#include "stamp_ring.h"

namespace countwheel::drill {

// A fault that the service commits on purpose, once, so that the audit has something to find.
enum class Plant : std::uint8_t {
  kNone = 0,
  kLost = 1,    // answers a schedule without making it
  kDup = 2,     // runs a handler twice
  kEarly = 3,   // schedules an order for now
  kRevive = 4,  // answers a cancel without making it
};

enum class ServicePhase : std::uint32_t {
  kOpening = 0,
  kRecovered = 1,  // `recovery` is filled; commands are taken, nothing falls due yet
  kServing = 2,
  kStopped = 3,  // in order; `totals` is filled
  kFailed = 4,   // `error` says why
};

// What the service found when it opened the log.
struct RecoveryRecord {
  std::uint64_t live = 0;
  std::uint64_t overdue = 0;
  std::uint64_t redelivered = 0;
  std::uint64_t ops = 0;
  std::uint64_t torn_bytes = 0;
  double seconds = 0;
};

// What the engine counted in the last life of the service.
struct ServiceTotals {
  std::uint64_t ops = 0;
  std::uint64_t elided = 0;
  std::uint64_t commits = 0;
  std::uint64_t syncs = 0;
  std::uint64_t handover_p50_ns = 0;  // lateness when a task is handed to the pool
  std::uint64_t handover_p99_ns = 0;
};

enum class CommandKind : std::uint32_t { kSchedule = 0, kCancel = 1, kStart = 2, kStop = 3 };

struct Command {
  CommandKind kind = CommandKind::kSchedule;
  std::uint32_t order = 0;
};

struct Control {
  // Constant once a service runs.
  std::uint32_t order_count = 0;
  std::uint64_t stamp_capacity = 0;
  std::uint64_t command_capacity = 0;
  std::uint64_t bytes = 0;
  Durability durability = Durability::kDisk;
  bool tick_precision = false;
  Plant plant = Plant::kNone;
  std::array<char, 4096> directory = {};

  // Of the whole drill.
  std::atomic<std::uint64_t> stamps_claimed{0};
  std::atomic<std::int64_t> start_wall_ns{0};  // set before the first command

  // Of one life of the service; set by the parent before it starts.
  std::atomic<std::uint16_t> life{0};
  std::atomic<std::uint64_t> command_count{0};
  // A kill is near: handlers and answers take their time, so that it finds work in flight.
  std::atomic<bool> linger{false};
  std::atomic<bool> plant_now{false};

  // Written by the service.
  std::atomic<ServicePhase> phase{ServicePhase::kOpening};
  std::atomic<std::uint64_t> written_lsn{0};
  RecoveryRecord recovery;
  ServiceTotals totals;
  std::atomic<std::uint64_t> synced_lsn{0};
  std::array<char, 1024> error = {};
};

// Thread contract: the region itself is constant; its parts say theirs.
class Region {
 public:
  // Commands of one life: each order sent again, scheduled and cancelled at most once.
  static Result<Region> create(const Plan& plan, std::uint64_t kill_count);
  // In the service.
  static Result<Region> attach(int descriptor);

  Region(Region&& other) noexcept;
  Region& operator=(Region&&) = delete;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  int descriptor() const noexcept { return descriptor_; }
  Control& control() noexcept { return *control_; }
  std::span<const PlannedOrder> orders() const noexcept;
  Book book() noexcept;
  StampRing ring() noexcept;
  // The stamps as they lie there: for the audit, when all writers are gone.
  std::span<const Stamp> stamps() const noexcept;

  // By the parent. REQUIRES: there is room, which there is by construction.
  void push(Command command) noexcept;
  // By the service: the command at `place`, false while there is none.
  bool read(std::uint64_t place, Command* command) const noexcept;

 private:
  Region(int descriptor, std::byte* memory) noexcept;

  int descriptor_;
  Control* control_;
  PlannedOrder* orders_ = nullptr;
  BookWord* book_ = nullptr;
  Command* commands_ = nullptr;
  Stamp* stamps_ = nullptr;
};

// Cut to fit, always ended by a zero.
void copy_text(std::span<char> target, std::string_view source) noexcept;

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_REGION_H_
