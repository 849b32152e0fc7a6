// Doubly linked lists of timers, one a slot, in one array: what the textbook wheels are made of.
#ifndef COUNTWHEEL_BENCH_PEERS_TIMER_LISTS_H_
#define COUNTWHEEL_BENCH_PEERS_TIMER_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace countwheel::bench {

// Timers are numbered from 0, slots too. A timer is in at most one list.
class TimerLists {
 public:
  TimerLists(std::size_t timer_count, std::size_t slot_count)
      : heads_from_(static_cast<std::uint32_t>(timer_count)), nodes_(timer_count + slot_count) {
    for (std::size_t slot = 0; slot < slot_count; ++slot) {
      const std::uint32_t head = heads_from_ + static_cast<std::uint32_t>(slot);
      nodes_[head] = {.next = head, .before = head};
    }
  }

  std::int64_t tick(std::uint32_t timer) const { return nodes_[timer].tick; }

  // Behind those that are there, due at `tick`.
  void append(std::size_t slot, std::uint32_t timer, std::int64_t tick) {
    const std::uint32_t head = heads_from_ + static_cast<std::uint32_t>(slot);
    const std::uint32_t last = nodes_[head].before;
    nodes_[timer] = {.next = head, .before = last, .tick = tick};
    nodes_[last].next = timer;
    nodes_[head].before = timer;
  }

  void remove(std::uint32_t timer) {
    const Node& node = nodes_[timer];
    nodes_[node.before].next = node.next;
    nodes_[node.next].before = node.before;
  }

  // Calls visit(timer) for what is in the list now; it may remove the timer or file it elsewhere.
  template <class Visit>
  void for_each(std::size_t slot, Visit&& visit) {
    const std::uint32_t head = heads_from_ + static_cast<std::uint32_t>(slot);
    std::uint32_t timer = nodes_[head].next;
    while (timer != head) {
      const std::uint32_t next = nodes_[timer].next;
      visit(timer);
      timer = next;
    }
  }

 private:
  struct Node {
    std::uint32_t next = 0;
    std::uint32_t before = 0;
    std::int64_t tick = 0;
  };

  std::uint32_t heads_from_;
  std::vector<Node> nodes_;
};

}  // namespace countwheel::bench

#endif  // COUNTWHEEL_BENCH_PEERS_TIMER_LISTS_H_
