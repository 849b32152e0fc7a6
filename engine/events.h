// Events: from the group commit to the listener, in order and one at a time.
//
// Added under the leader's lock, called without it by whoever has led: the commit thread, a caller
// that waits, or poll(). Never by the tick thread.
#ifndef COUNTWHEEL_ENGINE_EVENTS_H_
#define COUNTWHEEL_ENGINE_EVENTS_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include <countwheel/event.h>

namespace countwheel::detail {

// Thread contract: listen() before anything is added; the others from any thread.
class Events {
 public:
  // False when somebody listens already.
  bool listen(Listener listener) {
    if (listening_.load(std::memory_order_relaxed)) {
      return false;
    }
    listener_ = std::move(listener);
    listening_.store(true, std::memory_order_release);
    return true;
  }
  bool anybody() const noexcept { return listening_.load(std::memory_order_acquire); }

  void add(Event event) {
    const std::lock_guard lock(mutex_);
    event.sequence = ++last_;
    waiting_.push_back(std::move(event));
  }

  // Calls the listener with what waits, unless somebody is doing so: they will see the rest. A
  // listener may call the engine, which may come by here again.
  void deliver() {
    if (!anybody()) {
      return;
    }
    std::unique_lock lock(mutex_);
    if (delivering_) {
      return;
    }
    delivering_ = true;
    while (!waiting_.empty()) {
      const Event event = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      listener_(event);
      lock.lock();
    }
    delivering_ = false;
  }

 private:
  std::atomic<bool> listening_{false};
  Listener listener_;
  std::mutex mutex_;
  std::deque<Event> waiting_;  // guarded by mutex_
  std::uint64_t last_ = 0;     // guarded by mutex_
  bool delivering_ = false;    // guarded by mutex_
};

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_EVENTS_H_
