#include "launcher/mpirun_info.hpp"

#include <gtest/gtest.h>

namespace ddl {

TEST(MpirunInfo, OpenMpisVersionIsRead) {
  MpirunInfo four = parse_mpirun_version("mpirun", "mpirun (Open MPI) 4.1.4\n\nReport bugs to ...\n");
  EXPECT_TRUE(four.open_mpi);
  EXPECT_EQ(four.major, 4);
  EXPECT_EQ(four.version, "4.1.4");
  EXPECT_EQ(parse_mpirun_version("mpirun", "mpirun (Open MPI) 5.0.7rc1\n").major, 5);
}

TEST(MpirunInfo, OthersAreNotOpenMpi) {
  EXPECT_FALSE(parse_mpirun_version("mpirun", "HYDRA build details:\n    Version: 4.0.2\n").open_mpi);
  EXPECT_FALSE(
      parse_mpirun_version("mpirun", "Intel(R) MPI Library for Linux* OS, Version 2021.9\n").open_mpi);
  EXPECT_FALSE(parse_mpirun_version("mpirun", "").open_mpi);
  EXPECT_FALSE(parse_mpirun_version("mpirun", "mpirun (Open MPI) 3.1.3\n").open_mpi);
}

TEST(MpirunInfo, OnlyExecutableFilesAreFound) {
  EXPECT_EQ(find_on_path("sh", "/nonexistent:/bin", "/"), "/bin/sh");
  EXPECT_EQ(find_on_path("bin", "/", "/"), "");
  EXPECT_EQ(find_on_path("sh", "", "/tmp"), "");
}

}  // namespace ddl
