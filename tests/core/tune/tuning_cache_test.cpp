#include "core/tune/tuning_cache.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

TuningEntry entry_of(Bytes size_class) {
  TuningEntry one;
  one.grid = "2 local x 4 hosts";
  one.size_class = size_class;
  one.choice.algorithm = {Algorithm::funnel, Algorithm::doubling};
  one.choice.share = {2, 1};
  one.choice.segment = 4096;
  one.rail_rates = {2e8, 1e8};
  one.microseconds = 12.5;
  return one;
}

}  // namespace

TEST(TuningCache, WhatOneJobWroteTheNextOneFinds) {
  TuningCache first("machine");
  first.learn(entry_of(4096));
  TuningEntry original = entry_of(64);
  original.original = true;
  first.learn(original);
  TuningCache second("machine");
  EXPECT_EQ(second.read(first.write("")), "");
  EXPECT_FALSE(second.has_news());
  auto found = second.find("2 local x 4 hosts", 4096);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->choice.algorithm, entry_of(4096).choice.algorithm);
  EXPECT_EQ(found->choice.share, entry_of(4096).choice.share);
  EXPECT_EQ(found->choice.segment, 4096u);
  EXPECT_TRUE(second.find("2 local x 4 hosts", 64)->original);
  EXPECT_EQ(second.rail_rates("2 local x 4 hosts"), (std::vector<double>{2e8, 1e8}));
  EXPECT_FALSE(second.find("2 local x 4 hosts", 128));
  EXPECT_FALSE(second.find("another grid", 4096));
}

TEST(TuningCache, RailsAreAsFastAsWasLearnedLastWhateverTheKind) {
  TuningCache first("machine"), second("machine");
  for (const auto& [kind, rate] : {std::pair{", broadcast", 1e8}, {"", 2e8}, {", reduce", 3e8}}) {
    TuningEntry entry = entry_of(64);
    entry.grid += kind;
    entry.rail_rates = {rate, rate};
    first.learn(entry);
  }
  TuningEntry other = entry_of(64);
  other.grid += "2";
  first.learn(other);
  ASSERT_EQ(second.read(first.write("")), "");
  EXPECT_EQ(second.rail_rates("2 local x 4 hosts"), (std::vector<double>{3e8, 3e8}));
}

TEST(TuningCache, WhatWasLearnedSinceIsForTheNextJob) {
  TuningCache first("machine"), second("machine");
  first.learn(entry_of(64));
  EXPECT_FALSE(first.find("2 local x 4 hosts", 64)) << "other communicators of this job may know otherwise";
  EXPECT_TRUE(first.rail_rates("2 local x 4 hosts").empty());
  ASSERT_EQ(second.read(first.write("")), "");
  TuningEntry better = entry_of(64);
  better.microseconds = 3;
  second.learn(better);
  EXPECT_EQ(second.find("2 local x 4 hosts", 64)->microseconds, 12.5);
  TuningCache third("machine");
  ASSERT_EQ(third.read(second.write("")), "");
  EXPECT_EQ(third.find("2 local x 4 hosts", 64)->microseconds, 3);
}

TEST(TuningCache, OtherCollectivesAreRememberedAsTheyWere) {
  TuningCache first("machine"), second("machine");
  TuningEntry entry = entry_of(4096);
  entry.choice = {};
  entry.grid += ", broadcast";
  entry.task =
      TaskChoice{{Kind::broadcast, 0}, Crossing::directly, Division::chain, 3, {2, 1}, {1, 0}, 8192, 2};
  first.learn(entry);
  first.learn(entry_of(4096));
  const std::string text = first.write("");
  ASSERT_EQ(second.read(text), "");
  EXPECT_EQ(second.find(entry.grid, 4096)->task, entry.task);
  EXPECT_FALSE(second.find("2 local x 4 hosts", 4096)->task);
  std::string strange = text;
  strange.replace(strange.find("\"chain\""), 7, "\"knot\"");
  EXPECT_NE(second.read(strange), "");
}

TEST(TuningCache, HowManyCopiesAreMadeIsRemembered) {
  TuningCache first("machine"), second("machine");
  TuningEntry entry = entry_of(1 << 20);
  entry.choice = {};
  for (Handover handover : {Handover::staged, Handover::single_copy}) {
    entry.task.emplace().task = {Kind::all_to_all, 0};
    entry.task->handover = handover;
    first.learn(entry);
    ASSERT_EQ(second.read(first.write("")), "");
    EXPECT_EQ(second.find(entry.grid, 1 << 20)->task, entry.task);
  }
}

TEST(TuningCache, UpToWhatLengthBlocksArePaddedOrStagedIsRemembered) {
  TuningCache first("machine"), second("machine");
  TuningEntry entry = entry_of(1 << 20);
  entry.choice = {};
  for (Rooted rooted : {Rooted::no, Rooted::gather, Rooted::scatter}) {
    entry.task.emplace().task = {Kind::all_to_all, 0, true, rooted};
    entry.task->padded = rooted == Rooted::no ? 256 : 0;
    entry.task->most_staged = rooted == Rooted::scatter ? 64 << 10 : kMostStaged;
    first.learn(entry);
    ASSERT_EQ(second.read(first.write("")), "");
    EXPECT_EQ(second.find(entry.grid, 1 << 20)->task, entry.task);
  }
}

TEST(TuningCache, OtherMachinesAreKeptAndNotUsed) {
  TuningCache first("one"), second("two"), third("one");
  first.learn(entry_of(64));
  std::string text = first.write("");
  EXPECT_EQ(second.read(text), "");
  EXPECT_FALSE(second.find("2 local x 4 hosts", 64));
  second.learn(entry_of(128));
  EXPECT_EQ(third.read(second.write(text)), "");
  EXPECT_TRUE(third.find("2 local x 4 hosts", 64));
}

