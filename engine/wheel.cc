#include <bit>
#include <sys/mman.h>

#include <countwheel/wheel.h>

namespace countwheel {
namespace {

// A ring beyond this is a typing error: 12 MiB of empty slots.
constexpr std::uint32_t kRingMax = 1U << 20;
// Offsets inside a slot are 32 bits, in milliseconds on the coarsest level.
constexpr std::uint64_t kOffsetMax = 0xffff'ffffULL;
constexpr std::uint32_t kMovesMax = 1U << 20;

std::string out_of_range(const char* field, std::uint64_t given, const std::string& allowed) {
  return std::string("wheel: ") + field + " is " + std::to_string(given) + ", allowed: " + allowed;
}

}  // namespace

void detail::advise_huge_pages(void* memory, std::size_t bytes) noexcept {
  madvise(memory, bytes, MADV_HUGEPAGE);
}

std::string wheel_options_error(const WheelOptions& options) {
  if (options.tick_ns <= 0) {
    return "wheel: tick_ns is " + std::to_string(options.tick_ns) + ", allowed: 1 or more";
  }
  for (std::size_t i = 0; i < options.span.size(); ++i) {
    const char* const name = i == 0 ? "span[0]" : "span[1]";
    if (options.span[i] < 2 || options.span[i] > kRingMax / 2) {
      return out_of_range(name, options.span[i], "2 to " + std::to_string(kRingMax / 2));
    }
  }
  for (std::size_t i = 0; i < options.ring.size(); ++i) {
    const char* const name = i == 0 ? "ring[0]" : i == 1 ? "ring[1]" : "ring[2]";
    if (!std::has_single_bit(options.ring[i]) || options.ring[i] > kRingMax) {
      return out_of_range(
          name, options.ring[i], "a power of two up to " + std::to_string(kRingMax));
    }
    const std::uint64_t least = i < options.span.size() ? 2ULL * options.span[i] : 4;
    if (options.ring[i] < least) {
      return out_of_range(name, options.ring[i], "at least " + std::to_string(least));
    }
  }
  if (options.moves_per_tick_max < 1 || options.moves_per_tick_max > kMovesMax) {
    return out_of_range(
        "moves_per_tick_max", options.moves_per_tick_max, "1 to " + std::to_string(kMovesMax));
  }
  const auto tick = static_cast<std::uint64_t>(options.tick_ns);
  if (tick > kOffsetMax / options.span[0]) {
    return out_of_range("tick_ns",
                        tick,
                        "at most " + std::to_string(kOffsetMax / options.span[0]) +
                            " with span[0] = " + std::to_string(options.span[0]));
  }
  if (tick * options.span[0] > kOffsetMax * 1'000'000 / options.span[1]) {
    return out_of_range("span[1]",
                        options.span[1],
                        "a slot of level 2 of at most " + std::to_string(kOffsetMax) + " ms");
  }
  if (options.precision != Precision::kExact && options.precision != Precision::kTick) {
    return out_of_range("precision", static_cast<std::uint64_t>(options.precision), "exact, tick");
  }
  return {};
}

template <class Node>
bool BasicTimingWheel<Node>::check_invariants(std::string* why) const {
  if (!core_.check_invariants(why)) {
    return false;
  }
  constexpr char kFiled = 1;
  constexpr char kFollows = 2;
  std::vector<char> seen(slab_.capacity(), 0);
  core_.for_each_entry([&](std::uint32_t index, bool matches, std::int64_t earliest_ns) {
    if (matches) {
      seen[index] = kFiled;
    } else if (seen[index] == 0 && earliest_ns <= slab_.deadline_of(index)) {
      seen[index] = kFollows;
    }
  });
  std::size_t live = 0;
  for (std::uint32_t index = 0; index < slab_.capacity(); ++index) {
    if (slab_.deadline_of(index) == kNotAlive) {
      continue;
    }
    ++live;
    if (seen[index] != kFiled && !(seen[index] == kFollows && slab_.is_moved(index))) {
      return detail::broken(
          why, "a timer lies in no slot that leads to it", index, seen[index] != 0);
    }
  }
  return live == slab_.live_count() ? true
                                    : detail::broken(why, "timers lost", live, slab_.live_count());
}

template bool BasicTimingWheel<detail::WheelNode>::check_invariants(std::string*) const;
template bool BasicTimingWheel<detail::WheelIndexNode>::check_invariants(std::string*) const;

}  // namespace countwheel
