#include "core/base/partition.hpp"

#include <gtest/gtest.h>

namespace ddl {

TEST(Partition, PartsCoverTheRangeInOrderWithoutGapOrOverlap) {
  for (Elements count : {0, 1, 2, 3, 7, 64, 65, 1000, 4097})
    for (std::uint64_t parts : {1, 2, 3, 4, 7})
      for (Elements grain : {1, 16}) {
        Elements next = 5;
        for (std::uint64_t i = 0; i < parts; ++i) {
          Range part = part_of({5, count}, i, parts, grain);
          EXPECT_EQ(part.first, next);
          next += part.count;
        }
        EXPECT_EQ(next, 5 + count);
      }
}

TEST(Partition, PartsDifferByAtMostOneGrainAndTheRemainder) {
  for (Elements count : {64, 65, 1000, 4097}) {
    Elements least = ~Elements{0}, most = 0;
    for (std::uint64_t i = 0; i < 3; ++i) {
      Range part = part_of({0, count}, i, 3, 16);
      least = std::min(least, part.count);
      most = std::max(most, part.count);
    }
    EXPECT_LE(most - least, 2 * 16u);
  }
}

TEST(Partition, SmallRangesAreCutAtSingleElements) {
  EXPECT_EQ(part_of({0, 3}, 2, 3, 16), (Range{2, 1}));
  EXPECT_EQ(part_of({0, 1}, 0, 3, 16), (Range{0, 1}));
  EXPECT_EQ(part_of({0, 1}, 2, 3, 16), (Range{1, 0}));
}

}  // namespace ddl
