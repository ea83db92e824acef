#include "core/session/handshake.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <thread>

#include "tests/support/exchange_board.hpp"

namespace ddl {
namespace {

using test::BoardExchange;
using test::ExchangeBoard;

enum class Fault {
  none,
  no_engine,          // the rank is in the job without us
  no_endpoint,        // describing itself throws
  cannot,             // its endpoint info says so
  hears_no_endpoint,  // the first round fails on it alone
  reach,              // a neighbour's memory cannot be attached
  cannot_read,        // a neighbour's memory can be attached, but not its buffers read
  slow_lines,         // no fault: its processor's
  loses_a_rail,       // a rail leads nowhere: the job goes on over the other
  loses_all,
  connect,
  goes_before_round_2,
  goes_before_round_3,
};

constexpr std::array kFaults = {Fault::none,
                                Fault::no_engine,
                                Fault::no_endpoint,
                                Fault::cannot,
                                Fault::hears_no_endpoint,
                                Fault::reach,
                                Fault::cannot_read,
                                Fault::slow_lines,
                                Fault::loses_a_rail,
                                Fault::loses_all,
                                Fault::connect,
                                Fault::goes_before_round_2,
                                Fault::goes_before_round_3};

bool is_survived(Fault fault) {
  return fault == Fault::none || fault == Fault::cannot_read || fault == Fault::slow_lines ||
         fault == Fault::loses_a_rail;
}
// All but who is to blame only learn that it is gone: nobody can agree on who says it.
bool breaks_the_exchange(Fault fault) {
  return fault == Fault::goes_before_round_2 || fault == Fault::goes_before_round_3;
}

// A rank of a job whose ranks take turns on two hosts with two rails each.
class TakingPart : private JoinSteps {
 public:
  TakingPart(ExchangeBoard& board, Rank rank, Fault fault)
      : fault_(fault), rank_(rank), exchange_(board, rank), handshake_(exchange_, *this) {
    if (fault == Fault::hears_no_endpoint) exchange_.misses(1);
    if (fault == Fault::goes_before_round_2) exchange_.goes_before(2);
    if (fault == Fault::goes_before_round_3) exchange_.goes_before(3);
    if (fault == Fault::no_engine) {
      board.is_absent(rank);
      return;
    }
    try {
      handshake_.start();
      takes_part_ = true;
    } catch (const Error&) {
      board.is_absent(rank);
    }
  }

  Rank rank() const { return rank_; }
  bool takes_part() const { return takes_part_; }
  bool step() { return !takes_part_ || handshake_.step(); }
  void finish() {
    if (takes_part_) handshake_.finish();
  }
  const Conclusion& conclusion() const { return handshake_.conclusion(); }
  const JobMap& job_map() const { return handshake_.job_map(); }
  bool has_said_lost_rails() const { return has_said_lost_rails_; }

 private:
  EndpointInfo describe() override {
    if (fault_ == Fault::no_endpoint) throw Error("no endpoint");
    EndpointInfo endpoint;
    endpoint.host = rank_ % 2 ? "odd" : "even";
    const std::string number = rank_ % 2 ? "1" : "2";
    endpoint.wire = "tcp";
    endpoint.rails = {{"r0", "10.0.0.0/24", {}, "10.0.0." + number, 1},
                      {"r1", "10.0.1.0/24", {}, "10.0.1." + number, 1}};
    if (fault_ == Fault::cannot) endpoint.trouble = "cannot";
    return endpoint;
  }
  Reach reach(const JobMap& job_map, const std::vector<EndpointInfo>& endpoints) override {
    EXPECT_EQ(endpoints.size(), static_cast<std::size_t>(exchange_.size()));
    if (fault_ == Fault::reach) throw Error("cannot attach");
    Reach reach{std::vector<std::string>(job_map.rails.size()), fault_ != Fault::cannot_read,
                fault_ == Fault::slow_lines};
    for (std::size_t rail = 0; rail < job_map.rails.size(); ++rail)
      if (fault_ == Fault::loses_all || (fault_ == Fault::loses_a_rail && rail == 1))
        reach.rail_trouble[rail] = "rail " + job_map.rails[rail] + " is lost";
    return reach;
  }
  void connect(const JobMap&, const std::vector<EndpointInfo>&) override {
    if (fault_ == Fault::connect) throw Error("cannot connect");
  }
  void rails_lost(const std::string&, const std::string&) override { has_said_lost_rails_ = true; }

