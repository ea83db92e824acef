#include "core/collective/short_wait.hpp"

#include <gtest/gtest.h>

namespace ddl {

TEST(ShortWait, EndsAfterSoManyPauses) {
  ShortWait wait = ShortWait::pauses(3);
  EXPECT_FALSE(wait.yields());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(wait.once());
  EXPECT_FALSE(wait.once());
  EXPECT_FALSE(ShortWait::pauses(0).once());
}

TEST(ShortWait, EndsAfterSoManyYieldsAtTheLatest) {
  ShortWait wait = ShortWait::yields(3);
  EXPECT_TRUE(wait.yields());
  int yields = 0;
  while (wait.once()) ++yields;
  EXPECT_GE(yields, 1);
  EXPECT_LE(yields, 3);
  EXPECT_FALSE(wait.once());
}

}  // namespace ddl
