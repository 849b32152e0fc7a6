// A user with an event loop of Asio: a task is scheduled without a thread that waits, and a timer
// of the loop runs on our wheel.
#include <chrono>
#include <cstdio>

#include <boost/asio/io_context.hpp>

#include <countwheel/asio.h>

int main() {
  auto engine = countwheel::Engine::create({});
  if (!engine.ok() || !(*engine)->start().ok()) {
    return 1;
  }
  boost::asio::io_context io;
  int completed = 0;
  countwheel::async_schedule(
      io.get_executor(),
      **engine,
      {.type = "greet", .deadline = countwheel::after(std::chrono::hours(1))},
      [&](boost::system::error_code error, countwheel::TaskId id) {
        completed += !error && (*engine)->find(id).ok() ? 1 : 0;
      });
  countwheel::timer timer(io, std::chrono::milliseconds(10));
  timer.async_wait([&](boost::system::error_code error) { completed += error ? 0 : 1; });
  io.run();
  std::printf("%d of 2\n", completed);
  return completed == 2 ? 0 : 2;
}
