#include "core/tune/ddl_options.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace ddl {

TEST(DdlOptions, WithoutWordsTheModeIsToPick) {
  EXPECT_EQ(parse_ddl_options("", 8).mode, Mode::pick);
  EXPECT_EQ(parse_ddl_options("  ", 8).mode, Mode::pick);
}

TEST(DdlOptions, WithoutAModeItIsIbmsFlatRing) {
  DdlOptions options = parse_ddl_options("-dump_iter 100", 8);
  EXPECT_EQ(options.mode, Mode::ring);
  EXPECT_EQ(options.dims, std::vector<Rank>{8});
  EXPECT_EQ(options.dump_iter, 100u);
}

TEST(DdlOptions, ModeAndDimensionsAreRead) {
  DdlOptions options = parse_ddl_options("-mode b:4x2x2 --dbg_level 1 -dev_sync 2", 16);
  EXPECT_EQ(options.mode, Mode::blue);
  EXPECT_EQ(options.dims, (std::vector<Rank>{4, 2, 2}));
  EXPECT_EQ(options.dbg_level, 1u);
  EXPECT_EQ(options.ignored, std::vector<std::string>{"-dev_sync"});
}

TEST(DdlOptions, VariablesOfGradientsMayStandThere) {
  Env env = parse_env({"DDL_WIRE_TYPE=int8", "DDL_LAZY_BYTES=1m",
                       "DDL_OPTIONS=-mode b -wire_type bfloat16 -wire_type_from 4k,2:never -sparse 0.1 "
                       "-wire_type_where everywhere"});
  env = with_options(env);
  EXPECT_EQ(env.wire_type, WireType::bfloat16) << "the options overrule";
  EXPECT_EQ(env.wire_type_where, WireWhere::everywhere);
  EXPECT_EQ(env.wire_type_from.of(4), 4096u);
  EXPECT_EQ(env.lazy_bytes, Bytes{1} << 20);
  EXPECT_EQ(env.sparse, 0.1);
  EXPECT_EQ(parse_ddl_options(env.options, 8).mode, Mode::blue);
  EXPECT_EQ(parse_ddl_options("-lazy_bytes 1m", 8).mode, Mode::pick) << "no word of IBM's";
}

TEST(DdlOptions, AModeIsALetterPerhapsWithDimensions) {
  EXPECT_EQ(parse_mode("r")->mode, Mode::ring);
  EXPECT_EQ(parse_mode("c:2")->mode, Mode::blue);
  EXPECT_EQ(parse_mode("p:4x1x3")->dims, (std::vector<Rank>{4, 1, 3}));
  for (const char* word : {"", "q", "b4", "b:", "b:4x", "b:x4", "b:4x0", "b:-4", "b:1000001", "b:4y2"})
    EXPECT_FALSE(parse_mode(word)) << word;
}

TEST(DdlOptions, TheUsersDimensionsAreForCommunicatorsOfAsManyRanks) {
  DdlOptions options = parse_ddl_options("-mode b:2x2x2", 8);
  std::vector<HostIndex> eight = {0, 0, 0, 0, 1, 1, 1, 1}, four = {0, 0, 1, 1};
  EXPECT_EQ(grid_of(options, eight).dimensions(), 3);
  EXPECT_EQ(grid_of(options, four).dimensions(), 2);
  EXPECT_EQ(grid_of({}, eight).fanout(0), 4);
  std::vector<int> nodes = {0, 0, 1, 1, 0, 0, 1, 1};
  EXPECT_EQ(grid_of({}, eight, nodes).dimension(1).name, "NUMA nodes");
}

TEST(DdlOptions, GarbageIsRefusedInOneLine) {
  for (const char* text :
       {"mode p", "-mode", "-mode q", "-mode b:4y2", "-mode b:0x2", "-mode p4", "-dump_iter x", "-what 1",
        "-", "-wire_type half", "-wire_type_where here", "-wire_type", "-sparse 2", "-verbose 1"}) {
    try {
      parse_ddl_options(text, 8);
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

}  // namespace ddl
