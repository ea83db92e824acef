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

TEST(PmixLibrary, KnowsWhereTheServerListens) {
  EXPECT_EQ(pmix_server_of("1998848000.0;tcp4://127.0.0.1:53337").text(), "127.0.0.1:53337");
  EXPECT_EQ(pmix_server_of("prterun-h0-7@0.0;tcp6://[fd00::1]:80").text(), "[fd00::1]:80");
  EXPECT_EQ(pmix_server_of("job.0;tcp6://fd00::1:80").text(), "[fd00::1]:80");
  for (const char* nothing : {"", "7", "job.0;usock://tmp/a:1", "job.0;tcp4://", "job.0;tcp4://host:80",
                              "job.0;tcp4://127.0.0.1:70000"})
    EXPECT_EQ(pmix_server_of(nothing).port, 0) << nothing;
}

}  // namespace
}  // namespace ddl
