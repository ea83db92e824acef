#include "core/net/descriptors.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <optional>

#include "core/base/error.hpp"

namespace ddl {
namespace {

void allow(rlim_t now, rlim_t most) {
  const rlimit limit{now, most};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) std::abort();
}

rlim_t allowed() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

// In processes of their own: a limit that is once lower cannot be raised again.
TEST(DescriptorShare, RaisesTheLimitAsFarAsItMay) {
  EXPECT_EXIT(
      {
        allow(100, 500);
        const DescriptorShare first(40);  // whatever it wants
        const bool as_it_was = allowed() == 100;
        const DescriptorShare second(20);
        std::_Exit(as_it_was && allowed() == 240 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(DescriptorShare, IsRefusedBeyondAQuarter) {
  EXPECT_EXIT(
      {
        allow(100, 100);
        std::optional<DescriptorShare> first(20);
        std::optional<DescriptorShare> more;
        try {
          more.emplace(10);
          std::_Exit(1);
        } catch (const Error&) {
        }
        more.emplace(5);  // the last one counts for nothing
        first.reset();
        const DescriptorShare freed(20);
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ddl
