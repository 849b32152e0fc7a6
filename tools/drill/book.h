// Book: the matching engine's book of record, in shared memory.
//
// Orders rest until they are filled, cancelled or expired; a partial fill leaves the rest of the
// order, with its expiry. The gateway (the parent process) fills and cancels; a handler of the
// timer service (another process) asks the book before it expires an order. Who comes first is
// decided by one compare-and-swap on the order's word: that is the race rule of every venue, and
// the reason why a timer never decides by itself that an order has expired.
#ifndef COUNTWHEEL_TOOLS_DRILL_BOOK_H_
#define COUNTWHEEL_TOOLS_DRILL_BOOK_H_

#include <atomic>
#include <cstdint>

namespace countwheel::drill {

enum class OrderState : std::uint8_t {
  kAbsent = 0,
  kOpen = 1,
  kFilled = 2,
  kCancelled = 3,
  kExpired = 4,
};

// {state 8, quantity 56}: what is open while the order rests, what was left when it ended.
using BookWord = std::atomic<std::uint64_t>;
static_assert(BookWord::is_always_lock_free, "the word is shared between processes");

inline constexpr std::int64_t kMaxQuantity = (std::int64_t{1} << 56) - 1;

// Quantities of a whole book. At rest: arrived = traded + withdrawn + expired.
struct BookTotals {
  std::int64_t arrived = 0;
  std::int64_t traded = 0;
  std::int64_t withdrawn = 0;  // cancelled, whole or in part
  std::int64_t expired = 0;
  std::int64_t open = 0;
  std::uint64_t partial_fill_count = 0;
};

// Thread contract: expire() and the readers are safe for concurrent use; rest(), reduce(), fill()
// and cancel() belong to the gateway's thread. Borrows its memory.
class Book {
 public:
  // `words` are zero and must outlive the book.
  Book(BookWord* words, std::uint32_t order_count) noexcept
      : words_(words), order_count_(order_count) {}

  void rest(std::uint32_t order, std::int64_t quantity) noexcept;
  // True if and only if the order was open and still is, with less. Never to 0: that is a fill.
  bool reduce(std::uint32_t order, std::int64_t quantity, bool traded) noexcept;
  // True if and only if the order was open: it is not any more.
  bool fill(std::uint32_t order) noexcept;
  bool cancel(std::uint32_t order) noexcept;
  bool expire(std::uint32_t order) noexcept;

  OrderState state(std::uint32_t order) const noexcept;
  // Walks the book; exact when nobody changes it meanwhile.
  BookTotals totals() const noexcept;

 private:
  bool end(std::uint32_t order, OrderState state) noexcept;

  BookWord* words_;
  std::uint32_t order_count_;
  BookTotals gateway_;  // what the gateway did: arrivals, partial fills and partial cancels
};

}  // namespace countwheel::drill

#endif  // COUNTWHEEL_TOOLS_DRILL_BOOK_H_
