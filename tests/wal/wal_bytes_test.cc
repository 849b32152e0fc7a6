// Integers as bytes, and the checksum.
#include <array>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "testing/directory.h"
#include "wal/bytes.h"
#include "wal/crc32c.h"

namespace countwheel::wal {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Bytes, FixedIntegersAreLittleEndianOnEveryMachine) {
  std::array<char, 8> bytes{};
  store_u64(bytes.data(), 0x0807060504030201U);
  EXPECT_EQ(std::string(bytes.data(), 8), "\x01\x02\x03\x04\x05\x06\x07\x08");
  EXPECT_EQ(load_u64(bytes.data()), 0x0807060504030201U);
  EXPECT_EQ(load_u32(bytes.data()), 0x04030201U);
  store_u64_big_endian(bytes.data(), 0x0102030405060708U);
  EXPECT_EQ(std::string(bytes.data(), 8), "\x01\x02\x03\x04\x05\x06\x07\x08");
  EXPECT_EQ(load_u64_big_endian(bytes.data()), 0x0102030405060708U);
}

TEST(Bytes, VarintsTakeOneByteForSevenBits) {
  for (const std::uint64_t value : {std::uint64_t{0},
                                    std::uint64_t{127},
                                    std::uint64_t{128},
                                    std::uint64_t{16383},
                                    std::uint64_t{16384},
                                    kMax - 1,
                                    kMax}) {
    std::array<char, kVarintBytesMax> bytes{};
    const char* end = store_varint(bytes.data(), value);
    const auto count = static_cast<std::size_t>(end - bytes.data());
    ByteReader reader({bytes.data(), count});
    EXPECT_EQ(reader.varint(), value);
    EXPECT_TRUE(reader.ok());
    EXPECT_EQ(reader.left(), 0U);
    std::size_t expected = 1;
    for (std::uint64_t rest = value >> 7; rest != 0; rest >>= 7) {
      ++expected;
    }
    EXPECT_EQ(count, expected);
  }
}

TEST(Bytes, VarintsOfMoreThanSixtyFourBitsAreRefused) {
  ByteReader eleven(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11));
  eleven.varint();
  EXPECT_FALSE(eleven.ok());
  ByteReader sixty_five_bits(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10));
  sixty_five_bits.varint();
  EXPECT_FALSE(sixty_five_bits.ok());
}

TEST(Bytes, ReadingPastTheEndFailsAndStaysFailed) {
  ByteReader reader("abc");
  EXPECT_EQ(reader.u32(), 0U);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.u8(), 0U);
  EXPECT_FALSE(reader.ok());
  ByteReader huge("abc");
  EXPECT_TRUE(huge.bytes(kMax).empty());
  EXPECT_FALSE(huge.ok());
}

TEST(Crc32c, AgreesWithPublishedValues) {
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(Crc32c, InstructionAndTableAgreeAtEveryLengthAndSplit) {
  std::mt19937_64 random(testing::seed_from_environment(7));
  std::string bytes(300, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(random());
  }
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const std::string_view all(bytes.data(), size);
    const std::size_t split = size == 0 ? 0 : random() % size;
    EXPECT_EQ(crc32c(all), crc32c_by_table(all)) << size;
    EXPECT_EQ(crc32c(all.substr(split), crc32c(all.substr(0, split))), crc32c(all)) << size;
  }
}

}  // namespace
}  // namespace countwheel::wal
