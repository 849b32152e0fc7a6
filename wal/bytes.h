// Integers as bytes: little-endian by shifts, so that the log reads the same on every machine, and
// variable length (7 bits a byte, low bits first) where most values are small.
#ifndef COUNTWHEEL_WAL_BYTES_H_
#define COUNTWHEEL_WAL_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace countwheel::wal {

inline constexpr std::size_t kVarintBytesMax = 10;

template <class Integer>
constexpr char byte_of(Integer value, int index) noexcept {
  return static_cast<char>((value >> (8 * index)) & 0xffU);
}

constexpr std::uint64_t byte_at(const char* bytes, std::size_t index) noexcept {
  return static_cast<unsigned char>(bytes[index]);
}

inline void store_u32(char* out, std::uint32_t value) noexcept {
  for (int i = 0; i < 4; ++i) {
    out[i] = byte_of(value, i);
  }
}

inline void store_u64(char* out, std::uint64_t value) noexcept {
  for (int i = 0; i < 8; ++i) {
    out[i] = byte_of(value, i);
  }
}

inline std::uint32_t load_u32(const char* bytes) noexcept {
  return static_cast<std::uint32_t>(byte_at(bytes, 0) | byte_at(bytes, 1) << 8 |
                                    byte_at(bytes, 2) << 16 | byte_at(bytes, 3) << 24);
}

inline std::uint64_t load_u64(const char* bytes) noexcept {
  return byte_at(bytes, 0) | byte_at(bytes, 1) << 8 | byte_at(bytes, 2) << 16 |
         byte_at(bytes, 3) << 24 | byte_at(bytes, 4) << 32 | byte_at(bytes, 5) << 40 |
         byte_at(bytes, 6) << 48 | byte_at(bytes, 7) << 56;
}

// Big-endian, for keys: their order as bytes is their order as numbers.
inline void store_u64_big_endian(char* out, std::uint64_t value) noexcept {
  for (int i = 0; i < 8; ++i) {
    out[i] = byte_of(value, 7 - i);
  }
}

inline std::uint64_t load_u64_big_endian(const char* bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    value = value << 8 | byte_at(bytes, i);
  }
  return value;
}

// Returns the place behind the value.
inline char* store_varint(char* out, std::uint64_t value) noexcept {
  while (value >= 0x80) {
    *out++ = static_cast<char>((value & 0x7fU) | 0x80U);
    value >>= 7;
  }
  *out++ = static_cast<char>(value);
  return out;
}

// Takes values off the front of bytes that nobody has checked. Reading past the end gives zeroes
// and makes it fail, so that a caller checks once, at the end.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) noexcept : rest_(bytes) {}

  bool ok() const noexcept { return ok_; }
  std::size_t left() const noexcept { return rest_.size(); }

  std::uint8_t u8() noexcept {
    const char* bytes = take(1);
    return bytes == nullptr ? std::uint8_t{0} : static_cast<std::uint8_t>(byte_at(bytes, 0));
  }

  std::uint32_t u32() noexcept {
    const char* bytes = take(4);
    return bytes == nullptr ? 0 : load_u32(bytes);
  }

  std::uint64_t u64() noexcept {
    const char* bytes = take(8);
    return bytes == nullptr ? 0 : load_u64(bytes);
  }

  std::uint64_t varint() noexcept {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t byte = u8();
      if (shift == 63 && byte > 1) {
        break;  // more than 64 bits
      }
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) {
        return ok_ ? value : 0;
      }
    }
    ok_ = false;
    return 0;
  }

  // A varint that must not be above `max`.
  std::uint64_t varint_up_to(std::uint64_t max) noexcept {
    const std::uint64_t value = varint();
    if (value > max) {
      ok_ = false;
      return 0;
    }
    return value;
  }

  std::string_view bytes(std::uint64_t count) noexcept {
    const char* begin = take(count);
    return begin == nullptr ? std::string_view{}
                            : std::string_view(begin, static_cast<std::size_t>(count));
  }

  std::string_view rest() noexcept { return bytes(rest_.size()); }

 private:
  const char* take(std::uint64_t count) noexcept {
    if (!ok_ || count > rest_.size()) {
      ok_ = false;
      return nullptr;
    }
    const char* begin = rest_.data();
    rest_.remove_prefix(static_cast<std::size_t>(count));
    return begin;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace countwheel::wal

#endif  // COUNTWHEEL_WAL_BYTES_H_
