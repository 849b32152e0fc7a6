#include <cstdio>
#include <string>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <countwheel/asio.h>
#include <countwheel/recovery.h>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using asio::use_awaitable;

asio::awaitable<void> session(countwheel::Engine& engine, countwheel::timer& silence) {
  co_await countwheel::async_schedule(
      engine, {"order.expire", countwheel::after(100ms), "order-1"}, use_awaitable);
  std::puts("order-1 accepted");  // on disk: from here on no crash loses its expiry
  co_await countwheel::async_schedule(
      engine, {"order.expire", countwheel::after(100ms), "order-2"}, use_awaitable);
  countwheel::Change change = co_await countwheel::async_cancel(engine, "order-2", use_awaitable);
  std::printf("order-2 %s\n", change.status.text().c_str());
  co_await silence.async_wait(asio::as_tuple(use_awaitable));  // a minute, or until it is set again
  std::puts("session closed");
}

int main() {
  auto opened = countwheel::open("session.countwheel");
  if (!opened.ok()) return std::puts(opened.status().text().c_str()), 1;
  countwheel::Engine& engine = *opened->engine;
  asio::io_context io;
  countwheel::timer silence(io, 1min);
  (void)engine.on("order.expire", [&](countwheel::Delivery delivery) {  // on the engine's pool
    asio::post(io, [&, key = std::string(delivery.key())] {
      std::printf("%s expired\n", key.c_str());
      silence.expires_after(0s);
    });
    (void)delivery.done();
  });
  (void)engine.start();
  asio::co_spawn(io, session(engine, silence), asio::detached);
  io.run();
  (void)engine.stop();
}
