// Notice: how an engine tells a caller that waits without a thread.
//
// Engine::notify_durable() takes one instead of blocking. It is the seam on which countwheel/asio.h
// stands, and any other event loop can: run() puts the answer where the loop finds it and returns.
#ifndef COUNTWHEEL_NOTICE_H_
#define COUNTWHEEL_NOTICE_H_

#include <countwheel/status.h>

namespace countwheel {

// A function and its argument; copying it costs nothing and allocates nothing.
struct Notice {
  // Called once, by whichever thread commits, without a lock. Must not block, and must not call an
  // engine: the next commit waits for it.
  void (*run)(void* argument, const Status& status) noexcept = nullptr;
  // Tells notices of one LSN apart: no two that wait may share it.
  void* argument = nullptr;
};

}  // namespace countwheel

#endif  // COUNTWHEEL_NOTICE_H_
