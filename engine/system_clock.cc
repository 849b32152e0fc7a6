#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <countwheel/clock.h>

namespace countwheel {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;

std::int64_t read_clock(clockid_t id) noexcept {
  timespec time{};
  clock_gettime(id, &time);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

// Owns one descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const noexcept { return fd_; }
  bool valid() const noexcept { return fd_ >= 0; }

 private:
  int fd_;
};

// Two absolute timers and an event descriptor behind one ppoll. Neither futex nor condition
// variables know the boot clock, and a sleep on one clock misses the steps of the other.
class SystemSleeper final : public Sleeper {
 public:
  SystemSleeper()
      : boot_(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC)),
        wall_(timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC)),
        event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  bool valid() const noexcept { return boot_.valid() && wall_.valid() && event_.valid(); }

  void wait(Instant until) noexcept override {
    if (!slack_set_) {
      // The default of 50 us would be added to every wake-up of this thread.
      prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
      slack_set_ = true;
    }
    arm(boot_.get(), until.boot_ns, 0, &boot_armed_ns_);
    // Cancel-on-set makes a step of the wall clock end the sleep.
    arm(wall_.get(), until.wall_ns, TFD_TIMER_CANCEL_ON_SET, &wall_armed_ns_);
    pollfd descriptors[3] = {
        {boot_.get(), POLLIN, 0}, {wall_.get(), POLLIN, 0}, {event_.get(), POLLIN, 0}};
    if (poll(descriptors, 3, -1) <= 0) {
      return;  // EINTR: the caller looks at the clock again.
    }
    std::uint64_t value = 0;
    if (descriptors[0].revents != 0 && read(boot_.get(), &value, sizeof value) != 0) {
      boot_armed_ns_ = 0;
    }
    if (descriptors[1].revents != 0 && read(wall_.get(), &value, sizeof value) != 0) {
      wall_armed_ns_ = 0;  // Expired, or ECANCELED: the wall was set. Both disarm it.
    }
    if (descriptors[2].revents != 0) {
      [[maybe_unused]] const ssize_t got = read(event_.get(), &value, sizeof value);
    }
  }

  void wake() noexcept override {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
  }

 private:
  // A timer that is already armed for this moment is left alone: a system call saved.
  static void arm(int fd, std::int64_t until_ns, int flags, std::int64_t* armed_ns) noexcept {
    // Far away is 100 years from 1970 or boot and more: never in practice, no overflow in timespec.
    const std::int64_t at_ns = std::max<std::int64_t>(until_ns, 1);
    if (at_ns == *armed_ns) {
      return;
    }
    itimerspec spec{};
    spec.it_value.tv_sec = at_ns / kNsPerSecond;
    spec.it_value.tv_nsec = at_ns % kNsPerSecond;
    timerfd_settime(fd, TFD_TIMER_ABSTIME | flags, &spec, nullptr);
    *armed_ns = at_ns;
  }

  Descriptor boot_;
  Descriptor wall_;
  Descriptor event_;
  // Used by the sleeping thread alone.
  std::int64_t boot_armed_ns_ = 0;
  std::int64_t wall_armed_ns_ = 0;
  bool slack_set_ = false;
};

std::int64_t read_boot_offset() {
  // Lines of "clock seconds nanoseconds"; absent without time namespaces.
  std::ifstream file("/proc/self/timens_offsets");
  std::string clock;
  std::int64_t seconds = 0;
  std::int64_t ns = 0;
  while (file >> clock >> seconds >> ns) {
    if (clock == "boottime" || clock == "7") {
      return seconds * kNsPerSecond + ns;
    }
  }
  return 0;
}

}  // namespace

std::uint64_t Session::hash() const noexcept {
  // FNV-1a, 64 bits; spelled out because the value is persistent.
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  const auto mix = [&hash](std::uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3ULL; };
  for (const char c : boot_id) {
    mix(static_cast<std::uint8_t>(c));
  }
  for (int shift = 0; shift < 64; shift += 8) {
    mix(static_cast<std::uint8_t>(static_cast<std::uint64_t>(boot_offset_ns) >> shift));
  }
  return hash;
}

Instant SystemClock::now() const noexcept {
  return {read_clock(CLOCK_REALTIME), read_clock(CLOCK_BOOTTIME)};
}

std::int64_t SystemClock::now_on(ClockKind clock) const noexcept {
  return read_clock(clock == ClockKind::kWall ? CLOCK_REALTIME : CLOCK_BOOTTIME);
}

Session SystemClock::session() const {
  Session session;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  file.read(session.boot_id.data(), static_cast<std::streamsize>(session.boot_id.size()));
  session.boot_offset_ns = read_boot_offset();
  return session;
}

std::unique_ptr<Sleeper> SystemClock::make_sleeper() {
  auto sleeper = std::make_unique<SystemSleeper>();
  return sleeper->valid() ? std::move(sleeper) : nullptr;
}

SystemClock& SystemClock::instance() {
  static SystemClock clock;
  return clock;
}

}  // namespace countwheel
