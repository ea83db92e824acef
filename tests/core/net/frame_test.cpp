#include "core/net/frame.hpp"

#include <gtest/gtest.h>

#include "tests/support/socket_pair.hpp"

namespace ddl {
namespace {

using test::SocketPair;
using test::write;

constexpr FrameKind kKind{7};

std::vector<std::byte> bytes_of(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

}  // namespace

TEST(Frame, FramesOfAllSizesArriveWholeThroughASmallSocket) {
  SocketPair line;
  FrameWriter writer;
  std::vector<std::size_t> sizes = {0, 1, 3, 4096, 1'000'003, 0, 7};
  for (std::size_t size : sizes) writer.add(pack_frame(kKind, bytes_of(size)));
  FrameReader reader(1 << 20);
  for (std::size_t size : sizes) {
    FrameReader::State state = FrameReader::State::waiting;
    while (state == FrameReader::State::waiting) {
      ASSERT_TRUE(writer.write(line.a));
      state = reader.read(line.b);
    }
    ASSERT_EQ(state, FrameReader::State::complete);
    Frame frame = reader.take();
    EXPECT_EQ(frame.kind, kKind);
    EXPECT_EQ(frame.payload, bytes_of(size));
  }
  EXPECT_TRUE(writer.empty());
  EXPECT_EQ(reader.read(line.b), FrameReader::State::waiting);
}

TEST(Frame, AByteAtATimeIsAFrameToo) {
  SocketPair line;
  PackedFrame packed = pack_frame(kKind, std::as_bytes(std::span("rank 3", 6)));
  FrameReader reader(100);
  for (std::size_t i = 0; i < packed->size(); ++i) {
    EXPECT_EQ(reader.read(line.b), FrameReader::State::waiting);
    write(line.a, packed->data() + i, 1);
  }
  ASSERT_EQ(reader.read(line.b), FrameReader::State::complete);
  EXPECT_EQ(reader.take().text(), "rank 3");
}

TEST(Frame, GarbageLongFramesAndTheEndAreTold) {
  SocketPair garbage;
  std::string request = "GET / HTTP/1.1\r\nHost: nobody\r\n\r\n";
  write(garbage.a, request.data(), request.size());
  FrameReader reader(100);
  EXPECT_EQ(reader.read(garbage.b), FrameReader::State::garbage);

  SocketPair longer;
  FrameWriter writer;
  writer.add(pack_frame(kKind, bytes_of(101)));
  ASSERT_TRUE(writer.write(longer.a));
  EXPECT_EQ(FrameReader(100).read(longer.b), FrameReader::State::garbage);

  SocketPair ended;
  ended.a.close();
  EXPECT_EQ(FrameReader(100).read(ended.b), FrameReader::State::ended);
  FrameWriter late;
  late.add(pack_frame(kKind));
  EXPECT_FALSE(late.write(ended.b)) << "and no SIGPIPE";
}

}  // namespace ddl
