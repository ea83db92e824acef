#include "core/topology/numa.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "tests/support/temp_folder.hpp"

namespace ddl {

using Numa = test::TempFolder;

TEST_F(Numa, CpusOfOneNodeAreThere) {
  namespace fs = std::filesystem;
  const fs::path& nodes = folder_;
  for (const char* file :
       {"node0/cpu0", "node0/cpu2", "node1/cpu1", "node1/cpu11", "possible", "nodes/cpu0"}) {
    fs::create_directories((nodes / file).parent_path());
    std::ofstream(nodes / file);
  }
  auto node_of = [&](std::vector<int> cpus) { return numa_node_of(cpus, nodes); };
  EXPECT_EQ(node_of({0, 2}), 0);
  EXPECT_EQ(node_of({11}), 1);
  EXPECT_EQ(node_of({0, 1}), -1) << "of two nodes";
  EXPECT_EQ(node_of({7}), -1) << "of none";
  EXPECT_EQ(node_of({}), -1);
  EXPECT_EQ(numa_node_of(std::vector<int>{0}, nodes / "missing"), -1);
}

}  // namespace ddl
