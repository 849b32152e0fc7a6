// Descriptor: a file descriptor with one owner.
#ifndef COUNTWHEEL_WAL_DESCRIPTOR_H_
#define COUNTWHEEL_WAL_DESCRIPTOR_H_

#include <unistd.h>
#include <utility>

namespace countwheel::wal {

class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~Descriptor() { close(); }

  bool valid() const noexcept { return number_ >= 0; }
  int get() const noexcept { return number_; }

  // Gives up the number without closing it.
  int release() noexcept { return std::exchange(number_, -1); }

  void close() noexcept {
    if (number_ >= 0) {
      ::close(number_);
      number_ = -1;
    }
  }

 private:
  int number_ = -1;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_DESCRIPTOR_H_
