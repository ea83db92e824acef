#include "launcher/slots.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "tests/launcher/fake_system.hpp"

namespace ddl {
namespace {

std::string said(const std::string& line, const FakeWorld& world = {}, std::uint64_t cores = 2) {
  Options options = parse_options(split_shell_words(line));
  try {
    check_slots(options, resolve_allocation(options, world.view()), world.view(), cores);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(Slots, TooManyRanksAreSaidOfTheUsersProgram) {
  EXPECT_EQ(said("-np 3 python3 t.py"),
            "3 ranks of python3 are more than the 2 slots of this machine, its cores (mpirun would not start "
            "them); "
            "add --oversubscribe to let ranks share cores, or start fewer");
  EXPECT_NE(said("-np 1 a : -np 2 b").find("3 ranks of a and b are more"), std::string::npos);
  EXPECT_NE(said("-np 4 -H h1:2,h2 p").find("the 3 slots of -H"), std::string::npos);
  FakeWorld world;
  world.files["/work dir/F"] = "h1 slots=2\nh2 slots=1\n";
  EXPECT_NE(said("-np 4 -hostfile F p", world).find("the 3 slots of the hostfile"), std::string::npos);
  EXPECT_EQ(said("-np 3 -hostfile F p", world), "");
  EXPECT_EQ(said("-np 2 p"), "");
}

TEST(Slots, WhatOnlyMpirunKnowsIsLeftToIt) {
  for (const char* line :
       {"p", "-np 3 --oversubscribe p", "-np 3 --map-by :OVERSUBSCRIBE p", "-N 3 p", "-np 3 -s p",
        "-np 3 --mca rmaps_base_oversubscribe 1 p", "-np 3 --use-hwthread-cpus p", "-np 9 -H h1:auto p",
        "-np 3 -mpiarg --oversubscribe p", "-np 3 a : b"})
    EXPECT_EQ(said(line), "") << line;
  EXPECT_EQ(said("-np 3 p", {}, 0), "") << "sysfs does not tell";
  FakeWorld variable, file, comment, slurm, hostfile;
  variable.variables["OMPI_MCA_rmaps_base_oversubscribe"] = "1";
  EXPECT_EQ(said("-np 3 p", variable), "");
  file.files["/etc/openmpi/openmpi-mca-params.conf"] = "# text\n rmaps_base_oversubscribe = 1\n";
  EXPECT_EQ(said("-np 3 p", file), "");
  comment.files["/etc/openmpi/openmpi-mca-params.conf"] = "# rmaps_base_oversubscribe = 1\n\npml = ^ucx\n";
  EXPECT_NE(said("-np 3 p", comment), "");
  slurm.variables["SLURM_JOB_ID"] = "7";
  EXPECT_EQ(said("-np 3 p", slurm), "");
  hostfile.files["/work dir/F"] = "h1\n";
  EXPECT_EQ(said("-np 3 -hostfile F p", hostfile), "") << "as many slots as h1 has cores";
}

}  // namespace ddl
