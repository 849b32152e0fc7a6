// What EngineOptions::tick_thread says: how the thread waits, and what it asks of the kernel.
#ifndef COUNTWHEEL_ENGINE_TICK_THREAD_H_
#define COUNTWHEEL_ENGINE_TICK_THREAD_H_

#include <memory>
#include <pthread.h>
#include <string>

#include <countwheel/clock.h>
#include <countwheel/options.h>

namespace countwheel::detail {

// A sleeper of `clock` that waits as `options` say. Null when the system has no descriptors left.
std::unique_ptr<Sleeper> make_tick_sleeper(Clock& clock, const TickThreadOptions& options);

// Answers what the kernel refused, for people; empty when nothing.
std::string set_up_tick_thread(pthread_t thread, const TickThreadOptions& options);

}  // namespace countwheel::detail

#endif  // COUNTWHEEL_ENGINE_TICK_THREAD_H_
