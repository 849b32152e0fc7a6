#include "fork_guard.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <pthread.h>
#include <unistd.h>

namespace countwheel::wal {
namespace {

// More open directories than that in one process: the lock of the others is inherited by children,
// which only delays the next opener until they exit.
constexpr std::size_t kPlaces = 256;
constexpr int kFree = -1;
constexpr int kNoPlace = -1;

struct Registry {
  Registry() {
    for (std::atomic<int>& place : descriptors) {
      place.store(kFree, std::memory_order_relaxed);
    }
  }
  std::atomic<std::uint32_t> forks{0};  // that this process is away from the first with a log
  std::array<std::atomic<int>, kPlaces> descriptors;
};

Registry& registry() {
  static Registry instance;
  return instance;
}

// Runs in the child, between fork() and its return: only what a signal handler may do.
void poison_child() {
  Registry& all = registry();
  all.forks.fetch_add(1, std::memory_order_relaxed);
  for (std::atomic<int>& place : all.descriptors) {
    const int descriptor = place.exchange(kFree, std::memory_order_relaxed);
    if (descriptor != kFree) {
      ::close(descriptor);
    }
  }
}

void watch_forks() {
  static const int result = pthread_atfork(nullptr, nullptr, poison_child);
  static_cast<void>(result);
}

}  // namespace

ForkGuard::ForkGuard(int lock_descriptor)
    : forks_at_birth_(registry().forks.load(std::memory_order_relaxed)), place_(kNoPlace) {
  watch_forks();
  if (lock_descriptor < 0) {
    return;
  }
  for (std::size_t i = 0; i < kPlaces && place_ == kNoPlace; ++i) {
    int expected = kFree;
    if (registry().descriptors[i].compare_exchange_strong(expected, lock_descriptor)) {
      place_ = static_cast<int>(i);
    }
  }
}

ForkGuard::~ForkGuard() {
  if (place_ != kNoPlace && !forked()) {
    registry().descriptors[static_cast<std::size_t>(place_)].store(kFree);
  }
}

// The handler is installed by the first log of a process, so it counts no earlier forks.
bool ForkGuard::threads_lost() noexcept {
  return registry().forks.load(std::memory_order_relaxed) != 0;
}

// Relaxed: a child has one thread, and only fork() changes the count.
bool ForkGuard::forked() const noexcept {
  return registry().forks.load(std::memory_order_relaxed) != forks_at_birth_;
}

}  // namespace countwheel::wal
