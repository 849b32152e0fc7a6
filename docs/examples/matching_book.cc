// An order book and the expiries of its orders, in one database: killed in the middle of an expiry,
// it goes on where it was, and the order has expired once.
#include <csignal>
#include <latch>
#include <sys/wait.h>
#include <unistd.h>

#include "matching_book.h"

using namespace std::chrono_literals;
using countwheel::after;

namespace {

countwheel::Opened open_book() {
  countwheel::OpenOptions options;
  options.wal.app_column_families = example::Book::kTables;
  return std::move(*countwheel::open("book.countwheel", options));
}

void say_expiry(const example::Order& order, int attempt) {
  std::printf("%s expires with %lld, attempt %d\n", order.id.c_str(), order.quantity, attempt);
}

void add(example::Book& book, const example::Order& order, countwheel::Deadline deadline) {
  const auto fills = book.add(order, deadline);
  std::printf("%s %lld at %lld:", order.id.c_str(), order.quantity, order.price);
  for (const example::Fill& fill : *fills)
    std::printf(" %lld from %s", fill.quantity, fill.maker.c_str());
  std::printf(fills->empty() ? " no fill\n" : "\n");
}

[[noreturn]] void first_life() {
  countwheel::Opened opened = open_book();
  std::latch never(1);
  example::Book book(*opened.engine, [](const example::Order& order, int attempt) {
    say_expiry(order, attempt);
    (void)std::raise(SIGKILL);  // the worst moment: decided, and not written
  });
  add(book, {"sell-1", false, 101, 100}, after(1s));
  add(book, {"sell-2", false, 102, 100}, after(1h));
  add(book, {"buy-1", true, 101, 40}, after(1h));  // sell-1 keeps its one expiry, for 60
  (void)opened.engine->start();
  never.wait();
  std::_Exit(1);
}

void second_life() {
  countwheel::Opened opened = open_book();
  std::latch expired(1);
  example::Book book(*opened.engine, [&expired](const example::Order& order, int attempt) {
    say_expiry(order, attempt);
    expired.count_down();
  });
  for (const example::Order& order : book.orders())
    std::printf("%s rests with %lld\n", order.id.c_str(), order.quantity);
  // sell-1 is past its deadline. Its expiry has not been handed over, and yet it is not matched.
  add(book, {"buy-2", true, 102, 70}, after(1h));
  (void)opened.engine->start();
  expired.wait();
  std::printf("cancel sell-2: %s\n", book.cancel("sell-2").text().c_str());
  for (const std::string& line : book.ledger()) std::printf("ledger: %s\n", line.c_str());
  (void)opened.engine->stop();
}

}  // namespace

int main() {
  (void)std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const pid_t child = fork();
  if (child == 0) first_life();
  int status = 0;
  (void)waitpid(child, &status, 0);
  std::printf("killed by signal %d\n", WTERMSIG(status));
  second_life();
}
