#include "launcher/accelerators.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "tests/launcher/fake_system.hpp"

namespace ddl {
namespace {

Options counted(const std::string& line, const FakeWorld& world = {}) {
  return with_rank_per_accelerator(parse_options(split_shell_words(line)), world.view());
}

// mpirun's options of the only program as words.
std::string words(const std::string& line, const FakeWorld& world = {}) {
  Strings words;
  Options options = counted(line, world);
  for (const PassedOption& option : options.apps[0].options) {
    words.push_back(option.word);
    words.insert(words.end(), option.values.begin(), option.values.end());
  }
  return join(words, " ");
}

}  // namespace

TEST(Accelerators, OnThisMachineTheyAreTheNumberOfRanks) {
  EXPECT_EQ(words("--accelerators 4 p"), "-np 4");
  EXPECT_EQ(counted("--accelerators 4 p").ranks_per_host, 4u);
  EXPECT_EQ(words("p"), "");
  EXPECT_EQ(counted("p").ranks_per_host, 0u);
}

TEST(Accelerators, HostsWithoutSlotsGetAsMany) {
  EXPECT_EQ(words("-accelerators 4 -H h1,me@h2 p"), "-H h1:4,me@h2:4");
  EXPECT_EQ(words("-accelerators 2 -host h1 --map-by node -H h2 p"), "-host h1:2 --map-by node -H h2:2");
  EXPECT_EQ(words("-accelerators 2 -H +n0,+n1 p"), "-H +n0,+n1 -N 2") << "relative names take no number";
}

TEST(Accelerators, OtherAllocationsGetThemOnEachHost) {
  FakeWorld world;
  world.files["/work dir/F"] = "h1\nh2 slots=8\n";
  EXPECT_EQ(words("-accelerators 4 -hostfile F p", world), "-hostfile F -N 4");
  EXPECT_EQ(words("-accelerators 4 -hostfile F --map-by node p", world), "-hostfile F --map-by node -np 8");
  FakeWorld slurm;
  slurm.variables = {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[1-3]"}};
  EXPECT_EQ(words("-accelerators 2 p", slurm), "-N 2");
  EXPECT_EQ(words("-accelerators 2 --mpiarg '--map-by core' p", slurm), "-np 6");
}

TEST(Accelerators, EveryOtherCountGoesFirst) {
  for (const char* options : {"-np 3", "-n 3", "-H h1:2,h2", "-H h1,h1", "-N 1", "-npernode 1", "-pernode",
                              "-rf F", "--map-by PPR:2:node", "--map-by rankfile:file=F"}) {
    Options given = counted(fmt::format("--accelerators 4 {} p", options));
    EXPECT_EQ(given.ranks_per_host, 0u) << options;
    EXPECT_EQ(words(fmt::format("--accelerators 4 {} p", options)), options);
  }
  EXPECT_EQ(words("--accelerators 4 --mpiarg '-np 3' p"), "");
  EXPECT_EQ(words("--accelerators 4 --mpiarg '--mca a b' p"), "-np 4");
  EXPECT_EQ(words("--accelerators 4 p : q"), "");
}

TEST(Accelerators, BadNumbersAreRefused) {
  for (const char* value : {"0", "-1", "x", "4x", "1.5", "''"})
    EXPECT_THROW(counted(fmt::format("--accelerators {} p", value)), UsageError) << value;
}

}  // namespace ddl