// Both have read the file before either has written it.
TEST(TuningCache, WhatAnotherJobHasAddedMeanwhileIsKept) {
  TuningCache first("machine"), second("machine"), third("machine");
  first.learn(entry_of(64));
  second.learn(entry_of(128));
  ASSERT_EQ(third.read(second.write(first.write(""))), "");
  EXPECT_TRUE(third.find("2 local x 4 hosts", 64));
  EXPECT_TRUE(third.find("2 local x 4 hosts", 128));
}

TEST(TuningCache, WhatOneWireTaughtDoesNotServeTheOther) {
  std::vector<HostIndex> hosts = {0, 0, 1};
  std::vector<std::string> rails = {"10.0.0.0/24"};
  TuningCache tcp(machine_name({2, ""}, hosts, "tcp", rails)),
      ucx(machine_name({2, ""}, hosts, "ucx", rails));
  tcp.learn(entry_of(64));
  EXPECT_EQ(ucx.read(tcp.write("")), "");
  EXPECT_FALSE(ucx.find("2 local x 4 hosts", 64));
}

TEST(TuningCache, AMachineIsItsCoresRanksAndWhatJoinsThem) {
  std::vector<HostIndex> two = {0, 1, 1}, one = {0, 0, 0};
  std::vector<std::string> rails = {"10.0.0.0/24", "10.1.0.0/24"};
  EXPECT_EQ(machine_name({2, "X"}, two, "tcp", rails), "2 cores of X; 1 2; tcp; 10.0.0.0/24; 10.1.0.0/24");
  EXPECT_EQ(machine_name({2, ""}, one, "tcp", {}), machine_name({2, ""}, one, "ucx", {}))
      << "no wire is used";
}

TEST(TuningCache, ACorruptOrOldFileIsRefusedWhole) {
  TuningCache good("machine");
  good.learn(entry_of(64));
  good.learn(entry_of(128));
  std::string text = good.write("");
  std::string unknown = text, old = text;
  unknown.replace(unknown.rfind("doubling"), 8, "tripling");
  old.replace(old.find("\"ddl_tuning\": 1"), 15, "\"ddl_tuning\": 9");
  for (const std::string& bad :
       {std::string("{"), std::string("[]"), text.substr(0, text.size() / 2), unknown, old}) {
    TuningCache memory("machine");
    EXPECT_NE(memory.read(bad), "") << bad;
    EXPECT_FALSE(memory.find("2 local x 4 hosts", 64));
  }
}

TEST(TuningCache, OnlyWhatFitsTheProcessorsAndCanBeReadIsTold) {
  const Cpus two{2, "X"};
  TuningCache here("2 cores of X; 1 1; tcp"), elsewhere("4 cores of X; 1 1; tcp");
  here.learn(entry_of(64));
  elsewhere.learn(entry_of(128));
  const std::string text = elsewhere.write(here.write(""));
  TuningToTell tell = tuning_to_tell(text, two);
  EXPECT_EQ(tell.trouble, "");
  EXPECT_EQ(tell.text.find("4 cores"), std::string::npos);
  TuningCache reader("2 cores of X; 1 1; tcp");
  EXPECT_EQ(reader.read(tell.text), "");
  EXPECT_TRUE(reader.find("2 local x 4 hosts", 64));
  EXPECT_EQ(tuning_to_tell("", two).trouble, "");
  EXPECT_EQ(tuning_to_tell("notes", two).text, "");
  EXPECT_NE(tuning_to_tell("notes", two).trouble, "");
  std::string damaged = text;
  damaged.replace(damaged.find("funnel"), 6, "tunnel");
  EXPECT_EQ(tuning_to_tell(damaged, two).text, "");
  EXPECT_NE(tuning_to_tell(damaged, two).trouble.find("tunnel"), std::string::npos);
}

TEST(TuningCache, RatesThatNoNetworkHasAreRefused) {
  for (double rate : {0.0, -1.0, 1e300}) {
    TuningEntry wrong = entry_of(64);
    wrong.rail_rates = {rate, 1e8};
    TuningCache writer("machine"), reader("machine");
    writer.learn(wrong);
    EXPECT_NE(reader.read(writer.write("")).find("rate is out of range"), std::string::npos) << rate;
  }
}

TEST(TuningCache, WhatIsNestedDeeplyIsNeitherCopiedNorWritten) {
  const std::string text = "{\"ddl_tuning\": 1, \"machines\": {\"other\": " + std::string(400'000, '[') +
                           std::string(400'000, ']') + "}}";
  TuningCache cache("machine");
  EXPECT_EQ(cache.read(text), "");
  cache.learn(entry_of(64));
  EXPECT_LT(cache.write(text).size(), 2000u);
  tuning_to_tell(text, {2, "X"});
}

TEST(TuningCache, OtherMachinesGoWhereTheFileWouldBeTooLarge) {
  std::string text;
  for (const char* name : {"one", "two", "three"}) {
    TuningCache cache(name);
    cache.learn(entry_of(64));
    text = cache.write(text);
  }
  TuningCache last("last"), read("last");
  last.learn(entry_of(64));
  EXPECT_GT(last.write(text).size(), text.size());
  const std::string cut = last.write(text, text.size());
  EXPECT_LE(cut.size(), text.size());
  EXPECT_EQ(read.read(cut), "");
  EXPECT_TRUE(read.find("2 local x 4 hosts", 64));
  EXPECT_EQ(read.read(last.write(text, 0)), "");
  EXPECT_TRUE(read.find("2 local x 4 hosts", 64)) << "what was learned is written whatever it takes";
}

}  // namespace ddl
