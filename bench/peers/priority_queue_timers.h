// std::priority_queue with lazy deletion: a cancelled or moved timer leaves its entry behind, and
// the queue is made anew when more than half of it is such.
#ifndef COUNTWHEEL_BENCH_PEERS_PRIORITY_QUEUE_TIMERS_H_
#define COUNTWHEEL_BENCH_PEERS_PRIORITY_QUEUE_TIMERS_H_

#include <queue>

#include "peers/timer_peer.h"

namespace countwheel::bench {

class PriorityQueueTimers : public TimerPeerBase {
 public:
  static constexpr const char* kName = "priority_queue";

  explicit PriorityQueueTimers(std::size_t timer_count) : generations_(timer_count, 0) {}

  void schedule(std::uint32_t timer, std::int64_t deadline_ns) {
    queue_.push({deadline_ns, timer, generations_[timer]});
    ++live_count_;
  }
  void cancel(std::uint32_t timer) {
    ++generations_[timer];
    --live_count_;
    tidy();
  }
  void reschedule(std::uint32_t timer, std::int64_t deadline_ns) {
    queue_.push({deadline_ns, timer, ++generations_[timer]});
    tidy();
  }
  void advance(std::int64_t now_ns) {
    while (!queue_.empty() && queue_.top().deadline_ns <= now_ns) {
      const Entry entry = queue_.top();
      queue_.pop();
      if (is_live(entry)) {
        ++generations_[entry.timer];
        --live_count_;
        expiries_.note(entry.timer);
      }
    }
  }

 private:
  struct Entry {
    std::int64_t deadline_ns;
    std::uint32_t timer;
    std::uint32_t generation;
    bool operator<(const Entry& other) const { return deadline_ns > other.deadline_ns; }
  };

  bool is_live(const Entry& entry) const { return generations_[entry.timer] == entry.generation; }

  void tidy() {
    constexpr std::size_t kSmall = 64;
    if (queue_.size() <= 2 * live_count_ + kSmall) {
      return;
    }
    queue_.remove_dead(*this);
  }

  class Queue : public std::priority_queue<Entry> {
   public:
    void remove_dead(const PriorityQueueTimers& timers) {
      std::erase_if(c, [&](const Entry& entry) { return !timers.is_live(entry); });
      std::make_heap(c.begin(), c.end(), comp);
    }
  };

  Queue queue_;
  std::vector<std::uint32_t> generations_;
  std::size_t live_count_ = 0;
};

static_assert(TimerPeer<PriorityQueueTimers>);

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_PRIORITY_QUEUE_TIMERS_H_
