#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.hpp"
#include "hwloc_topo/discover.hpp"

namespace ddl {

// In a child: the test process itself must keep all its PUs.
TEST(Bind, AProcessRunsOnlyWhereItIsBound) {
  std::vector<int> before = binding_of_this_process();
  ASSERT_FALSE(before.empty());
  pid_t child = fork();
  if (child == 0) {
    bool bound = false;
    try {
      bind_this_process({before.back()});
      bound = binding_of_this_process() == std::vector<int>{before.back()};
    } catch (const Error&) {
    }
    _exit(bound ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(binding_of_this_process(), before);
}

TEST(Bind, PusThatDoNotExistAreRefusedWithTheirNumbers) {
  try {
    bind_this_process({1000000});
    FAIL() << "binding to PU 1000000 went through";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1000000"), std::string::npos);
  }
  EXPECT_THROW(bind_this_process({}), Error);
  EXPECT_THROW(bind_this_process({-1}), Error);
}

}  // namespace ddl
