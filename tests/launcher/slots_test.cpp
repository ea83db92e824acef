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

TEST(Slots, TooManyRanksOnAHostAreSaidToo) {
  for (const char* option : {"-N", "-npernode", "-ppn", "--ntasks-per-node", "--nproc_per_node"})
    EXPECT_NE(
        said(std::string(option) + " 3 p").find("3 ranks of p are more than the 2 slots of this machine"),
        std::string::npos)
        << option;
  EXPECT_NE(said("-N 3 -H h1:3,h2:2 p").find("3 ranks of p on a host are more than the 2 slots of h2"),
            std::string::npos);
  EXPECT_NE(said("-N 5 -np 4 -H h1:3,h2:5 p").find("4 ranks of p on a host are more than the 3 slots of h1"),
            std::string::npos);
  EXPECT_NE(said("-N 2 -H h1 p").find("2 ranks of p on a host are more than the 1 slots of h1"),
            std::string::npos);
  FakeWorld unknown;
  unknown.files["/work dir/F"] = "h1\n";
  EXPECT_EQ(said("-N 3 -hostfile F p", unknown), "") << "as many slots as h1 has cores";
  EXPECT_NE(said("-N 1 -np 2 p").find("2 ranks of p are more than 1 on each of 1 host ("), std::string::npos);
  EXPECT_NE(said("-N 2 -np 5 -H h1:9,h2:9 p").find("more than 2 on each of 2 hosts"), std::string::npos);
  for (const char* line : {"-N 2 p", "-N 3 -H h1:3,h2:3 p", "-N 3 -np 3 -H h1:3,h2:1 p", "-N 3 -H h1:auto p",
                           "-N 3 --oversubscribe p", "-N 3 --map-by core p", "-N 3 a : -N 3 b"})
    EXPECT_EQ(said(line), "") << line;
}

TEST(Slots, WhatOnlyMpirunKnowsIsLeftToIt) {
  for (const char* line : {"p", "-np 3 --oversubscribe p", "-np 3 --map-by :OVERSUBSCRIBE p", "-np 3 -s p",
                           "-np 3 --mca rmaps_base_oversubscribe 1 p", "-np 3 --use-hwthread-cpus p",
                           "-np 9 -H h1:auto p", "-np 3 -mpiarg --oversubscribe p", "-np 3 a : b"})
    EXPECT_EQ(said(line), "") << line;
  EXPECT_EQ(said("-np 3 p", {}, 0), "") << "sysfs does not tell";
  FakeWorld variable, file, prefix, hosts, comment, slurm, grid, hostfile;
  variable.variables["OMPI_MCA_rmaps_base_oversubscribe"] = "1";
  EXPECT_EQ(said("-np 3 p", variable), "");
  for (const char* name : {"OMPI_MCA_orte_set_default_slots", "OMPI_MCA_hwloc_base_topo_file"}) {
    variable.variables = {{name, "x"}};
    EXPECT_EQ(said("-np 3 p", variable), "") << name;
  }
  prefix.files["/opt/mpi/etc/openmpi-mca-params.conf"] = "rmaps_base_oversubscribe = 1\n";
  EXPECT_EQ(said("-np 3 p", prefix), "") << "of an Open MPI anywhere";
  hosts.files["/opt/mpi/etc/openmpi-default-hostfile"] = "localhost slots=4\n";
  EXPECT_EQ(said("-np 3 p", hosts), "");
  file.files["/etc/openmpi/openmpi-mca-params.conf"] = "# text\n rmaps_base_oversubscribe = 1\n";
  EXPECT_EQ(said("-np 3 p", file), "");
  comment.files["/etc/openmpi/openmpi-mca-params.conf"] = "# rmaps_base_oversubscribe = 1\n\npml = ^ucx\n";
  EXPECT_NE(said("-np 3 p", comment), "");
  slurm.variables["SLURM_JOB_ID"] = "7";
  EXPECT_EQ(said("-np 3 p", slurm), "");
  grid.variables = {{"SGE_ROOT", "/s"}, {"ARC", "lx"}, {"JOB_ID", "7"}, {"PE_HOSTFILE", "/hosts"}};
  grid.files["/hosts"] = "localhost 8 all.q@localhost UNDEFINED\n";
  EXPECT_EQ(said("-np 8 p", grid), "");
  EXPECT_EQ(said("-np 8 -H localhost p", grid), "") << "mpirun has the scheduler's slots";
  hostfile.files["/work dir/F"] = "h1\n";
  EXPECT_EQ(said("-np 3 -hostfile F p", hostfile), "") << "as many slots as h1 has cores";
}

}  // namespace ddl
