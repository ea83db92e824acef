#include "core/topology/rdma.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace ddl {
namespace fs = std::filesystem;

TEST(Rdma, IsThereWhereAnyPortOfAnyDeviceIsActive) {
  const fs::path root = fs::temp_directory_path() / ("ddl-rdma-" + std::to_string(getpid()));
  auto port = [&](const char* name, const char* state) {
    fs::create_directories(root / name);
    std::ofstream(root / name / "state") << state << '\n';
  };
  EXPECT_FALSE(has_active_rdma(root)) << "no such directory";
  port("mlx5_0/ports/1", "1: DOWN");
  fs::create_directories(root / "odd");  // without ports
  EXPECT_FALSE(has_active_rdma(root));
  port("mlx5_1/ports/2", "4: ACTIVE");
  EXPECT_TRUE(has_active_rdma(root));
  fs::remove_all(root);
}

}  // namespace ddl
