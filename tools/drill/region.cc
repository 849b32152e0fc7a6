#include "region.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <countwheel/assert.h>

namespace countwheel::drill {

namespace {

// Each part starts on a cache line of its own.
constexpr std::uint64_t kAlignment = 64;

std::uint64_t aligned(std::uint64_t bytes) noexcept {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

struct Layout {
  std::uint64_t orders;
  std::uint64_t book;
  std::uint64_t commands;
  std::uint64_t stamps;
  std::uint64_t bytes;
};

Layout layout_of(std::uint64_t order_count,
                 std::uint64_t command_capacity,
                 std::uint64_t stamp_capacity) noexcept {
  Layout layout = {};
  layout.orders = aligned(sizeof(Control));
  layout.book = layout.orders + aligned(order_count * sizeof(PlannedOrder));
  layout.commands = layout.book + aligned(order_count * sizeof(BookWord));
  layout.stamps = layout.commands + aligned(command_capacity * sizeof(Command));
  layout.bytes = layout.stamps + aligned(stamp_capacity * sizeof(Stamp));
  return layout;
}

Status failure(const char* what) {
  return Status(Code::kResource,
                std::string("shared memory: ") + what + ": " + std::strerror(errno));
}

Result<std::byte*> map(int descriptor, std::uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    return failure("mmap");
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

Region::Region(int descriptor, std::byte* memory) noexcept
    : descriptor_(descriptor), control_(std::launder(reinterpret_cast<Control*>(memory))) {
  const Layout layout =
      layout_of(control_->order_count, control_->command_capacity, control_->stamp_capacity);
  orders_ = reinterpret_cast<PlannedOrder*>(memory + layout.orders);
  book_ = reinterpret_cast<BookWord*>(memory + layout.book);
  commands_ = reinterpret_cast<Command*>(memory + layout.commands);
  stamps_ = reinterpret_cast<Stamp*>(memory + layout.stamps);
}

Region::Region(Region&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      control_(std::exchange(other.control_, nullptr)),
      orders_(other.orders_),
      book_(other.book_),
      commands_(other.commands_),
      stamps_(other.stamps_) {}

Region::~Region() {
  if (control_ != nullptr) {
    munmap(control_, control_->bytes);
  }
  if (descriptor_ >= 0) {
    close(descriptor_);
  }
}

Result<Region> Region::create(const Plan& plan, std::uint64_t kill_count) {
  const std::uint64_t order_count = plan.orders.size();
  const std::uint64_t command_capacity = 3 * order_count + 16;
  const std::uint64_t capacity = stamp_capacity(order_count, kill_count);
  const Layout layout = layout_of(order_count, command_capacity, capacity);
  // Inherited by the service on purpose, hence no MFD_CLOEXEC.
  const int descriptor = memfd_create("countwheel-drill", 0);
  if (descriptor < 0) {
    return failure("memfd_create");
  }
  if (ftruncate(descriptor, static_cast<off_t>(layout.bytes)) != 0) {
    const Status status = failure("ftruncate");
    close(descriptor);
    return status;
  }
  Result<std::byte*> memory = map(descriptor, layout.bytes);
  if (!memory.ok()) {
    close(descriptor);
    return memory.status();
  }
  Control* control = new (*memory) Control;
  control->order_count = static_cast<std::uint32_t>(order_count);
  control->command_capacity = command_capacity;
  control->stamp_capacity = capacity;
  control->bytes = layout.bytes;
  Region region(descriptor, *memory);
  std::copy(plan.orders.begin(), plan.orders.end(), region.orders_);
  return region;
}

Result<Region> Region::attach(int descriptor) {
  struct stat facts = {};
  if (fstat(descriptor, &facts) != 0) {
    return failure("fstat");
  }
  if (static_cast<std::uint64_t>(facts.st_size) < sizeof(Control)) {
    return Status(Code::kInvalidArgument, "--child names no memory of a drill");
  }
  Result<std::byte*> memory = map(descriptor, static_cast<std::uint64_t>(facts.st_size));
  if (!memory.ok()) {
    return memory.status();
  }
  return Region(descriptor, *memory);
}

std::span<const PlannedOrder> Region::orders() const noexcept {
  return {orders_, control_->order_count};
}

Book Region::book() noexcept {
  return Book(book_, control_->order_count);
}

StampRing Region::ring() noexcept {
  return StampRing(&control_->stamps_claimed, stamps_, control_->stamp_capacity);
}

std::span<const Stamp> Region::stamps() const noexcept {
  const std::uint64_t claimed = control_->stamps_claimed.load(std::memory_order_acquire);
  return {stamps_, std::min(claimed, control_->stamp_capacity)};
}

void Region::push(Command command) noexcept {
  const std::uint64_t place = control_->command_count.load(std::memory_order_relaxed);
  COUNTWHEEL_ASSERT(place < control_->command_capacity);
  commands_[place] = command;
  // Release: partner of the acquire in read().
  control_->command_count.store(place + 1, std::memory_order_release);
}

bool Region::read(std::uint64_t place, Command* command) const noexcept {
  if (place >= control_->command_count.load(std::memory_order_acquire)) {
    return false;
  }
  *command = commands_[place];
  return true;
}

void copy_text(std::span<char> target, std::string_view source) noexcept {
  const std::size_t length = std::min(source.size(), target.size() - 1);
  std::copy_n(source.data(), length, target.data());
  target[length] = '\0';
}

}  // namespace countwheel::drill
