#include "launcher/core_binding.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace ddl {
namespace {

RankFacts local(int rank, int size) { return {rank, size, rank, size}; }

}  // namespace

TEST(CoreBinding, CpusAreToldAsRanges) {
  EXPECT_EQ(cpu_list_text({8, 0, 1, 2, 3}), "0-3,8");
  EXPECT_EQ(cpu_list_text({5}), "5");
  EXPECT_EQ(cpu_list_text({7, 6, 4}), "4,6-7");
}

TEST(CoreBinding, CpuListsAreParsed) {
  EXPECT_EQ(parse_cpu_list("0-3,8"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_THROW(parse_cpu_list("3-1"), UsageError);
  EXPECT_THROW(parse_cpu_list("a"), UsageError);
}

TEST(CoreBinding, EveryRankGetsItsShareWithAllHardwareThreads) {
  std::vector<CoreCpus> cores = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  EXPECT_EQ(choose_cpus(cores, local(0, 2)), (std::vector<int>{0, 4, 1, 5}));
  EXPECT_EQ(choose_cpus(cores, local(1, 2)), (std::vector<int>{2, 6, 3, 7}));
  EXPECT_EQ(choose_cpus(cores, local(3, 4)), (std::vector<int>{3, 7}));
  EXPECT_EQ(choose_cpus(cores, local(0, 1)).size(), 8u);
}

TEST(CoreBinding, SharesCoverAllCoresOnce) {
  std::vector<CoreCpus> cores;
  for (int cpu = 0; cpu < 11; ++cpu) cores.push_back({cpu});
  for (int ranks : {1, 2, 3, 4, 7, 11}) {
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank)
      for (int cpu : choose_cpus(cores, local(rank, ranks))) all.push_back(cpu);
    ASSERT_EQ(all.size(), cores.size());
    for (int cpu = 0; cpu < 11; ++cpu) EXPECT_EQ(all[static_cast<std::size_t>(cpu)], cpu);
  }
}

TEST(CoreBinding, NothingIsBoundWhereRanksOutnumberCoresOrFactsAreMissing) {
  EXPECT_TRUE(choose_cpus({{0}, {1}}, local(0, 3)).empty());
  EXPECT_TRUE(choose_cpus({}, local(0, 1)).empty());
  EXPECT_TRUE(choose_cpus({{0}, {1}}, {}).empty());
}

TEST(CoreBinding, ThisMachineHasACore) { EXPECT_FALSE(usable_cores().empty()); }

}  // namespace ddl
