// Random: numbers that are the same for a seed on every machine.
//
// The engine of the standard library is; its distributions are not, hence the few lines here.
#ifndef COUNTWHEEL_TOOLS_DRILL_RANDOM_H_
#define COUNTWHEEL_TOOLS_DRILL_RANDOM_H_

#include <cstdint>
#include <random>

namespace countwheel::drill {

// Thread contract: distinct objects: safe. Shared objects: unsafe.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // In [0, 1).
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }

  // In [0, bound). REQUIRES: bound > 0. The bias of the remainder is below 2^-32 here.
  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }

 private:
  std::mt19937_64 engine_;
};

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_RANDOM_H_
