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

TEST_F(Caches, TheLastOneCountsWithAllThatShareIt) {
  add(0, "1", "Data", "48K", "0,64");
  add(1, "1", "Instruction", "32K", "0,64");
  add(2, "2", "Unified", "1024K", "0,64");
  add(3, "3", "Unified", "32M", "0-7,64-71");
  SharedCache cache = last_cache(folder_);
  EXPECT_EQ(cache.bytes, Bytes{32} << 20);
  EXPECT_EQ(cache.cores, 16);
}

TEST_F(Caches, WhereNothingIsStatedResultsOfTwoMegabytesAreStreamed) {
  SharedCache cache = last_cache("/nowhere");
  EXPECT_EQ(cache.bytes, 0u);
  EXPECT_EQ(streamed_from(cache, 4), Bytes{2} << 20);
  add(0, "3", "Unified", "much", "all");
  EXPECT_EQ(streamed_from(last_cache(folder_), 4), Bytes{2} << 20);
}

TEST_F(Caches, RanksThatShareTheCacheDivideItAmongTheirTwoBuffers) {
  SharedCache cache{Bytes{32} << 20, 8};
  EXPECT_EQ(streamed_from(cache, 1), Bytes{16} << 20);
  EXPECT_EQ(streamed_from(cache, 2), Bytes{8} << 20);
  EXPECT_EQ(streamed_from(cache, 8), Bytes{2} << 20);
  EXPECT_EQ(streamed_from(cache, 64), Bytes{2} << 20) << "others of them have caches of their own";
  EXPECT_EQ(streamed_from({Bytes{480} << 20, 4}, 2), Bytes{16} << 20) << "no core has that much for itself";
}

}  // namespace
}  // namespace ddl
