// Format 1, byte by byte: what this build writes is what the files in tests/golden/format1 hold,
// and what they hold is read. They were written once and are never written again; a change that
// needs other bytes needs another format. COUNTWHEEL_WRITE_GOLDEN names a directory for a new
// format's.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "wal/log_writer.h"
#include "wal/record.h"

namespace countwheel::wal {
namespace {

using testing::BatchBuilder;

std::string golden_path(const std::string& name) {
  return (std::filesystem::path(__FILE__).parent_path() / "../golden/format1" / name).string();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

BlobHeader golden_header() {
  BlobHeader header;
  header.sequence = 0x0102030405060708;
  header.previous = 0x0102030405060707;
  header.low_water = 0x0102030405060000;
  header.watermark = 0x0102030405060706;
  header.shard_bits = 4;
  header.slot_bits = 28;
  for (std::size_t i = 0; i < header.store.size(); ++i) {
    header.store[i] = static_cast<std::uint8_t>(0xa0 + i);
  }
  return header;
}

Batch with_golden_fields(Batch batch) {
  batch.lsn_ceiling = 0x1112131415161718;
  batch.generation_ceiling = 0x21222324;
  batch.epoch = 0x3132333435363738;
  batch.session_hash = 0x4142434445464748;
  batch.wall_ns = 1'718'000'000'123'456'789;
  return batch;
}

std::string encoded(const Batch& batch) {
  std::string blob(encoded_bytes_max(batch), '\0');
  blob.resize(encode(golden_header(), batch, blob.data()));
  return blob;
}

void add_schedules(BatchBuilder* builder) {
  const std::int64_t deadline_ns = 1'718'000'060'000'000'001;
  Op* op = &builder->schedule(TaskId::of(0x10000001, 1), {}, "0123456789abcdef");
  op->wall_deadline_ns = deadline_ns;
  op->type = 3;
  op = &builder->schedule(TaskId::of(0xf0000002, 0xfffffffe), "order-42", "XNAS:AAPL");
  op->wall_deadline_ns = deadline_ns;
  op->boot_deadline_ns = 77'000'000'000;
  op->clock = ClockKind::kBoot;
  op->durability = Durability::kOs;
  op->slack_us = 1'500;
  op->type = 300;
  builder->skip_lsn();
  op = &builder->schedule(TaskId::of(3, 7), "carried", "on");
  op->wall_deadline_ns = -1;
  op->base_lsn = 900;
  op->failures = 2;
  op->attempts = 300;
  op->crashes = 1;
  builder->set_data(op, "carried", "on", "last error");
  op = &builder->schedule(TaskId::of(4, 8), {}, {});
  op->wall_deadline_ns = deadline_ns;
  op->dead = true;
  op->reason = DeadReason::kCrash;
  op->crashes = 3;
  builder->set_data(op, {}, std::string(200, 'd'), "crashed three times");
}

void add_changes(BatchBuilder* builder) {
  builder->add(OpKind::kCancel, TaskId::of(0x10000001, 1)).durability = Durability::kMemory;
  builder->add(OpKind::kDone, TaskId::of(3, 7));
  Op* op = &builder->add(OpKind::kReschedule, TaskId::of(0xf0000002, 0xfffffffe));
  op->clock = ClockKind::kBoot;
  op->wall_deadline_ns = 1'718'000'070'000'000'000;
  op->boot_deadline_ns = 87'000'000'000;
  op = &builder->add(OpKind::kRetry, TaskId::of(5, 9));
  op->wall_deadline_ns = 1'718'000'080'000'000'000;
  op->failures = 1;
  op->attempts = 2;
  builder->set_data(op, {}, {}, "connection refused");
  op = &builder->add(OpKind::kDead, TaskId::of(5, 9));
  op->reason = DeadReason::kAttempts;
  op->failures = 5;
  op->attempts = 6;
  op->crashes = 1;
  builder->set_data(op, {}, {}, "gave up");
  op = &builder->add(OpKind::kType, TaskId{300});
  builder->set_data(op, {}, "order.expire", {});
}

std::string watermark_blob() {
  return encoded(with_golden_fields(BatchBuilder(1001).batch(true)));
}

std::string every_kind_blob() {
  BatchBuilder builder(1001);
  add_schedules(&builder);
  add_changes(&builder);
  Batch batch = with_golden_fields(builder.batch(false));
  batch.clean_stop = true;
  return encoded(batch);
}

std::string attributes_blob() {
  // Requeued from index 8, generation 4.
  const std::string attributes("\x03\x08\0\0\0\x04\0\0\0", 9);
  BatchBuilder builder(1001);
  builder.set_data(&builder.schedule(TaskId::of(9, 5), {}, {}), "key", "payload", {}, attributes);
  builder.set_data(&builder.add(OpKind::kRetry, TaskId::of(9, 5)), {}, {}, "once", attributes);
  Op* dead = &builder.add(OpKind::kDead, TaskId::of(9, 5));
  dead->reason = DeadReason::kLate;
  builder.set_data(dead, {}, {}, "expired_late", attributes);
  return encoded(with_golden_fields(builder.batch(true)));
}

std::string groups_blob() {
  BatchBuilder builder(1001);
  builder.add(OpKind::kCancelGroup, TaskId{0x0123456789abcdef});
  Op* op = &builder.add(OpKind::kRescheduleGroup, TaskId{4711});
  op->wall_deadline_ns = 1'718'000'070'000'000'000;
  op->boot_deadline_ns = 87'000'000'000;
  op->clock = ClockKind::kBoot;
  // Done, with its key kept until 2024-06-10.
  builder.set_data(&builder.add(OpKind::kDone, TaskId::of(9, 5)),
                   {},
                   {},
                   {},
                   std::string("\x08\x00\x20\x7e\x6c\xf8\x8f\xd7\x17", 9));
  return encoded(with_golden_fields(builder.batch(true)));
}

void expect_golden(const std::string& name, const std::string& bytes) {
  if (const char* directory = std::getenv("COUNTWHEEL_WRITE_GOLDEN"); directory != nullptr) {
    std::ofstream(std::string(directory) + "/" + name, std::ios::binary) << bytes;
  }
  const std::string golden = read_file(golden_path(name));
  ASSERT_EQ(golden.size(), bytes.size()) << name;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_EQ(static_cast<unsigned char>(golden[i]), static_cast<unsigned char>(bytes[i]))
        << name << ", byte " << i;
  }
}

TEST(Golden, FormatOneIsWrittenAsItAlwaysWas) {
  expect_golden("watermark.blob", watermark_blob());
  expect_golden("every_kind.blob", every_kind_blob());
  expect_golden("attributes.blob", attributes_blob());
  expect_golden("groups.blob", groups_blob());
}

TEST(Golden, FormatOneIsReadAsItAlwaysWas) {
  const std::string blob = read_file(golden_path("every_kind.blob"));
  BlobHeader header;
  ASSERT_EQ(decode_header(blob, &header).text(), "ok");
  EXPECT_EQ(header.format, 1U);
  EXPECT_EQ(header.sequence, 0x0102030405060708U);
  EXPECT_EQ(header.generation_ceiling, 0x21222324U);
  EXPECT_EQ(header.wall_ns, 1'718'000'000'123'456'789);
  EXPECT_EQ(to_string(header.store), "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf");
  EXPECT_TRUE(header.clean_stop);
  EXPECT_FALSE(header.synced);
  std::vector<Op> ops;
  ASSERT_EQ(decode_ops(blob, header, &ops).text(), "ok");
  ASSERT_EQ(ops.size(), 10U);
  EXPECT_EQ(ops[0].payload(), "0123456789abcdef");
  EXPECT_EQ(ops[1].key(), "order-42");
  EXPECT_EQ(ops[1].slack_us, 1'500U);
  EXPECT_EQ(ops[2].lsn, 1004U);
  EXPECT_EQ(ops[2].base_lsn, 900U);
  EXPECT_EQ(ops[2].text(), "last error");
  EXPECT_EQ(ops[3].reason, DeadReason::kCrash);
  EXPECT_TRUE(ops[3].dead);
  EXPECT_EQ(ops[4].kind, OpKind::kCancel);
  EXPECT_EQ(ops[6].boot_deadline_ns, 87'000'000'000);
  EXPECT_EQ(ops[7].text(), "connection refused");
  EXPECT_EQ(ops[8].attempts, 6U);
  EXPECT_EQ(ops[9].payload(), "order.expire");
  EXPECT_EQ(ops[9].id.value, 300U);
}

TEST(Golden, AttributesAreReadAsTheyAlwaysWere) {
  const std::string blob = read_file(golden_path("attributes.blob"));
  BlobHeader header;
  std::vector<Op> ops;
  ASSERT_EQ(decode_header(blob, &header).text(), "ok");
  ASSERT_EQ(decode_ops(blob, header, &ops).text(), "ok");
  ASSERT_EQ(ops.size(), 3U);
  for (const Op& op : ops) {
    EXPECT_EQ(op.attributes(), std::string("\x03\x08\0\0\0\x04\0\0\0", 9));
  }
  EXPECT_EQ(ops[0].payload(), "payload");
  EXPECT_EQ(ops[1].text(), "once");
  EXPECT_EQ(ops[2].text(), "expired_late");
  EXPECT_EQ(ops[2].reason, DeadReason::kLate);
}

TEST(Golden, ChangesOfGroupsAreReadAsTheyAlwaysWere) {
  const std::string blob = read_file(golden_path("groups.blob"));
  BlobHeader header;
  std::vector<Op> ops;
  ASSERT_EQ(decode_header(blob, &header).text(), "ok");
  ASSERT_EQ(decode_ops(blob, header, &ops).text(), "ok");
  ASSERT_EQ(ops.size(), 3U);
  EXPECT_EQ(ops[2].kind, OpKind::kDone);
  EXPECT_EQ(ops[2].attributes(), std::string("\x08\x00\x20\x7e\x6c\xf8\x8f\xd7\x17", 9));
  EXPECT_EQ(ops[0].kind, OpKind::kCancelGroup);
  EXPECT_EQ(ops[0].id.value, 0x0123456789abcdefU);
  EXPECT_EQ(ops[1].kind, OpKind::kRescheduleGroup);
  EXPECT_EQ(ops[1].id.value, 4711U);
  EXPECT_EQ(ops[1].boot_deadline_ns, 87'000'000'000);
  EXPECT_EQ(ops[1].wall_deadline_ns, 1'718'000'070'000'000'000);
}

TEST(Golden, LaterFormatsAreRefusedByName) {
  std::string blob = read_file(golden_path("watermark.blob"));
  blob[3] = 2;
  BlobHeader header;
  const Status status = decode_header(blob, &header);
  EXPECT_EQ(status.code(), Code::kVersion);
  EXPECT_EQ(status.detail(), "written by format 2, this build reads format 1");
}

}  // namespace
}  // namespace countwheel::wal
