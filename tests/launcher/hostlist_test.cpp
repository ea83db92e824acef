#include "launcher/hostlist.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"

namespace ddl {

TEST(HostList, SlotsAreOptional) {
  EXPECT_EQ(parse_host_list("h1:2,h2,h3:4"), (HostList{{"h1", 2}, {"h2", 0}, {"h3", 4}}));
}

TEST(HostList, AHostNamedTwiceHasTwoSlots) { EXPECT_EQ(parse_host_list("h1,h1"), (HostList{{"h1", 2}})); }

TEST(HostList, CommasTooManyAreNoHosts) {
  for (const char* text : {"h1:2,h2,", ",h1:2,h2", "h1:2,,h2"})
    EXPECT_EQ(parse_host_list(text), (HostList{{"h1", 2}, {"h2", 0}})) << text;
}

TEST(HostList, MalformedListsAreRefused) {
  for (const char* text : {"", ",", "h1:x", "h1::2", "h1:", "h1:0", "h1:-1", "h 1", "h1:2:3", "-h"})
    EXPECT_THROW(parse_host_list(text), UsageError) << text;
}

TEST(HostList, TheMessageNamesTheListAndTheFault) {
  try {
    parse_host_list("h1:x");
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("'h1:x'"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("slots for h1"), std::string::npos);
  }
}

TEST(HostFile, CommentsAndBlankLinesAreSkipped) {
  EXPECT_EQ(parse_host_file("# all\nh1 slots=2 max_slots=4\n\nh2   # one\nh3 slots = 3\n", "F"),
            (HostList{{"h1", 2}, {"h2", 0}, {"h3", 3}}));
}

TEST(HostFile, AFaultIsNamedWithItsLine) {
  try {
    parse_host_file("h1\nh2 slots=x\n", "F");
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("line 2 of the hostfile F"), std::string::npos);
  }
  EXPECT_THROW(parse_host_file("# nothing\n", "F"), UsageError);
  EXPECT_THROW(parse_host_file("h1 slotz=2\n", "F"), UsageError);
  EXPECT_THROW(parse_host_file("h1 slots=2\r\n", "F"), UsageError) << "mpirun ends with an internal error";
}

TEST(SlotFile, EveryLineIsASlot) {
  EXPECT_EQ(parse_slot_file("h1\nh1\nh2\nh1\n", "F"), (HostList{{"h1", 3}, {"h2", 1}}));
}

TEST(SlurmNodes, BracketsAreExpandedAndWidthsKept) {
  EXPECT_EQ(expand_slurm_nodes("n[001-003,7],gpu1"), (Strings{"n001", "n002", "n003", "n7", "gpu1"}));
  EXPECT_EQ(expand_slurm_nodes("r[1-2]n[08-10]x"),
            (Strings{"r1n08x", "r1n09x", "r1n10x", "r2n08x", "r2n09x", "r2n10x"}));
  for (const char* text : {"n[1-", "n[3-1]", "n[a-b]", "", "a,,b", "n]1["})
    EXPECT_THROW(expand_slurm_nodes(text), UsageError) << text;
  EXPECT_EQ(expand_slurm_nodes("h[18446744073709551615]"), Strings{"h18446744073709551615"});
  EXPECT_THROW(expand_slurm_nodes("h[0-9999][0-9999]"), UsageError) << "one range after the other is short";
}

TEST(SlurmTasks, RepetitionsAreExpanded) {
  EXPECT_EQ(expand_slurm_tasks("2(x3),1"), (std::vector<std::uint64_t>{2, 2, 2, 1}));
  EXPECT_EQ(expand_slurm_tasks("4"), (std::vector<std::uint64_t>{4}));
  EXPECT_THROW(expand_slurm_tasks("2(x"), UsageError);
}

TEST(HostList, ItsTextReadsBack) {
  HostList hosts = {{"h1", 2}, {"h2", 0}};
  EXPECT_EQ(parse_host_list(host_list_text(hosts)), hosts);
}

}  // namespace ddl
