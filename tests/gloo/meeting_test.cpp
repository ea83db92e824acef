#include "interpose/gloo/meeting.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace ddl::gloo {
namespace {

// What all ranks hold after gloo's all-reduce of what they bring.
void reduce_all(std::vector<Meeting>& ranks) {
  std::vector<std::byte> all(ranks[0].bytes().size());
  for (Meeting& rank : ranks) Meeting::reduce(all.data(), all.data(), rank.bytes().data(), all.size());
  for (Meeting& rank : ranks) std::copy(all.begin(), all.end(), rank.bytes().begin());
}

std::vector<Meeting> meeting_of(const std::vector<bool>& votes) {
  std::vector<Meeting> ranks;
  std::array<std::byte, Meeting::kIdBytes> id{};
  id.fill(std::byte{0x5a});
  for (std::size_t r = 0; r < votes.size(); ++r) {
    ranks.emplace_back(static_cast<Rank>(r), static_cast<Rank>(votes.size()));
    ranks[r].start(votes[r], r == 0 ? std::span<const std::byte>(id) : std::span<const std::byte>());
  }
  return ranks;
}

TEST(GlooMeeting, AllHearWhoCannotAndWhereRank0Is) {
  for (Rank who : {-1, 0, 2, 4}) {
    std::vector<bool> votes(5, true);
    if (who >= 0) votes[static_cast<std::size_t>(who)] = false;
    if (who == 2) votes[4] = false;  // the lowest counts
    std::vector<Meeting> ranks = meeting_of(votes);
    reduce_all(ranks);
    for (const Meeting& rank : ranks) {
      EXPECT_EQ(rank.who_says_no(), who);
      EXPECT_EQ(rank.who_is_strange(), -1);
      for (std::byte byte : rank.id()) EXPECT_EQ(byte, std::byte{0x5a});
    }
  }
}

TEST(GlooMeeting, AllHearWhatEachHasMadeByGloo) {
  std::vector<Meeting> ranks = meeting_of({true, true, true});
  for (std::size_t r = 0; r < 3; ++r) ranks[r].start(r != 2, {}, {r + 1, 0, 7 * r});
  reduce_all(ranks);
  for (const Meeting& rank : ranks) {
    EXPECT_EQ(rank.who_says_no(), 2);
    EXPECT_EQ(rank.who_is_strange(), -1);
    const std::vector<EarlyCalls::List> early = rank.early();
    for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(early[r], (EarlyCalls::List{r + 1, 0, 7 * r}));
  }
}

TEST(GlooMeeting, WhoSaysSomethingElseIsOfAnotherVersion) {
  for (std::byte strange : {std::byte{0}, std::byte{0x40}, std::byte{0xff}}) {
    std::vector<Meeting> ranks = meeting_of({true, true, true});
    ranks[1].bytes()[Meeting::kIdBytes + 1] = strange;
    reduce_all(ranks);
    for (const Meeting& rank : ranks) EXPECT_EQ(rank.who_is_strange(), 1);
  }
}

}  // namespace
}  // namespace ddl::gloo
