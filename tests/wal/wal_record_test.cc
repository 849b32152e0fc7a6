// The bytes of a blob: what goes in comes out, and bytes that are not a blob are refused whatever
// they are. Seeded; set COUNTWHEEL_SEED to repeat.
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/directory.h"
#include "wal/bytes.h"
#include "wal/crc32c.h"
#include "wal/log_writer.h"
#include "wal/record.h"

namespace countwheel::wal {
namespace {

using testing::BatchBuilder;

BlobHeader header_seven() {
  BlobHeader header;
  header.sequence = 7;
  header.previous = 6;
  header.low_water = 2;
  header.watermark = 5;
  header.shard_bits = 4;
  header.slot_bits = 28;
  header.store.fill(0xab);
  return header;
}

std::string encoded(const BlobHeader& header, const Batch& batch) {
  std::string blob(encoded_bytes_max(batch), '\0');
  blob.resize(encode(header, batch, blob.data()));
  return blob;
}

// Makes the checksums right again after a test has changed the bytes.
void seal(std::string* blob) {
  store_u32(blob->data() + header_at::kBodyBytes,
            static_cast<std::uint32_t>(blob->size() - kHeaderBytes));
  store_u32(blob->data() + header_at::kBodyCrc,
            crc32c(std::string_view(*blob).substr(kHeaderBytes)));
  store_u32(blob->data() + header_at::kHeaderCrc,
            crc32c(std::string_view(*blob).substr(0, header_at::kHeaderCrc)));
}

Code decode_all(std::string_view blob, std::vector<Op>* ops) {
  BlobHeader header;
  const Status status = decode_header(blob, &header);
  return status.ok() ? decode_ops(blob, header, ops).code() : status.code();
}

void fill_every_kind(BatchBuilder* builder) {
  Op* op = &builder->schedule(TaskId::of(1, 1), "key", "payload");
  op->durability = Durability::kOs;
  op = &builder->schedule(TaskId::of(0xffffffff, 0xfffffffe), std::string(1024, 'k'), "");
  op->clock = ClockKind::kBoot;
  op->boot_deadline_ns = -5;
  op->wall_deadline_ns = -1;
  op->slack_us = 60'000'000;
  builder->skip_lsn();
  builder->skip_lsn();
  op = &builder->schedule(TaskId::of(3, 1), {}, std::string(1 << 20, 'p'));
  op->base_lsn = 5;
  op->failures = 65535;
  op->attempts = 300;
  op->crashes = 255;
  builder->set_data(op, {}, std::string(1 << 20, 'p'), "carried on with its last error");
  op = &builder->schedule(TaskId::of(4, 9), {}, {});
  builder->set_data(op, "dead key", "dead payload", "last words");
  op->dead = true;
  op->reason = DeadReason::kCrash;
  op->crashes = 3;
  builder->add(OpKind::kCancel, TaskId::of(1, 1)).durability = Durability::kMemory;
  builder->skip_lsn();
  builder->add(OpKind::kDone, TaskId::of(3, 1));
  op = &builder->add(OpKind::kReschedule, TaskId::of(2, 2));
  op->wall_deadline_ns = 77;
  op = &builder->add(OpKind::kReschedule, TaskId::of(2, 2));
  op->clock = ClockKind::kBoot;
  op->wall_deadline_ns = 78;
  op->boot_deadline_ns = 79;
  op = &builder->add(OpKind::kRetry, TaskId::of(2, 2));
  op->wall_deadline_ns = 80;
  op->failures = 1;
  op->attempts = 2;
  op->crashes = 3;
  builder->set_data(op, {}, {}, std::string(512, 't'));
  op = &builder->add(OpKind::kDead, TaskId::of(2, 2));
  op->reason = DeadReason::kAttempts;
  op->failures = 128;
  op->attempts = 129;
  builder->set_data(op, {}, {}, "gave up");
  op = &builder->add(OpKind::kType, TaskId{65535});
  builder->set_data(op, {}, "order.expire", {});
}

void expect_same(const Op& left, const Op& right) {
  EXPECT_EQ(left.kind, right.kind);
  EXPECT_EQ(left.clock, right.clock);
  EXPECT_EQ(left.durability, right.durability);
  EXPECT_EQ(left.dead, right.dead);
  EXPECT_EQ(left.slack_us, right.slack_us);
  EXPECT_EQ(left.id, right.id);
  EXPECT_EQ(left.wall_deadline_ns, right.wall_deadline_ns);
  EXPECT_EQ(left.boot_deadline_ns, right.boot_deadline_ns);
  EXPECT_EQ(left.lsn, right.lsn);
  EXPECT_EQ(left.base_lsn, right.base_lsn);
  EXPECT_EQ(left.key(), right.key());
  EXPECT_EQ(left.payload(), right.payload());
  EXPECT_EQ(left.text(), right.text());
  EXPECT_EQ(left.attributes(), right.attributes());
  EXPECT_EQ(left.type, right.type);
  EXPECT_EQ(left.failures, right.failures);
  EXPECT_EQ(left.attempts, right.attempts);
  EXPECT_EQ(left.crashes, right.crashes);
  EXPECT_EQ(left.reason, right.reason);
}

TEST(Record, EveryKindComesBackAsItWas) {
  BatchBuilder builder(100);
  fill_every_kind(&builder);
  Batch batch = builder.batch(true);
  batch.clean_stop = true;
  batch.epoch = 11;
  batch.wall_ns = -12;
  const std::string blob = encoded(header_seven(), batch);

  BlobHeader header;
  ASSERT_EQ(decode_header(blob, &header).text(), Status().text());
  EXPECT_EQ(header.sequence, 7U);
  EXPECT_EQ(header.previous, 6U);
  EXPECT_EQ(header.low_water, 2U);
  EXPECT_EQ(header.watermark, 5U);
  EXPECT_EQ(header.first_lsn, 100U);
  EXPECT_EQ(header.last_lsn, 113U);
  EXPECT_EQ(header.lsn_ceiling, 113U + (1 << 20));
  EXPECT_EQ(header.generation_ceiling, 1U << 20);
  EXPECT_EQ(header.epoch, 11U);
  EXPECT_EQ(header.wall_ns, -12);
  EXPECT_EQ(header.op_count, 11U);
  EXPECT_EQ(header.bytes, blob.size());
  EXPECT_TRUE(header.clean_stop);
  EXPECT_TRUE(header.synced);
  EXPECT_EQ(header.store, header_seven().store);

  std::vector<Op> ops;
  ASSERT_EQ(decode_ops(blob, header, &ops).text(), Status().text());
  ASSERT_EQ(ops.size(), builder.ops().size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same(ops[i], builder.ops()[i]);
  }
}

TEST(Record, AttributesComeBackBehindWhateverElseThereIs) {
  const std::string attributes(27, '\x07');
  BatchBuilder builder(1);
  for (const std::string& text : {std::string(), std::string("text"), std::string(300, 't')}) {
    builder.set_data(
        &builder.schedule(TaskId::of(1, 1), {}, {}), "key", "payload", text, attributes);
    builder.set_data(&builder.schedule(TaskId::of(2, 1), {}, {}), {}, {}, text, attributes);
    builder.set_data(&builder.add(OpKind::kRetry, TaskId::of(1, 1)), {}, {}, text, attributes);
    Op* dead = &builder.add(OpKind::kDead, TaskId::of(1, 1));
    dead->reason = kLastDeadReason;
    builder.set_data(dead, {}, {}, text, attributes);
    builder.set_data(&builder.add(OpKind::kDead, TaskId::of(2, 1)), {}, {}, text);
  }
  const std::string blob = encoded(header_seven(), builder.batch(true));
  std::vector<Op> ops;
  ASSERT_EQ(decode_all(blob, &ops), Code::kOk);
  ASSERT_EQ(ops.size(), builder.ops().size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same(ops[i], builder.ops()[i]);
  }
}

TEST(Record, EndingATaskCostsTenBytesAndSchedulingOneTwentyOneAndItsPayload) {
  BatchBuilder cancel(1);
  cancel.add(OpKind::kCancel, TaskId::of(1, 1));
  EXPECT_EQ(encoded(header_seven(), cancel.batch(true)).size(), kHeaderBytes + 10);
  BatchBuilder done(1);
  done.add(OpKind::kDone, TaskId::of(0xffffffff, 0xffffffff));
  EXPECT_EQ(encoded(header_seven(), done.batch(true)).size(), kHeaderBytes + 10);
  BatchBuilder schedule(1);
  schedule.schedule(TaskId::of(1, 1), {}, std::string(16, 'p'));
  EXPECT_EQ(encoded(header_seven(), schedule.batch(true)).size(), kHeaderBytes + 21 + 16);
}

TEST(Record, ElidedOperationsAreLeftOutAndTheirNumbersStayUsed) {
  BatchBuilder builder(1);
  builder.schedule(TaskId::of(1, 1), {}, "a");
  builder.schedule(TaskId::of(2, 1), {}, "b").kind = OpKind::kNone;
  builder.schedule(TaskId::of(3, 1), {}, "c");
  Batch batch = builder.batch(true);
  batch.op_count = 2;
  std::vector<Op> ops;
  const std::string blob = encoded(header_seven(), batch);
  ASSERT_EQ(decode_all(blob, &ops), Code::kOk);
  ASSERT_EQ(ops.size(), 2U);
  EXPECT_EQ(ops[0].lsn, 1U);
  EXPECT_EQ(ops[1].lsn, 3U);
}

TEST(Record, OneFlippedBitAnywhereIsRefused) {
  BatchBuilder builder(100);
  builder.schedule(TaskId::of(1, 1), "key", "payload");
  builder.add(OpKind::kCancel, TaskId::of(1, 1));
  const std::string blob = encoded(header_seven(), builder.batch(true));
  std::vector<Op> ops;
  for (std::size_t bit = 0; bit < 8 * blob.size(); ++bit) {
    std::string flipped = blob;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    // The format's own byte may name a later format.
    const Code code = decode_all(flipped, &ops);
    EXPECT_TRUE(code == Code::kCorrupt || (bit / 8 == header_at::kFormat && code == Code::kVersion))
        << "bit " << bit << ": " << to_string(code);
  }
}

TEST(Record, CutAnywhereIsRefused) {
  BatchBuilder builder(100);
  builder.schedule(TaskId::of(1, 1), "key", "payload");
  const std::string blob = encoded(header_seven(), builder.batch(true));
  std::vector<Op> ops;
  for (std::size_t size = 0; size < blob.size(); ++size) {
    EXPECT_EQ(decode_all(std::string_view(blob).substr(0, size), &ops), Code::kCorrupt) << size;
  }
}

TEST(Record, LaterFormatsAndUnknownBitsAreVersion) {
  BatchBuilder builder(100);
  builder.schedule(TaskId::of(1, 1), {}, "payload");
  const std::string blob = encoded(header_seven(), builder.batch(true));
  std::vector<Op> ops;
  const auto code_with = [&](std::size_t place, int value) {
    std::string changed = blob;
    changed[place] = static_cast<char>(value);
    seal(&changed);
    return decode_all(changed, &ops);
  };
  EXPECT_EQ(code_with(header_at::kFormat, 3), Code::kVersion);
  EXPECT_EQ(code_with(header_at::kFlags, 4), Code::kVersion);
  EXPECT_EQ(code_with(header_at::kReserved, 1), Code::kVersion);
  EXPECT_EQ(code_with(header_at::kReserved2, 1), Code::kVersion);
  EXPECT_EQ(code_with(kHeaderBytes + 1, 10), Code::kVersion);          // a reserved kind
  EXPECT_EQ(code_with(kHeaderBytes + 1, 31), Code::kVersion);          // the last kind there can be
  EXPECT_EQ(code_with(kHeaderBytes + 1, 3 << 5 | 1), Code::kVersion);  // a fourth durability
  EXPECT_EQ(code_with(kHeaderBytes + 2, 128), Code::kVersion);         // an unknown flag
  EXPECT_EQ(code_with(kHeaderBytes + 1, 0), Code::kCorrupt);           // kind 0 is never written
  BlobHeader header;
  std::string later = blob;
  later[header_at::kFormat] = 3;
  EXPECT_EQ(decode_header(later, &header).text(),
            "version: written by format 3, this build reads format 1");
}

TEST(Record, NonsenseWithRightChecksumsIsRefused) {
  BatchBuilder builder(100);
  builder.add(OpKind::kCancel, TaskId::of(1, 1));
  const std::string blob = encoded(header_seven(), builder.batch(true));
  std::vector<Op> ops;
  const auto code_with = [&](auto change) {
    std::string changed = blob;
    change(changed);
    seal(&changed);
    return decode_all(changed, &ops);
  };
  ASSERT_EQ(code_with([](std::string&) {}), Code::kOk);
  const auto word = [](std::size_t place, std::uint64_t value) {
    return [=](std::string& bytes) { store_u64(bytes.data() + place, value); };
  };
  EXPECT_EQ(code_with(word(header_at::kSequence, 0)), Code::kCorrupt);
  EXPECT_EQ(code_with(word(header_at::kPrevious, 3)), Code::kCorrupt);
  EXPECT_EQ(code_with(word(header_at::kLowWater, 8)), Code::kCorrupt);
  EXPECT_EQ(code_with(word(header_at::kWatermark, 7)), Code::kCorrupt);
  EXPECT_EQ(code_with(word(header_at::kLastLsn, 99)), Code::kCorrupt);
  EXPECT_EQ(code_with(word(kHeaderBytes + 2, 0)), Code::kCorrupt);  // task 0
  EXPECT_EQ(code_with([](std::string& bytes) { bytes += '\1'; }), Code::kCorrupt);
  EXPECT_EQ(code_with([](std::string& bytes) { bytes += std::string("\1\2", 2); }), Code::kCorrupt);
  EXPECT_EQ(code_with([](std::string& bytes) { bytes += bytes.substr(kHeaderBytes); }),
            Code::kCorrupt);  // more operations than the header says
  EXPECT_EQ(code_with([](std::string& bytes) { bytes.resize(bytes.size() - 1); }), Code::kCorrupt);
}

TEST(Record, AnyBytesBehindRightChecksumsAreSafe) {
  std::mt19937_64 random(testing::seed_from_environment(20240611));
  BatchBuilder builder(100);
  builder.schedule(TaskId::of(1, 1), "key", std::string(40, 'p'));
  builder.add(OpKind::kRetry, TaskId::of(1, 1));
  builder.add(OpKind::kCancel, TaskId::of(1, 1));
  const std::string blob = encoded(header_seven(), builder.batch(true));
  std::vector<Op> ops;
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string bytes = blob;
    const std::size_t changes = 1 + random() % 8;
    for (std::size_t i = 0; i < changes; ++i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.resize(bytes.size() - (random() % 4 == 0 ? random() % 60 : 0));
    seal(&bytes);
    const Code code = decode_all(bytes, &ops);
    ASSERT_TRUE(code == Code::kOk || code == Code::kCorrupt || code == Code::kVersion);
    (code == Code::kOk ? accepted : refused) += 1;
    if (code != Code::kOk) {
      continue;
    }
    ASSERT_LE(ops.size(), bytes.size() / 2);
    for (const Op& op : ops) {
      const auto end = op.data + op.key_bytes + op.payload_bytes + op.text_bytes;
      ASSERT_TRUE(op.data == nullptr || end <= bytes.data() + bytes.size());
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 10'000);
}

}  // namespace
}  // namespace countwheel::wal
