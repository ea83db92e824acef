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

TEST(Siblings, AreJoiningAsTheNamesOfTheirThreadsTell) {
  const std::string with_shim = "LD_PRELOAD=/opt/ddl/lib/libddl_shim.so:/x.so\0PMIX_RANK=3\0"s;
  EXPECT_EQ(joining_of("python3\n", with_shim), Joining::not_yet);
  EXPECT_EQ(joining_of("python3\nddl-joining\npython3\n", with_shim), Joining::under_way);
  EXPECT_EQ(joining_of("python3\nddl-watch\n", with_shim), Joining::over);
  EXPECT_EQ(joining_of("python3\n", "PMIX_RANK=3\0"s), Joining::unknown);
  EXPECT_EQ(joining_of("", ""), Joining::unknown);
}

}  // namespace ddl
