#include <algorithm>
#include <cmath>

#include <countwheel/stats.h>

namespace countwheel {
namespace {

// Values below 8 have a bucket each; above, the three bits behind the leading one choose.
std::size_t bucket_of(std::uint64_t value) noexcept {
  if (value < 8) {
    return static_cast<std::size_t>(value);
  }
  const auto exponent = static_cast<unsigned>(std::bit_width(value)) - 1;  // >= 3
  return std::size_t{exponent - 2} * 8 + ((value >> (exponent - 3)) & 7);
}

std::uint64_t upper_edge(std::size_t bucket) noexcept {
  if (bucket < 8) {
    return bucket;
  }
  const std::size_t exponent = bucket / 8 + 2;
  const std::uint64_t eighth = std::uint64_t{1} << (exponent - 3);
  return (8 + bucket % 8) * eighth + (eighth - 1);
}

static_assert(Histogram::kBuckets == (63 - 2) * 8 + 8, "one bucket for every 64-bit value");

}  // namespace

void Histogram::add(std::uint64_t value, std::uint64_t times) noexcept {
  buckets_[bucket_of(value)] += times;
  count_ += times;
  max_ = std::max(max_, value);
}

void Histogram::merge(const Histogram& other) noexcept {
  for (std::size_t i = 0; i < kBuckets; ++i) {
    buckets_[i] += other.buckets_[i];
  }
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

std::uint64_t Histogram::quantile(double q) const noexcept {
  if (count_ == 0) {
    return 0;
  }
  const double clamped = std::clamp(q, 0.0, 1.0);
  const auto rank = static_cast<std::uint64_t>(std::ceil(clamped * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= std::max<std::uint64_t>(rank, 1)) {
      return std::min(upper_edge(i), max_);
    }
  }
  return max_;
}

}  // namespace countwheel
