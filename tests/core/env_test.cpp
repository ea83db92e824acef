#include "core/base/env.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/base/error.hpp"

namespace ddl {

TEST(Env, DefaultsComeFromTheTable) {
  Env env;
  EXPECT_TRUE(env.enable);
  EXPECT_EQ(env.staging_bytes, Bytes{16} << 20);
  EXPECT_TRUE(env.fake_hosts.empty());
}

TEST(Env, ValuesAreParsedStrictly) {
  EXPECT_EQ(parse_env({"DDL_STAGING_BYTES=4m"}).staging_bytes, Bytes{4} << 20);
  EXPECT_EQ(parse_env({"DDL_FAKE_HOSTS=2,1,3"}).fake_hosts, (std::vector<int>{2, 1, 3}));
  EXPECT_THROW(parse_env({"DDL_FAKE_HOSTS=2,,3"}), UsageError);
  EXPECT_THROW(parse_env({"DDL_FAKE_HOSTS=2,0"}), UsageError);
  EXPECT_THROW(parse_env({"DDL_ENABLE=yes"}), UsageError);
  EXPECT_EQ(parse_env({"DDL_WIRE=tcp"}).wire, Wire::tcp);
  EXPECT_THROW(parse_env({"DDL_WIRE=udp"}), UsageError);
  EXPECT_EQ(parse_env({}).lazy_bytes, 0u);
  EXPECT_EQ(parse_env({"DDL_LAZY_BYTES=1m"}).lazy_bytes, Bytes{1} << 20);
  EXPECT_THROW(parse_env({"DDL_LAZY_BYTES=-1"}), UsageError);
  EXPECT_EQ(parse_env({}).wire_type, WireType::exact);
  EXPECT_EQ(parse_env({"DDL_WIRE_TYPE=bfloat16"}).wire_type, WireType::bfloat16);
  EXPECT_EQ(parse_env({}).wire_type_where, WireWhere::between);
  EXPECT_EQ(parse_env({"DDL_WIRE_TYPE_WHERE=everywhere"}).wire_type_where, WireWhere::everywhere);
  for (const char* entry :
       {"DDL_WIRE_TYPE=int32", "DDL_WIRE_TYPE=half", "DDL_WIRE_TYPE=", "DDL_WIRE_TYPE_WHERE=here",
        "DDL_WIRE_TYPE_FROM=-1", "DDL_WIRE_TYPE_FROM=4:", "DDL_WIRE_TYPE_FROM=:4", "DDL_WIRE_TYPE_FROM=0:4",
        "DDL_WIRE_TYPE_FROM=4:1k,4:2k", "DDL_WIRE_TYPE_FROM=never", "DDL_WIRE_TYPE_FROM=1k,,2:3"})
    EXPECT_THROW(parse_env({entry}), UsageError) << entry;
  EXPECT_THROW(parse_env({"DDL_STAGING_BYTES=-1"}), UsageError);
  EXPECT_THROW(parse_env({"DDL_TIMEOUT=nan"}), UsageError);
  EXPECT_EQ(parse_env({}).sparse, 1);
  EXPECT_EQ(parse_env({"DDL_SPARSE=0.1"}).sparse, 0.1);
  for (const char* entry : {"DDL_SPARSE=0", "DDL_SPARSE=2", "DDL_SPARSE=-0.1", "DDL_SPARSE=nan",
                            "DDL_SPARSE=10%", "DDL_SPARSE_WARM_UP=-1", "DDL_SPARSE_FROM=x"})
    EXPECT_THROW(parse_env({entry}), UsageError) << entry;
}

TEST(Env, WhereNarrowingBeginsMayDependOnTheNumberOfRanks) {
  EXPECT_EQ(parse_env({}).wire_type_from, BytesByRanks{64 << 10});
  EXPECT_EQ(parse_env({"DDL_WIRE_TYPE_FROM=1m"}).wire_type_from, BytesByRanks{1 << 20});
  const BytesByRanks from = parse_env({"DDL_WIRE_TYPE_FROM=4:never,1k,16:1m"}).wire_type_from;
  EXPECT_EQ(from.of(8), 1024u);
  EXPECT_EQ(from.of(4), BytesByRanks::kNever);
  EXPECT_EQ(from.of(16), Bytes{1} << 20);
}

TEST(Env, AGarbageValueNamesTheVariableAndTheAllowedOnes) {
  try {
    parse_env({"DDL_ENABLE=maybe"});
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("DDL_ENABLE=maybe"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("0|1"), std::string::npos);
  }
}

TEST(Env, SizesThatCannotWorkAreRefused) {
  for (const char* entry : {"DDL_VERBOSE=9", "DDL_PORT=65536", "DDL_STAGING_BYTES=1", "DDL_STAGING_BYTES=2g",
                            "DDL_SEGMENT_BYTES=1", "DDL_SEGMENT_BYTES=100m", "DDL_SEGMENT_BYTES=4g"})
    EXPECT_THROW(parse_env({entry}), UsageError) << entry;
  EXPECT_EQ(parse_env({"DDL_SEGMENT_BYTES=0", "DDL_STAGING_BYTES=1g"}).staging_bytes, Bytes{1} << 30);
}

TEST(Env, RailsMayBeWrittenWithBlanks) {
  EXPECT_EQ(wanted_rails(parse_env({"DDL_RAILS=r0, r1,,"})), (std::vector<std::string>{"r0", "r1"}));
  EXPECT_TRUE(wanted_rails(parse_env({"DDL_RAILS="})).empty());
}

TEST(Env, AnUnknownNameWarnsWithTheNearest) {
  Env env = parse_env({"DDL_STAGGING_BYTES=1m", "PATH=/bin"});
  ASSERT_EQ(env.warnings.size(), 1u);
  EXPECT_NE(env.warnings[0].find("DDL_STAGING_BYTES"), std::string::npos);
}

TEST(Env, TheDocumentationPageIsTheTable) {
  std::ifstream file(DDL_SOURCE_DIR "/docs/environment.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), env_markdown()) << "regenerate it: ddlrun --help-env=markdown > docs/environment.md";
}

}  // namespace ddl
