#include "core/bootstrap/pmix_library.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

using Paths = std::vector<std::string>;

TEST(PmixLibrary, IsTheOneThatWasBuiltWithWhereMpirunNamesNone) {
  EXPECT_EQ(pmix_library_paths("", "", "/usr/lib/pmix2/lib"),
            (Paths{"/usr/lib/pmix2/lib/libpmix.so.2", "libpmix.so.2"}));
}

TEST(PmixLibrary, IsOpenMpisOwnFirst) {
  EXPECT_EQ(pmix_library_paths("/opt/ompi/lib", "/opt/ompi", "/built/with"),
            (Paths{"/opt/ompi/lib/libpmix.so.2", "/opt/ompi/lib/openmpi/libpmix.so.2",
                   "/opt/ompi/lib/libpmix.so.2", "/opt/ompi/lib64/libpmix.so.2", "/built/with/libpmix.so.2",
                   "libpmix.so.2"}));
}

}  // namespace
}  // namespace ddl
