#include "core/topology/caches.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.hpp"

namespace ddl {
namespace {

class Caches : public test::TempFolder {
 protected:
  void add(int index, const std::string& level, const std::string& type, const std::string& size,
           const std::string& cpus) const {
    std::filesystem::path place = folder_ / ("index" + std::to_string(index));
    std::filesystem::create_directories(place);
    std::ofstream(place / "level") << level << '\n';
    std::ofstream(place / "type") << type << '\n';
    std::ofstream(place / "size") << size << '\n';
    std::ofstream(place / "shared_cpu_list") << cpus << '\n';
  }
};

TEST_F(Caches, TheSecondLevelAndTheLastWithAllThatShareIt) {
  add(0, "1", "Data", "48K", "0,64");
  add(1, "1", "Instruction", "32K", "0,64");
  add(2, "2", "Unified", "1024K", "0,64");
  add(3, "3", "Unified", "32M", "0-7,64-71");
  ddl::Caches caches = read_caches(folder_);
  EXPECT_EQ(caches.second, Bytes{1} << 20);
  EXPECT_EQ(caches.last, Bytes{32} << 20);
  EXPECT_EQ(caches.cores, 16);
}

TEST_F(Caches, WhereNothingIsStatedResultsOfTwoMegabytesAreStreamedAndTheRingIsSmall) {
  ddl::Caches caches = read_caches("/nowhere");
  EXPECT_EQ(caches.last, 0u);
  EXPECT_EQ(streamed_from(caches, 4), Bytes{2} << 20);
  EXPECT_EQ(ring_of_blocks(caches, 4), Bytes{256} << 10);
  add(0, "3", "Unified", "much", "all");
  EXPECT_EQ(streamed_from(read_caches(folder_), 4), Bytes{2} << 20);
}

TEST_F(Caches, RanksThatShareTheCacheDivideItAmongTheirTwoBuffers) {
  ddl::Caches caches{.last = Bytes{32} << 20, .cores = 8};
  EXPECT_EQ(streamed_from(caches, 1), Bytes{16} << 20);
  EXPECT_EQ(streamed_from(caches, 2), Bytes{8} << 20);
  EXPECT_EQ(streamed_from(caches, 8), Bytes{2} << 20);
  EXPECT_EQ(streamed_from(caches, 64), Bytes{2} << 20) << "others of them have caches of their own";
  EXPECT_EQ(streamed_from({.last = Bytes{480} << 20, .cores = 4}, 2), Bytes{16} << 20)
      << "no core has that much for itself";
}

TEST_F(Caches, TheRingOfBlocksIsTwiceWhatACoreHasWhereTheLastCacheHasRoomForIt) {
  ddl::Caches caches{.second = Bytes{1} << 20, .last = Bytes{32} << 20, .cores = 8};
  EXPECT_EQ(ring_of_blocks(caches, 2), Bytes{2} << 20);
  EXPECT_EQ(ring_of_blocks(caches, 8), Bytes{1} << 20);
  caches.second = Bytes{64} << 10;
  EXPECT_EQ(ring_of_blocks(caches, 2), Bytes{256} << 10);
  EXPECT_EQ(ring_of_blocks({.second = Bytes{8} << 20, .last = Bytes{480} << 20}, 2), Bytes{4} << 20);
}

TEST(RingOfBlocks, BeginsShortWhereTheLastCacheIsNoFasterThanAnotherCore) {
  EXPECT_EQ(first_round_of_blocks(Bytes{4} << 20, true), Bytes{512} << 10);
  EXPECT_EQ(first_round_of_blocks(Bytes{4} << 20, false), Bytes{4} << 20);
  EXPECT_EQ(first_round_of_blocks(Bytes{256} << 10, true), Bytes{256} << 10);
}

}  // namespace
}  // namespace ddl
