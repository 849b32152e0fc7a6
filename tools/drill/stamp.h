// Stamp: one moment of the drill, as a witness wrote it down.
//
// The history of a drill is a list of stamps in memory that belongs to the parent process, so it
// survives the kill -9 of the process that wrote it. A call is stamped before it begins and after
// it has returned, a handler first thing and last thing: what happened in between is inside.
#ifndef COUNTWHEEL_TOOLS_DRILL_STAMP_H_
#define COUNTWHEEL_TOOLS_DRILL_STAMP_H_

#include <cstdint>

namespace countwheel::drill {

enum class StampKind : std::uint8_t {
  kNone = 0,  // Claimed and never written: the writer was killed in between.
  kScheduleBegin = 1,
  kScheduleReturn = 2,  // code; detail = LSN, 0 when nothing was logged
  kCancelBegin = 3,
  kCancelReturn = 4,  // code; detail = LSN, 0 when nothing was logged
  kStart = 5,         // of a handler; detail = attempt, code = ok or what is wrong with the bytes
  kEnd = 6,           // of a handler, all its effects behind it, done() ahead of it
  kDoneDurable = 7,   // its completion is written where kill -9 cannot take it back
  kServing = 8,       // the engine has started; order is unused
  kKill = 9,          // the process is gone; order is unused
};

struct Stamp {
  std::int64_t boot_ns = 0;
  std::int64_t wall_ns = 0;
  std::uint64_t detail = 0;
  std::uint32_t order = 0;
  StampKind kind = StampKind::kNone;
  std::uint8_t code = 0;   // a countwheel::Code
  std::uint16_t life = 0;  // of the service; every kill ends one
};

static_assert(sizeof(Stamp) == 32, "two stamps a cache line");

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_STAMP_H_
