#include "core/bootstrap/rendezvous_frame.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace ddl::rendezvous {
namespace {

struct Line {
  Handle a, b;
  Line() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    a = Handle(ends[0]);
    b = Handle(ends[1]);
  }
};

std::vector<std::byte> bytes_of(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

}  // namespace

TEST(RendezvousFrame, FramesOfAllSizesArriveWholeThroughASmallSocket) {
  Line line;
  FrameWriter writer;
  std::vector<std::size_t> sizes = {0, 1, 3, 4096, 1'000'003, 0, 7};
  for (std::size_t size : sizes) writer.add(pack_frame(Kind::blob, bytes_of(size)));
  FrameReader reader(1 << 20);
  for (std::size_t size : sizes) {
    FrameReader::State state = FrameReader::State::waiting;
    while (state == FrameReader::State::waiting) {
      ASSERT_TRUE(writer.write(line.a.get()));
      state = reader.read(line.b.get());
    }
    ASSERT_EQ(state, FrameReader::State::complete);
    Frame frame = reader.take();
    EXPECT_EQ(frame.kind, Kind::blob);
    EXPECT_EQ(frame.payload, bytes_of(size));
  }
  EXPECT_TRUE(writer.empty());
  EXPECT_EQ(reader.read(line.b.get()), FrameReader::State::waiting);
}

TEST(RendezvousFrame, AByteAtATimeIsAFrameToo) {
  Line line;
  Packed packed = pack_text(Kind::failed, "rank 3");
  FrameReader reader(100);
  for (std::size_t i = 0; i < packed->size(); ++i) {
    EXPECT_EQ(reader.read(line.b.get()), FrameReader::State::waiting);
    ASSERT_EQ(::write(line.a.get(), packed->data() + i, 1), 1);
  }
  ASSERT_EQ(reader.read(line.b.get()), FrameReader::State::complete);
  EXPECT_EQ(reader.take().text(), "rank 3");
}

TEST(RendezvousFrame, GarbageLongFramesAndTheEndAreTold) {
  Line garbage;
  std::string request = "GET / HTTP/1.1\r\nHost: nobody\r\n\r\n";
  ASSERT_GT(::write(garbage.a.get(), request.data(), request.size()), 0);
  FrameReader reader(100);
  EXPECT_EQ(reader.read(garbage.b.get()), FrameReader::State::garbage);

  Line longer;
  FrameWriter writer;
  writer.add(pack_frame(Kind::blob, bytes_of(101)));
  ASSERT_TRUE(writer.write(longer.a.get()));
  EXPECT_EQ(FrameReader(100).read(longer.b.get()), FrameReader::State::garbage);

  Line ended;
  ended.a = Handle();
  EXPECT_EQ(FrameReader(100).read(ended.b.get()), FrameReader::State::ended);
  FrameWriter late;
  late.add(pack_frame(Kind::leave));
  EXPECT_FALSE(late.write(ended.b.get())) << "and no SIGPIPE";
}

TEST(RendezvousFrame, BlobsOfDifferentLengthsTravelTogether) {
  std::vector<std::vector<std::byte>> blobs = {bytes_of(3), {}, bytes_of(1000)};
  Packed packed = pack_all(blobs);
  Frame frame{Kind::all, {packed->begin() + sizeof(Head), packed->end()}};
  EXPECT_EQ(unpack_all(frame, 3), blobs);
  EXPECT_FALSE(unpack_all(frame, 2));
  EXPECT_FALSE(unpack_all(frame, 4));
  frame.payload.pop_back();
  EXPECT_FALSE(unpack_all(frame, 3));
  frame.kind = Kind::failed;
  EXPECT_FALSE(unpack_all(frame, 3));
}

TEST(RendezvousFrame, AClosedSocketIsClosedForItsCopiesToo) {
  Line line;
  Handle inherited(::dup(line.a.get()));  // as a forked child has it
  line.a = Handle();
  EXPECT_EQ(FrameReader(100).read(line.b.get()), FrameReader::State::ended);
}

TEST(RendezvousFrame, PatienceEndsAndCountsNoTimeInWhichTheProcessWasStopped) {
  Patience none(0);
  EXPECT_TRUE(none.is_over());
  Patience longer(1.2);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // not asked meanwhile, as if stopped
  EXPECT_FALSE(longer.is_over());
  Patience some(0.05);
  while (!some.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(some.nap()));
}

}  // namespace ddl::rendezvous
