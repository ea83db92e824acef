#include "core/bootstrap/strictest_settings.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

using Notes = std::vector<std::string>;

std::vector<GradientSettings> three(const GradientSettings& each) {
  return std::vector<GradientSettings>(3, each);
}

}  // namespace

TEST(StrictestSettings, WhereTheRanksAgreeNothingIsSaid) {
  const GradientSettings all{
      WireType::int8, WireWhere::everywhere, {500, {{4, 1000}}}, 1000, {0.1, 1000, 10, 5000}};
  const AgreedSettings agreed = strictest(three(all), false, 3);
  EXPECT_EQ(agreed.gradients, all);
  EXPECT_TRUE(agreed.notes.empty());
}

TEST(StrictestSettings, DifferentWireTypesAreExact) {
  std::vector<GradientSettings> given = three({.wire_type = WireType::bfloat16});
  given[2].wire_type = WireType::float16;
  const AgreedSettings agreed = strictest(given, false, 2);
  EXPECT_EQ(agreed.gradients.wire_type, WireType::exact);
  EXPECT_EQ(agreed.notes, Notes{"DDL_WIRE_TYPE is bfloat16 on rank 0 and not on rank 2 (float16 on rank 2): "
                                "all-reduces travel exact"});
}

TEST(StrictestSettings, EverywhereIsWhereAllRanksSaySo) {
  std::vector<GradientSettings> given =
      three({.wire_type = WireType::bfloat16, .wire_where = WireWhere::everywhere});
  EXPECT_EQ(strictest(given, false, 1).gradients.wire_where, WireWhere::everywhere) << "one host, too";
  EXPECT_EQ(strictest(given, false, 1).gradients.wire_type, WireType::bfloat16);
  given[1].wire_where = given[2].wire_where = WireWhere::between;
  for (int hosts : {1, 2}) {
    const AgreedSettings agreed = strictest(given, false, hosts);
    EXPECT_EQ(agreed.gradients.wire_where, WireWhere::between);
    EXPECT_EQ(agreed.gradients.wire_type, WireType::bfloat16);
    EXPECT_EQ(agreed.notes, Notes{"DDL_WIRE_TYPE_WHERE is everywhere on rank 0 and not on ranks 1, 2: "
                                  "all-reduces stay exact within a host"});
  }
  for (GradientSettings& one : given) one.wire_type = WireType::exact;
  EXPECT_TRUE(strictest(given, false, 2).notes.empty()) << "nothing is narrower anyway";
}

TEST(StrictestSettings, OfWhereNarrowingBeginsTheLargestCountsForEachNumberOfRanks) {
  std::vector<GradientSettings> given = three({.wire_type = WireType::bfloat16});
  given[0].wire_type_from = {100, {{2, 50}, {8, 400}}};
  given[1].wire_type_from = {200};
  given[2].wire_type_from = {300, {{4, BytesByRanks::kNever}, {8, 10}}};
  const BytesByRanks from = strictest(given, false, 2).gradients.wire_type_from;
  EXPECT_EQ(from.of(16), 300u);
  EXPECT_EQ(from.of(2), 300u) << "rank 0 alone has another number";
  EXPECT_EQ(from.of(4), BytesByRanks::kNever);
  EXPECT_EQ(from.of(8), 400u);
}

TEST(StrictestSettings, OfLazyBytesTheLeastCounts) {
  std::vector<GradientSettings> given = three({.lazy = 1000});
  given[1].lazy = 500;
  const AgreedSettings different = strictest(given, false, 1);
  EXPECT_EQ(different.gradients.lazy, 500u);
  EXPECT_EQ(different.notes, Notes{"DDL_LAZY_BYTES is 500 on rank 1 and 1000 on rank 0: the least counts"});
  given[2].lazy = 0;
  const AgreedSettings off = strictest(given, false, 1);
  EXPECT_EQ(off.gradients.lazy, 0u);
  EXPECT_EQ(off.notes, Notes{"DDL_LAZY_BYTES is 0 on rank 2 and 1000 on rank 0: no all-reduces are fused"});
}

TEST(StrictestSettings, NothingIsFusedWhereEveryRunGivesTheSameBits) {
  const AgreedSettings agreed = strictest(three({.lazy = 1000}), true, 1);
  EXPECT_EQ(agreed.gradients.lazy, 0u);
  ASSERT_EQ(agreed.notes.size(), 1u);
  EXPECT_NE(agreed.notes[0].find("DDL_DETERMINISTIC"), std::string::npos);
}

TEST(StrictestSettings, OfSharesTheLargestCounts) {
  std::vector<GradientSettings> given = three({.sparse = {0.1, 1000, 10, 5000}});
  given[1].sparse = {0.2, 500, 20, 4000};
  const AgreedSettings different = strictest(given, false, 3);
  EXPECT_EQ(different.gradients.sparse, (SparseSettings{0.2, 1000, 20, 4000}));
  ASSERT_EQ(different.notes.size(), 1u);
  EXPECT_NE(different.notes[0].find("on rank 0 and on rank 1"), std::string::npos) << different.notes[0];
  given[2].sparse = {};
  const AgreedSettings off = strictest(given, false, 3);
  EXPECT_FALSE(off.gradients.sparse.is_on());
  EXPECT_NE(off.notes[0].find("all-reduces are whole"), std::string::npos);
}

TEST(StrictestSettings, OneHostHasNothingToNarrowOrToLeaveOut) {
  std::vector<GradientSettings> given = three({.wire_type = WireType::int8, .sparse = {.share = 0.1}});
  given[1] = {};
  const AgreedSettings agreed = strictest(given, false, 1);
  EXPECT_EQ(agreed.gradients, GradientSettings{});
  EXPECT_TRUE(agreed.notes.empty());
}

}  // namespace ddl
