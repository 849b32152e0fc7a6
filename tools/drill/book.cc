#include "book.h"

#include <algorithm>

#include <countwheel/assert.h>

namespace countwheel::drill {

namespace {

constexpr int kStateShift = 56;

std::uint64_t word_of(OrderState state, std::int64_t quantity) noexcept {
  return static_cast<std::uint64_t>(state) << kStateShift | static_cast<std::uint64_t>(quantity);
}

OrderState state_of(std::uint64_t word) noexcept {
  return static_cast<OrderState>(word >> kStateShift);
}

std::int64_t quantity_of(std::uint64_t word) noexcept {
  return static_cast<std::int64_t>(word & static_cast<std::uint64_t>(kMaxQuantity));
}

}  // namespace

void Book::rest(std::uint32_t order, std::int64_t quantity) noexcept {
  COUNTWHEEL_ASSERT(order < order_count_);
  COUNTWHEEL_ASSERT(quantity > 0 && quantity <= kMaxQuantity);
  COUNTWHEEL_ASSERT(state(order) == OrderState::kAbsent);
  gateway_.arrived += quantity;
  // Release: partner of the acquire in end(), by the handler that expires the order.
  words_[order].store(word_of(OrderState::kOpen, quantity), std::memory_order_release);
}

bool Book::reduce(std::uint32_t order, std::int64_t quantity, bool traded) noexcept {
  COUNTWHEEL_ASSERT(order < order_count_);
  std::uint64_t word = words_[order].load(std::memory_order_acquire);
  const std::int64_t reduction = std::min(quantity, quantity_of(word) - 1);
  if (state_of(word) != OrderState::kOpen || reduction <= 0) {
    return false;
  }
  const std::uint64_t less = word_of(OrderState::kOpen, quantity_of(word) - reduction);
  // Fails only when a handler expired the order meanwhile: nobody else writes.
  if (!words_[order].compare_exchange_strong(word, less, std::memory_order_acq_rel)) {
    return false;
  }
  (traded ? gateway_.traded : gateway_.withdrawn) += reduction;
  gateway_.partial_fill_count += traded ? 1 : 0;
  return true;
}

bool Book::fill(std::uint32_t order) noexcept {
  return end(order, OrderState::kFilled);
}

bool Book::cancel(std::uint32_t order) noexcept {
  return end(order, OrderState::kCancelled);
}

bool Book::expire(std::uint32_t order) noexcept {
  return end(order, OrderState::kExpired);
}

bool Book::end(std::uint32_t order, OrderState state) noexcept {
  COUNTWHEEL_ASSERT(order < order_count_);
  std::uint64_t word = words_[order].load(std::memory_order_acquire);
  while (state_of(word) == OrderState::kOpen) {
    if (words_[order].compare_exchange_weak(
            word, word_of(state, quantity_of(word)), std::memory_order_acq_rel)) {
      return true;
    }
  }
  return false;
}

OrderState Book::state(std::uint32_t order) const noexcept {
  return state_of(words_[order].load(std::memory_order_acquire));
}

BookTotals Book::totals() const noexcept {
  BookTotals totals = gateway_;
  for (std::uint32_t i = 0; i < order_count_; ++i) {
    const std::uint64_t word = words_[i].load(std::memory_order_acquire);
    switch (state_of(word)) {
      case OrderState::kAbsent:
        break;
      case OrderState::kOpen:
        totals.open += quantity_of(word);
        break;
      case OrderState::kFilled:
        totals.traded += quantity_of(word);
        break;
      case OrderState::kCancelled:
        totals.withdrawn += quantity_of(word);
        break;
      case OrderState::kExpired:
        totals.expired += quantity_of(word);
        break;
    }
  }
  return totals;
}

}  // namespace countwheel::drill
