#include "core/transport/ended_streams.hpp"

#include <gtest/gtest.h>

namespace ddl {

TEST(EndedStreams, AFrameIsTakenOnce) {
  EndedStreams ended;
  const LostStream stream{3, 1, 0};
  EXPECT_FALSE(ended.is_over(stream));
  ended.add(stream, 5);
  ended.add(stream, 1);  // the word that it is lost, when that is known
  EXPECT_TRUE(ended.is_over(stream));
  EXPECT_FALSE(ended.lacks(stream, 4));
  EXPECT_TRUE(ended.lacks(stream, 5));
  ended.took(stream, 6);
  EXPECT_FALSE(ended.lacks(stream, 6));
  EXPECT_TRUE(ended.lacks(stream, 7));
}

TEST(EndedStreams, OthersAreNotMeant) {
  EndedStreams ended;
  ended.add({3, 1, 2}, 5);
  EXPECT_TRUE(ended.is_over({3, 1, 1})) << "a later one has been lost";
  EXPECT_FALSE(ended.is_over({3, 1, 3}));
  EXPECT_FALSE(ended.is_over({3, 0, 2}));
  EXPECT_FALSE(ended.is_over({2, 1, 2}));
  EXPECT_TRUE(ended.lacks({3, 0, 2}, 1));
}

TEST(EndedStreams, OnlyTheLastOfARailAreKept) {
  EndedStreams ended;
  ended.add({2, 1, 0}, 1);
  ended.add({3, 0, 0}, 1);
  for (std::uint32_t epoch = 0; epoch < 1000; ++epoch) ended.add({3, 1, epoch}, 5);
  EXPECT_EQ(ended.size(), EndedStreams::kKept + 2);
  EXPECT_TRUE(ended.is_over({3, 1, 0}));
  EXPECT_FALSE(ended.lacks({3, 1, 999}, 4));
  EXPECT_FALSE(ended.lacks({3, 1, 992}, 4));
  EXPECT_FALSE(ended.is_over({3, 1, 1000}));
}

}  // namespace ddl