  const Fault fault_;
  const Rank rank_;
  BoardExchange exchange_;
  Handshake handshake_;
  bool takes_part_ = false, has_said_lost_rails_ = false;
};

using HandshakeMembers = std::vector<std::unique_ptr<TakingPart>>;

HandshakeMembers members_of(ExchangeBoard& board, const std::vector<Fault>& faults) {
  HandshakeMembers members;
  for (std::size_t rank = 0; rank < faults.size(); ++rank)
    members.push_back(std::make_unique<TakingPart>(board, static_cast<Rank>(rank), faults[rank]));
  return members;
}

std::vector<Fault> only_on(Rank size, Rank rank, Fault fault) {
  std::vector<Fault> faults(static_cast<std::size_t>(size), Fault::none);
  faults[static_cast<std::size_t>(rank)] = fault;
  return faults;
}

std::string name_of(Fault fault, Rank rank, Rank size) {
  return fmt::format("fault {} on rank {} of {}", static_cast<int>(fault), rank, size);
}

// In any order. False: somebody waits for ever.
bool step_all(HandshakeMembers& members, unsigned seed) {
  std::mt19937 random(seed);
  for (int turn = 0; turn < 100; ++turn) {
    std::shuffle(members.begin(), members.end(), random);
    bool are_over = true;
    for (auto& member : members) are_over &= member->step();
    if (are_over) return true;
  }
  return false;
}

void expect_alike(const HandshakeMembers& members, Fault fault) {
  int said = 0;
  std::set<std::string> reasons;
  for (const auto& member : members) {
    if (!member->takes_part()) {
      said += member->rank() == 0;  // what loads the engine there, see Conclusion
      continue;
    }
    EXPECT_EQ(member->conclusion().joined, is_survived(fault));
    EXPECT_EQ(member->conclusion().reason.empty(), is_survived(fault));
    EXPECT_EQ(member->job_map().trouble, member->conclusion().reason);
    reasons.insert(member->conclusion().reason);
    said += member->conclusion().says;
  }
  if (breaks_the_exchange(fault)) return;
  EXPECT_EQ(said, is_survived(fault) ? 0 : 1);
  EXPECT_EQ(reasons.size(), 1u);
}

// Hosts of one rank each have no need of rails between them in a job of one.
bool makes_sense(Fault fault, Rank size) {
  if (size > 1) return true;
  return fault == Fault::none || fault == Fault::cannot || fault == Fault::reach || fault == Fault::connect ||
         fault == Fault::hears_no_endpoint;
}

}  // namespace

TEST(Handshake, AFaultInAnyStepOnAnyRankIsConcludedAlikeAndSaidOnce) {
  for (Rank size : {1, 2, 3, 4, 7})
    for (Fault fault : kFaults)
      for (Rank rank = 0; rank < size; ++rank) {
        if (!makes_sense(fault, size)) continue;
        SCOPED_TRACE(name_of(fault, rank, size));
        ExchangeBoard board(size);
        HandshakeMembers members = members_of(board, only_on(size, rank, fault));
        ASSERT_TRUE(step_all(members, static_cast<unsigned>(rank)));
        expect_alike(members, fault);
      }
}

TEST(Handshake, RanksThatAreThreadsConcludeAlike) {
  constexpr Rank kSize = 4;
  for (Fault fault : kFaults) {
    SCOPED_TRACE(name_of(fault, 2, kSize));
    ExchangeBoard board(kSize);
    HandshakeMembers members = members_of(board, only_on(kSize, 2, fault));
    std::vector<std::thread> threads;
    for (auto& member : members) threads.emplace_back([&] { member->finish(); });
    for (std::thread& thread : threads) thread.join();
    expect_alike(members, fault);
  }
}

TEST(Handshake, OfManyRanksInTroubleTheFirstSaysItsReason) {
  using enum Fault;
  for (Fault fault : {cannot, hears_no_endpoint, reach, loses_all, connect}) {
    ExchangeBoard board(5);
    HandshakeMembers members = members_of(board, {none, fault, none, fault, fault});
    ASSERT_TRUE(step_all(members, 1));
    expect_alike(members, fault);
  }
  ExchangeBoard board(4);
  HandshakeMembers members = members_of(board, {none, none, connect, connect});
  std::vector<TakingPart*> by_rank;
  for (auto& member : members) by_rank.push_back(member.get());
  ASSERT_TRUE(step_all(members, 1));
  for (TakingPart* member : by_rank) {
    EXPECT_EQ(member->conclusion().reason, "cannot connect");
    EXPECT_EQ(member->conclusion().of_rank, 2);
    EXPECT_EQ(member->conclusion().says, member == by_rank[2]);
  }
}

TEST(Handshake, DifferentTroubleOnTwoRanksIsOneReason) {
  using enum Fault;
  for (Fault one : {cannot, hears_no_endpoint, reach, connect})
    for (Fault other : {reach, loses_a_rail, loses_all, connect}) {
      SCOPED_TRACE(fmt::format("{} and {}", static_cast<int>(one), static_cast<int>(other)));
      ExchangeBoard board(4);
      HandshakeMembers members = members_of(board, {none, one, none, other});
      ASSERT_TRUE(step_all(members, 2));
      expect_alike(members, one);
    }
}

TEST(Handshake, ARailThatOneRankCannotUseNobodyUses) {
  ExchangeBoard board(6);
  HandshakeMembers members = members_of(
      board, {Fault::none, Fault::loses_a_rail, Fault::loses_a_rail, Fault::none, Fault::none, Fault::none});
  ASSERT_TRUE(step_all(members, 3));
  int said = 0;
  for (const auto& member : members) {
    EXPECT_TRUE(member->conclusion().joined);
    EXPECT_EQ(member->job_map().rails, std::vector<std::string>{"10.0.0.0/24"});
    said += member->has_said_lost_rails();
  }
  EXPECT_EQ(said, 1);
}

TEST(Handshake, BuffersAreReadWhereTheyAreOnlyIfAllRanksCan) {
  for (Fault fault : {Fault::none, Fault::cannot_read, Fault::slow_lines}) {
    ExchangeBoard board(3);
    HandshakeMembers members = members_of(board, only_on(3, 1, fault));
    ASSERT_TRUE(step_all(members, 3));
    for (const auto& member : members) {
      EXPECT_EQ(member->job_map().single_copy, fault != Fault::cannot_read);
      EXPECT_EQ(member->job_map().slow_lines, fault == Fault::slow_lines);
    }
  }
}

TEST(Handshake, ALongReasonIsCutForTheOthers) {
  struct Wordy : JoinSteps {
    EndpointInfo describe() override { return {}; }
    Reach reach(const JobMap&, const std::vector<EndpointInfo>&) override {
      throw Error(std::string(2000, 'x'));
    }
    void connect(const JobMap&, const std::vector<EndpointInfo>&) override {}
    void rails_lost(const std::string&, const std::string&) override {}
  } steps;
  struct Plain : Wordy {
    Reach reach(const JobMap&, const std::vector<EndpointInfo>&) override { return {}; }
  } plain;
  ExchangeBoard board(2);
  BoardExchange first(board, 0), second(board, 1);
  Handshake wordy(first, steps), other(second, plain);
  wordy.start();
  other.start();
  for (int turn = 0; turn < 10; ++turn) {
    wordy.step();
    other.step();
  }
  EXPECT_EQ(wordy.conclusion().reason.size(), 2000u);
  EXPECT_EQ(other.conclusion().reason, std::string(511, 'x'));
}

}  // namespace ddl
