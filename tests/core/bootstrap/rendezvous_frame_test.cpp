#include "core/bootstrap/rendezvous_frame.hpp"

#include <gtest/gtest.h>

namespace ddl::rendezvous {
namespace {

std::vector<std::byte> bytes_of(std::size_t count) { return std::vector<std::byte>(count, std::byte{7}); }

}  // namespace

TEST(RendezvousFrame, BlobsOfDifferentLengthsTravelTogether) {
  std::vector<std::vector<std::byte>> blobs = {bytes_of(3), {}, bytes_of(1000)};
  PackedFrame packed = pack_all(blobs);
  Frame frame{Kind::all, {packed->begin() + sizeof(FrameHead), packed->end()}};
  EXPECT_EQ(unpack_all(frame, 3), blobs);
  EXPECT_FALSE(unpack_all(frame, 2));
  EXPECT_FALSE(unpack_all(frame, 4));
  frame.payload.pop_back();
  EXPECT_FALSE(unpack_all(frame, 3));
  frame.kind = Kind::failed;
  EXPECT_FALSE(unpack_all(frame, 3));
}

TEST(RendezvousFrame, TextsAreCut) {
  EXPECT_EQ(pack_text(Kind::failed, "rank 3")->size(), sizeof(FrameHead) + 6);
  EXPECT_EQ(pack_text(Kind::failed, std::string(2 * kMaxText, 'x'))->size(), sizeof(FrameHead) + kMaxText);
}

}  // namespace ddl::rendezvous
