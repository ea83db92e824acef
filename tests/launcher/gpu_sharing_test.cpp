#include "launcher/gpu_sharing.hpp"

#include <gtest/gtest.h>

#include "tests/launcher/fake_system.hpp"

namespace ddl {
namespace {

NodeTopology with_gpus(std::initializer_list<const char*> vendors) {
  NodeTopology node;
  for (const char* vendor : vendors) {
    node.gpus.emplace_back();
    node.gpus.back().vendor = vendor;
  }
  return node;
}

const NodeTopology kFour = with_gpus({"NVIDIA", "NVIDIA", "NVIDIA", "NVIDIA"});
using Text = std::optional<std::string>;

}  // namespace

TEST(GpuSharing, GpusAreCountedAsCudaShowsThem) {
  EXPECT_EQ(cuda_gpus(kFour, std::nullopt), 4u);
  EXPECT_EQ(cuda_gpus(with_gpus({"AMD", "NVIDIA", "Intel"}), std::nullopt), 1u);
  EXPECT_EQ(cuda_gpus(kFour, Text("0,2")), 2u);
  EXPECT_EQ(cuda_gpus(kFour, Text("GPU-8932f937")), 1u);
  EXPECT_EQ(cuda_gpus(kFour, Text("")), 0u);
  EXPECT_EQ(cuda_gpus(kFour, Text("-1")), 0u);
  EXPECT_EQ(cuda_gpus(kFour, Text("1,7,2")), 1u) << "what follows a GPU that is not there is hidden";
  EXPECT_EQ(cuda_gpus({}, Text("0")), 0u);
}

TEST(GpuSharing, MoreRanksThanGpusIsSaid) {
  System world = FakeWorld{}.view();
  EXPECT_EQ(sharing_line(5, kFour, world),
            "5 ranks share 4 GPUs on host head.cluster: the engine serves their NCCL calls, since NCCL "
            "refuses two ranks on one GPU");
  EXPECT_EQ(sharing_line(4, kFour, world), "");
  EXPECT_EQ(sharing_line(4, {}, world), "") << "a host without GPUs shares none";
  world.visible_gpus = "3";
  EXPECT_EQ(sharing_line(2, kFour, world).rfind("2 ranks share 1 GPU on", 0), 0u);
  world.visible_gpus = "";
  EXPECT_EQ(sharing_line(2, kFour, world), "");
}

TEST(GpuSharing, TheEngineIsNotPromisedWhereItIsOff) {
  FakeWorld off;
  off.variables["DDL_ENABLE"] = "0";
  std::string line = sharing_line(5, kFour, off.view());
  EXPECT_EQ(line.find("the engine serves"), std::string::npos) << line;
  EXPECT_NE(line.find("DDL_ENABLE=0"), std::string::npos) << line;
}

}  // namespace ddl
