#include "launcher/allocation.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "tests/launcher/fake_system.hpp"

namespace ddl {
namespace {

Allocation resolve(const std::string& line, const FakeWorld& world) {
  return resolve_allocation(parse_options(split_shell_words(line)), world.view());
}

}  // namespace

TEST(Allocation, WithoutAnyHintItIsThisMachine) {
  Allocation allocation = resolve("p", {});
  EXPECT_EQ(allocation.source, AllocationSource::this_machine);
  EXPECT_EQ(allocation.hosts, (HostList{{"head.cluster", 0}}));
}

TEST(Allocation, TheHostOptionWinsOverTheScheduler) {
  FakeWorld world;
  world.variables["SLURM_JOB_NODELIST"] = "n[1-2]";
  EXPECT_EQ(resolve("-H h1:2,h2:2 p", world).hosts, (HostList{{"h1", 2}, {"h2", 2}}));
}

TEST(Allocation, AHostfileIsReadFromTheWorkingDirectory) {
  FakeWorld world;
  world.files["/work dir/hosts"] = "h1 slots=2\nh2 slots=1\n";
  Allocation allocation = resolve("--hostfile hosts p", world);
  EXPECT_EQ(allocation.source, AllocationSource::hostfile);
  EXPECT_EQ(allocation.hosts, (HostList{{"h1", 2}, {"h2", 1}}));
  EXPECT_THROW(resolve("--hostfile other p", world), UsageError);
}

TEST(Allocation, SlurmsNodesAndTasksAreCombined) {
  FakeWorld world;
  world.variables = {
      {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[1-3]"}, {"SLURM_TASKS_PER_NODE", "2(x2),1"}};
  Allocation allocation = resolve("p", world);
  EXPECT_EQ(allocation.hosts, (HostList{{"n1", 2}, {"n2", 2}, {"n3", 1}}));
  EXPECT_FALSE(allocation.mpirun_needs_hosts());
}

TEST(Allocation, ANodeListWithoutAJobIsNotedAndNotUsed) {
  FakeWorld world;
  world.variables["SLURM_JOB_NODELIST"] = "n[1-3]";
  Allocation allocation = resolve("p", world);
  EXPECT_EQ(allocation.source, AllocationSource::this_machine);
  EXPECT_NE(allocation.note.find("there is no SLURM_JOB_ID"), std::string::npos);
  EXPECT_EQ(resolve("-H h1 p", world).note, "");
}

TEST(Allocation, LsfMayNameItsHostsInAVariable) {
  FakeWorld world;
  world.variables["LSB_MCPU_HOSTS"] = "a 4 b 2 ";
  EXPECT_EQ(resolve("p", world).hosts, (HostList{{"a", 4}, {"b", 2}}));
  EXPECT_EQ(resolve("p", world).source, AllocationSource::lsf);
  for (const char* wrong : {"a", "a 4 b", "a x", "4", " "}) {
    world.variables["LSB_MCPU_HOSTS"] = wrong;
    EXPECT_THROW(resolve("p", world), UsageError) << wrong;
  }
}

TEST(Allocation, GridEngineNamesHostAndSlotsInEachLine) {
  FakeWorld world;
  world.files["/spool/hosts"] = "a.cluster 8 all.q@a UNDEFINED\nb 4 all.q@b UNDEFINED\n";
  world.variables = {{"PE_HOSTFILE", "/spool/hosts"}, {"SGE_ROOT", "/sge"}, {"ARC", "lx"}};
  EXPECT_EQ(resolve("p", world).source, AllocationSource::this_machine) << "mpirun wants a JOB_ID too";
  world.variables["JOB_ID"] = "7";
  EXPECT_EQ(resolve("p", world).source, AllocationSource::grid_engine);
  EXPECT_EQ(resolve("p", world).hosts, (HostList{{"a.cluster", 8}, {"b", 4}}));
  EXPECT_EQ(resolve("-H h1 p", world).source, AllocationSource::host_option);
}

TEST(Allocation, TheDefaultHostfileCountsWhereNothingElseDoes) {
  FakeWorld world;
  world.files = {{"/work dir/D", "h1 slots=2\n"}, {"/work dir/F", "h2\n"}};
  EXPECT_EQ(resolve("--default-hostfile D p", world).hosts, (HostList{{"h1", 2}}));
  EXPECT_EQ(resolve("--default-hostfile D p", world).source, AllocationSource::default_hostfile);
  EXPECT_EQ(resolve("--default-hostfile D --hostfile F p", world).hosts, (HostList{{"h2", 0}}));
}

TEST(Allocation, AHostfileOfMpichsFormIsUnderstood) {
  FakeWorld world;
  world.files = {{"/work dir/F", "# hosts\na:2\nb:1 # one\n"}, {"/work dir/G", "a slots=2 # 1:2\n"}};
  EXPECT_EQ(resolve("-f F p", world).hosts, (HostList{{"a", 2}, {"b", 1}}));
  EXPECT_TRUE(resolve("-f F p", world).is_foreign_hostfile);
  EXPECT_FALSE(resolve("-f G p", world).is_foreign_hostfile);
}

TEST(Allocation, LsfAndPbsNameAHostPerSlot) {
  FakeWorld lsf, pbs;
  lsf.variables["LSB_DJOB_HOSTFILE"] = pbs.variables["PBS_NODEFILE"] = "/spool/hosts";
  lsf.files["/spool/hosts"] = pbs.files["/spool/hosts"] = "a\na\nb\n";
  EXPECT_EQ(resolve("p", lsf).hosts, (HostList{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(resolve("p", pbs).source, AllocationSource::pbs);
  EXPECT_TRUE(resolve("p", pbs).mpirun_needs_hosts());
}

// As in a container that has the variables of the job it was started in, and not its files.
TEST(Allocation, ASchedulersFileThatIsNotThereIsNotUsed) {
  for (const char* variable : {"PBS_NODEFILE", "LSB_DJOB_HOSTFILE"}) {
    FakeWorld world;
    world.variables[variable] = "/spool/hosts";
    EXPECT_EQ(resolve("p", world).source, AllocationSource::this_machine);
    EXPECT_NE(resolve("p", world).note.find(std::string(variable) + "=/spool/hosts"), std::string::npos);
    EXPECT_EQ(resolve("-H a p", world).note, "");
  }
}

TEST(Allocation, TheShapeMustFitTheHosts) {
  EXPECT_NO_THROW(resolve("-aisles 1 -racks 2 -nodes 2 -H a,b,c,d p", {}));
  EXPECT_NO_THROW(resolve("-racks 2 -H a,b,c,d p", {}));
  EXPECT_THROW(resolve("-racks 2 -nodes 3 -H a,b,c,d p", {}), UsageError);
  EXPECT_THROW(resolve("-racks 3 -H a,b,c,d p", {}), UsageError);
}

}  // namespace ddl
