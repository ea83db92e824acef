#include "core/bootstrap/siblings.hpp"

#include <gtest/gtest.h>

namespace ddl {

using namespace std::string_literals;

TEST(Siblings, AreOfTheSameJobAndHaveARank) {
  const std::string environment = "HOME=/\0PMIX_RANKS=9\0PMIX_RANK=3\0PMIX_NAMESPACE=job.1\0"s;
  EXPECT_EQ(rank_in(environment, "job.1"), 3);
  EXPECT_EQ(rank_in(environment, "job.2"), -1);
  EXPECT_EQ(rank_in(environment, ""), -1);
  EXPECT_EQ(rank_in("PMIX_RANK=x\0PMIX_NAMESPACE=job.1\0"s, "job.1"), -1);
  EXPECT_EQ(rank_in("PMIX_NAMESPACE=job.1"s, "job.1"), -1);
  EXPECT_EQ(rank_in("", "job.1"), -1);
}

}  // namespace ddl
