// The bytes of attributes: what is written is read, and nothing else is believed.
#include "engine/attributes.h"

#include <chrono>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace countwheel::detail {
namespace {

using namespace std::chrono_literals;

Attributes everything() {
  Attributes attributes;
  attributes.max_lateness_ns = 5;
  attributes.first_due_wall_ns = -6;
  attributes.requeued_from = TaskId::of(7, 8);
  attributes.died_wall_ns = 1'718'000'000'000'000'000;
  attributes.reason = DeadReason::kLate;
  attributes.retry = RetryPolicy::list({1s, 2s, 3s});
  attributes.retry->jitter = 0.25;
  attributes.retry->max_attempts = 9;
  attributes.retry->max_crashes = 2;
  attributes.retry->total_timeout = 1h;
  attributes.group = 4711;
  attributes.dedup_window_ns = 60'000'000'000;
  attributes.done_until_wall_ns = 1'718'000'060'000'000'000;
  attributes.recurrence = Recurrence::rate(5min, Recurrence::CatchUp::kAll);
  attributes.recurrence->until = WallTime(1'800'000'000s);
  attributes.recurrence->count = 3;
  attributes.run = 2;
  attributes.runs = 1;
  attributes.run_due = DueTime{ClockKind::kBoot, 77'000'000'000, 1'718'000'000'000'000'001};
  return attributes;
}

TEST(Attributes, NothingIsNoBytes) {
  EXPECT_EQ(encode({}), "");
  const Result<Attributes> decoded = decode_attributes("");
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(decoded->empty());
}

TEST(Attributes, WhatIsWrittenIsRead) {
  const std::string bytes = encode(everything());
  const Result<Attributes> decoded = decode_attributes(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status().text();
  EXPECT_EQ(encode(*decoded), bytes);
  EXPECT_EQ(decoded->max_lateness_ns, 5);
  EXPECT_EQ(decoded->first_due_wall_ns, -6);
  EXPECT_EQ(decoded->requeued_from, TaskId::of(7, 8));
  EXPECT_EQ(decoded->reason, DeadReason::kLate);
  ASSERT_TRUE(decoded->retry.has_value());
  EXPECT_EQ(decoded->retry->delays, everything().retry->delays);
  EXPECT_EQ(decoded->retry->jitter, 0.25);
  EXPECT_EQ(decoded->retry->total_timeout, 1h);
  EXPECT_EQ(decoded->group, 4711U);
  EXPECT_EQ(decoded->dedup_window_ns, 60'000'000'000);
  ASSERT_TRUE(decoded->recurrence.has_value());
  EXPECT_EQ(decoded->recurrence->period, 5min);
  EXPECT_EQ(decoded->recurrence->catch_up, Recurrence::CatchUp::kAll);
  EXPECT_EQ(decoded->recurrence->until, WallTime(1'800'000'000s));
  EXPECT_EQ(decoded->runs, 1U);
  ASSERT_TRUE(decoded->run_due.has_value());
  EXPECT_EQ(decoded->run_due->clock, ClockKind::kBoot);
  EXPECT_EQ(decoded->run_due->deadline_ns, 77'000'000'000);
}

// Pinned: a log that is out there must be read for ever.
TEST(Attributes, TheBytesAreTheDocumentedOnes) {
  Attributes attributes;
  attributes.max_lateness_ns = 0x0102030405060708;
  attributes.reason = DeadReason::kTimeout;
  EXPECT_EQ(encode(attributes),
            std::string("\x01\x08\x07\x06\x05\x04\x03\x02\x01\x05\x03\0\0\0\0\0\0\0", 18));
}

TEST(Attributes, ALaterTagOrReasonIsRefusedAsVersion) {
  EXPECT_EQ(decode_attributes(std::string("\x63\0\0\0\0\0\0\0\0", 9)).code(), Code::kVersion);
  EXPECT_EQ(decode_attributes(std::string("\x05\x63\0\0\0\0\0\0\0", 9)).code(), Code::kVersion);
}

TEST(Attributes, AnyBytesGetAnAnswer) {
  std::mt19937_64 random(7);
  const std::string good = encode(everything());
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    if (cut % 9 != 0) {
      EXPECT_EQ(decode_attributes(good.substr(0, cut)).code(), Code::kCorrupt) << cut;
    }
  }
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    const Result<Attributes> decoded = decode_attributes(bytes);
    if (decoded.ok()) {
      EXPECT_EQ(encode(*decoded), bytes);  // nothing was guessed
    }
  }
}

}  // namespace
}  // namespace countwheel::detail
