#include "launcher/exec_env.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tests/launcher/fake_system.hpp"

namespace ddl {
namespace {

std::map<std::string, std::string> variables(const FakeWorld& world, const std::string& master = "") {
  System view = world.view();
  Assignments set = rank_variables(read_rank_facts(view), master, view);
  return {set.begin(), set.end()};
}

FakeWorld open_mpi(int rank, int size, int local_rank, int local_size) {
  FakeWorld world;
  world.variables = {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                     {"OMPI_COMM_WORLD_SIZE", std::to_string(size)},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(local_rank)},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", std::to_string(local_size)},
                     {"PMIX_NAMESPACE", "1352073217"}};
  return world;
}

}  // namespace

TEST(ExecEnv, TorchsVariablesComeFromOpenMpi) {
  auto set = variables(open_mpi(3, 4, 1, 2), "h0");
  EXPECT_EQ(set["RANK"], "3");
  EXPECT_EQ(set["WORLD_SIZE"], "4");
  EXPECT_EQ(set["LOCAL_RANK"], "1");
  EXPECT_EQ(set["LOCAL_WORLD_SIZE"], "2");
  EXPECT_EQ(set["MASTER_ADDR"], "h0");
  EXPECT_EQ(set["MASTER_PORT"], std::to_string(master_port("1352073217")));
}

TEST(ExecEnv, AJobOnOneHostMeetsOnLoopback) {
  EXPECT_EQ(variables(open_mpi(1, 2, 1, 2), "h0")["MASTER_ADDR"], "127.0.0.1");
}

TEST(ExecEnv, WhatAnotherJobLeftIsReplacedAndTheMeetingPlaceStays) {
  FakeWorld world = open_mpi(1, 2, 1, 2);
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
    world.variables[name] = "7";
  world.variables["MASTER_PORT"] = "29500";
  auto set = variables(world);
  EXPECT_EQ(set["RANK"], "1");
  EXPECT_EQ(set["WORLD_SIZE"], "2");
  EXPECT_EQ(set["LOCAL_RANK"], "1");
  EXPECT_EQ(set["LOCAL_WORLD_SIZE"], "2");
  EXPECT_EQ(set.count("MASTER_PORT"), 0u);
}

TEST(ExecEnv, WhatWasThereIsSaid) {
  FakeWorld world = open_mpi(0, 2, 0, 2);
  auto said = [&] {
    System view = world.view();
    return stale_variables_text(rank_variables(read_rank_facts(view), "", view), view);
  };
  EXPECT_EQ(said(), "");
  world.variables["RANK"] = "0";
  EXPECT_EQ(said(), "") << "it is right";
  world.variables["WORLD_SIZE"] = "1";
  world.variables["MASTER_ADDR"] = "h7";
  EXPECT_EQ(said(), "found in the environment: WORLD_SIZE=1 becomes 2, MASTER_ADDR=h7 stays");
}

TEST(ExecEnv, TheChoiceOfGpusIsNotOurs) {
  EXPECT_EQ(variables(open_mpi(1, 2, 1, 2)).count("CUDA_VISIBLE_DEVICES"), 0u);
}

TEST(ExecEnv, SlurmIsUnderstoodToo) {
  FakeWorld world;
  world.variables = {{"SLURM_PROCID", "4"},
                     {"SLURM_NTASKS", "5"},
                     {"SLURM_LOCALID", "0"},
                     {"SLURM_NODEID", "2"},
                     {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                     {"SLURM_JOB_NODELIST", "n[1-3]"},
                     {"SLURM_JOB_ID", "9"}};
  auto set = variables(world);
  EXPECT_EQ(set["RANK"], "4");
  EXPECT_EQ(set["LOCAL_WORLD_SIZE"], "1");
  EXPECT_EQ(set["MASTER_ADDR"], "n1");
}

TEST(ExecEnv, OutsideAnyJobNothingIsSet) { EXPECT_TRUE(variables({}).empty()); }

TEST(ExecEnv, ThePortIsTheSameForAJobAndInRange) {
  EXPECT_EQ(master_port("a"), master_port("a"));
  EXPECT_NE(master_port("a"), master_port("b"));
  for (int i = 0; i < 1000; ++i) {
    int port = master_port(std::to_string(i));
    EXPECT_GE(port, 10000);
    EXPECT_LT(port, 32000);
  }
}

TEST(ExecEnv, TheShimComesBeforeWhatIsPreloadedAlready) {
  EXPECT_EQ(preload_list("/l/s.so", ""), "/l/s.so");
  EXPECT_EQ(preload_list("/l/s.so", "/x.so"), "/l/s.so:/x.so");
  EXPECT_FALSE(can_be_preloaded("/my libs/s.so"));
  EXPECT_FALSE(can_be_preloaded("/a:b/s.so"));
}

TEST(ExecEnv, TheAddressSanitizerIsToldThatThePreloadedShimIsHarmless) {
  EXPECT_EQ(asan_options(""), "verify_asan_link_order=0");
  EXPECT_EQ(asan_options("detect_leaks=0"), "verify_asan_link_order=0:detect_leaks=0");
  EXPECT_EQ(asan_options("verify_asan_link_order=1"), "verify_asan_link_order=1");
}

}  // namespace ddl
