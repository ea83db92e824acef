#include "core/net/unanswered.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

// A listening socket, a daemon's connection to 10.77.0.1 on which was sent again six times, another's, and
// one without a way to 10.77.0.5, which was probed seven times.
const std::string kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000009     0        0 11 1 0\n"
    "   1: 02004D0A:A3F2 01004D0A:8B1C 01 00000084:00000000 01:00000311 00000006     0        0 22 2 0\n"
    "   2: 02004D0A:A3F4 03004D0A:8B1C 01 00000000:00000000 02:00000311 00000000     0        0 33 2 0\n"
    "   3: 02004D0A:A3F6 05004D0A:8B1C 01 000003B4:00000000 04:0000006E 00000000     0        7 44 2 0\n";

using Addresses = std::vector<std::string>;

}  // namespace

TEST(Unanswered, NamesTheFarEndThatDoesNotAnswer) {
  EXPECT_EQ(unanswered_in(kTable, {11, 22, 33}, 5), Addresses{"10.77.0.1"});
  EXPECT_EQ(unanswered_in(kTable, {11, 22, 33}, 7), Addresses{});
}

TEST(Unanswered, KnowsAnInterfaceThatIsDown) {
  EXPECT_EQ(unanswered_in(kTable, {33, 44}, 5), Addresses{"10.77.0.5"});
  EXPECT_EQ(unanswered_in(kTable, {33, 44}, 8), Addresses{});
}

TEST(Unanswered, LooksAtNoOtherProcesssSockets) {
  EXPECT_EQ(unanswered_in(kTable, {33}, 5), Addresses{});
  EXPECT_EQ(unanswered_in(kTable, {11}, 5), Addresses{});  // it listens
  EXPECT_EQ(unanswered_in(kTable, {}, 5), Addresses{});
}

TEST(Unanswered, BearsWhatIsNoTable) {
  EXPECT_EQ(unanswered_in("", {22}, 0), Addresses{});
  EXPECT_EQ(unanswered_in("1: x y z\n\n   : : : 01 : : FF 0 0 22\n", {22}, 300), Addresses{});
  EXPECT_EQ(unanswered_connections_of(-1), Addresses{});
}

}  // namespace ddl
