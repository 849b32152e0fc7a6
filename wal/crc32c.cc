#include "crc32c.h"

#include <array>
#include <cstddef>

#include "bytes.h"

namespace countwheel::wal {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78U;  // reflected

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// Table n advances a byte by n further bytes: eight bytes cost eight look-ups and no loop.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    }
    tables[0][byte] = crc;
  }
  for (std::size_t n = 1; n < tables.size(); ++n) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[n - 1][byte];
      tables[n][byte] = (before >> 8) ^ tables[0][before & 0xffU];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

std::uint32_t advance_by_byte(std::uint32_t crc, char byte) noexcept {
  return (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(byte)) & 0xffU];
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::string_view bytes,
                                                               std::uint32_t crc) noexcept {
  std::uint64_t state = ~crc;
  const char* next = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, next += 8) {
    state = __builtin_ia32_crc32di(state, load_u64(next));
  }
  auto narrow = static_cast<std::uint32_t>(state);
  for (; left > 0; --left, ++next) {
    narrow = __builtin_ia32_crc32qi(narrow, static_cast<unsigned char>(*next));
  }
  return ~narrow;
}
#endif

}  // namespace

std::uint32_t crc32c_by_table(std::string_view bytes, std::uint32_t crc) noexcept {
  std::uint32_t state = ~crc;
  const char* next = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, next += 8) {
    const std::uint64_t word = load_u64(next) ^ state;
    state = 0;
    for (std::size_t n = 0; n < 8; ++n) {
      state ^= kTables[7 - n][(word >> (8 * n)) & 0xffU];
    }
  }
  for (; left > 0; --left, ++next) {
    state = advance_by_byte(state, *next);
  }
  return ~state;
}

std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc) noexcept {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) {
    return by_instruction(bytes, crc);
  }
#endif
  return crc32c_by_table(bytes, crc);
}

}  // namespace countwheel::wal
