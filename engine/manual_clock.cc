#include <condition_variable>
#include <cstdio>
#include <mutex>

#include <countwheel/clock.h>

namespace countwheel {

// 2026-01-05T09:00:00Z.
inline constexpr std::int64_t kManualStartWall = 1'767'603'600'000'000'000;

struct ManualClock::Shared {
  mutable std::mutex mutex;
  std::condition_variable moved;
  // Guarded by mutex.
  Instant now;
  std::uint64_t life = 1;  // ascends with reboot()
};

class ManualClock::ManualSleeper final : public Sleeper {
 public:
  explicit ManualSleeper(Shared& shared) : shared_(shared) {}

  void wait(Instant until) noexcept override {
    std::unique_lock lock(shared_.mutex);
    shared_.moved.wait(lock, [&] {
      return woken_ || shared_.now.wall_ns >= until.wall_ns || shared_.now.boot_ns >= until.boot_ns;
    });
    woken_ = false;
  }

  void wake() noexcept override {
    {
      const std::lock_guard lock(shared_.mutex);
      woken_ = true;
    }
    shared_.moved.notify_all();
  }

 private:
  Shared& shared_;
  bool woken_ = false;  // guarded by shared_.mutex
};

ManualClock::ManualClock() : ManualClock(Instant{kManualStartWall, 0}) {}

ManualClock::ManualClock(Instant start) : shared_(std::make_unique<Shared>()) {
  shared_->now = start;
}

ManualClock::~ManualClock() = default;

Instant ManualClock::now() const noexcept {
  const std::lock_guard lock(shared_->mutex);
  return shared_->now;
}

Session ManualClock::session() const {
  const std::lock_guard lock(shared_->mutex);
  Session session;
  std::snprintf(session.boot_id.data(),
                session.boot_id.size(),
                "manual-clock-%020llu",
                static_cast<unsigned long long>(shared_->life));
  return session;
}

std::unique_ptr<Sleeper> ManualClock::make_sleeper() {
  return std::make_unique<ManualSleeper>(*shared_);
}

void ManualClock::advance(std::chrono::nanoseconds by) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->now.wall_ns += by.count();
    shared_->now.boot_ns += by.count();
  }
  shared_->moved.notify_all();
}

void ManualClock::step_wall(std::chrono::nanoseconds by) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->now.wall_ns += by.count();
  }
  shared_->moved.notify_all();
}

void ManualClock::suspend(std::chrono::nanoseconds by) {
  const std::lock_guard lock(shared_->mutex);
  shared_->now.wall_ns += by.count();
  shared_->now.boot_ns += by.count();
}

void ManualClock::set(Instant instant) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->now = instant;
  }
  shared_->moved.notify_all();
}

void ManualClock::reboot(std::int64_t boot_ns) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->now.boot_ns = boot_ns;
    ++shared_->life;
  }
  shared_->moved.notify_all();
}

}  // namespace countwheel
