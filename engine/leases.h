// Leases: which attempts of types with a lease are running, and until when each may.
//
// An attempt ends once: by its answer or by the end of its lease, whichever takes it out of here
// first. After the end of its lease it is fenced: the task goes on as attempt n + 1, and this
// attempt's answer is stale. Knows no clock and no thread; `now` and ends are on the boot clock.
//
// Time in which nobody could work, because the machine or the process stood still, is not counted:
// whoever watches looks often, and a look that is much too late shifts all ends.
#ifndef COUNTWHEEL_ENGINE_LEASES_H_
#define COUNTWHEEL_ENGINE_LEASES_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <countwheel/clock.h>

#include "in_flight.h"

namespace countwheel::detail {

// One attempt with a lease. Has the bytes of its task to itself: a fenced handler may still read
// them when the slot has another tenant.
struct Lease {
  explicit Lease(const InFlight& started)
      : in_flight(started), bytes(started.node->key()), key_bytes(bytes.size()) {
    bytes += started.node->payload();
    in_flight.lease = this;
  }

  std::string_view key() const noexcept { return std::string_view(bytes).substr(0, key_bytes); }
  std::string_view payload() const noexcept { return std::string_view(bytes).substr(key_bytes); }

  InFlight in_flight;
  std::string bytes;
  std::size_t key_bytes;
  std::int64_t ends_ns = 0;  // before shifts; guarded by Leases
  std::atomic<bool> over{false};
};

// Thread contract: safe for concurrent use.
class Leases {
 public:
  // How often to look while there is anything to watch.
  static constexpr std::int64_t kBeatNs = 100'000'000;

  // True when it is the only one: nobody has been watching.
  bool begin(Lease* lease, std::int64_t now_ns, std::int64_t length_ns);
  // The attempt has been answered. False when its lease was over before.
  bool finish(Lease* lease);
  // Not before its present end. False when it is over.
  bool extend(Lease* lease, std::int64_t ends_ns);

  // The earliest end, or kNever.
  std::int64_t next() const;
  // Fences what ends at `now_ns` or before and answers copies, earliest first.
  std::vector<InFlight> take_over(std::int64_t now_ns);
  // Somebody watches. Later than planned by more than a beat: all ends are as much later.
  void look(std::int64_t now_ns);

  // Fenced and not answered: handlers that hang, or are very late.
  std::vector<TaskId> fenced() const;
  std::size_t fenced_count() const;
  std::uint64_t over_count() const noexcept { return over_count_.load(std::memory_order_relaxed); }

 private:
  using Entry = std::pair<std::int64_t, Lease*>;

  mutable std::mutex mutex_;
  std::int64_t shift_ns_ = 0;   // guarded by mutex_; to add to every end
  std::int64_t looked_ns_ = 0;  // guarded by mutex_; when somebody looked, or the first began
  std::set<Entry> running_;     // guarded by mutex_
  std::set<Lease*> fenced_;     // guarded by mutex_
  std::atomic<std::uint64_t> over_count_{0};
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_LEASES_H_
