// Up to what length a call within a host is made at once, without an operation.
#include <gtest/gtest.h>

#include <vector>

#include "core/collective/brief_call.hpp"
#include "core/collective/credit.hpp"
#include "core/collective/operation.hpp"
#include "tests/support/call_buffers.hpp"
#include "tests/support/sums.hpp"
#include "tests/support/virtual_job.hpp"

namespace ddl {

using test::CallBuffers;
using test::everybody;
using test::VirtualJob;
using test::Where;

TEST(AtOnce, CallsWithoutTokensMayBeLongerThanThoseWithThemButNotOfManyRanks) {
  struct Limit {
    Rank ranks;
    Kind kind;
    Elements most;
  };
  const Elements of_credit = Credit::kMostBytes / sizeof(int), of_work = Sender::kLongWork / sizeof(int);
  for (const Limit& limit : {Limit{2, Kind::all_gather, of_work},
                             {2, Kind::broadcast, of_credit},
                             {8, Kind::all_gather, of_work / 2},
                             {32, Kind::all_gather, of_work / 4},
                             {32, Kind::broadcast, of_work / 4}}) {
    VirtualJob job(std::vector<HostIndex>(static_cast<std::size_t>(limit.ranks), 0));
    auto world = job.create(1, everybody(limit.ranks));
    for (Elements more : {0, 1}) {
      CallBuffers one(limit.kind, 0, 0, limit.ranks, limit.most + more, Where::apart);
      PreparedPlan& plan = world[0]->plans().plan_for(one.call.task(), one.call.bytes());
      EXPECT_EQ(BriefCall::is_possible(one.call, plan, limit.ranks), more == 0)
          << name_of(limit.kind) << " of " << limit.ranks;
    }
  }
}

TEST(AtOnce, ACallThatIsRecountedIsAsOneThatIsMade) {
  auto expect_place = [](const BriefCall::Place& got, const BriefCall::Place& made) {
    EXPECT_EQ(got.source, made.source);
    EXPECT_EQ(got.offset, made.offset);
  };
  constexpr Rank kRanks = 3;
  VirtualJob job(std::vector<HostIndex>(kRanks, 0));
  auto world = job.create(1, everybody(kRanks));
  for (Kind kind : {Kind::all_reduce, Kind::broadcast, Kind::reduce, Kind::all_gather, Kind::reduce_scatter,
                    Kind::all_to_all, Kind::gather, Kind::scatter})
    for (Rank me = 0; me < kRanks; ++me) {
      Communicator& mine = *world[static_cast<std::size_t>(me)];
      CallBuffers few(kind, 1, me, kRanks, 20, Where::apart), more(kind, 1, me, kRanks, 31, Where::apart);
      PreparedPlan& plan = mine.plans().plan_for(few.call.task(), 128);
      BriefCall again, made;
      mine.make_brief(again, few.call, plan);
      mine.make_brief(made, more.call, plan);
      Call call = few.call;
      call.count = more.call.count;
      call.fingerprint = compute_fingerprint(call);
      ASSERT_TRUE(again.recount(call)) << name_of(kind);
      EXPECT_EQ(again.call().count, made.call().count);
      EXPECT_EQ(again.call().fingerprint, made.call().fingerprint);
      EXPECT_EQ(again.note().count, made.note().count);
      EXPECT_EQ(again.note().fingerprint, made.note().fingerprint);
      ASSERT_EQ(again.steps().size(), made.steps().size());
      for (std::size_t i = 0; i < made.steps().size(); ++i) {
        const BriefCall::BriefStep &got = again.steps()[i], &right = made.steps()[i];
        EXPECT_EQ(got.count, right.count) << name_of(kind);
        EXPECT_EQ(got.header.bytes, right.header.bytes);
        EXPECT_EQ(got.header.fingerprint, right.header.fingerprint);
        expect_place(got.own, right.own);
        expect_place(got.into, right.into);
      }
    }
}

// Of an all-to-all of which pairs of ranks alone know the lengths.
TEST(AtOnce, BlocksOfOtherLengthsAreARecountWhereTheSameOnesAreThere) {
  VirtualJob job({0, 0});
  auto world = job.create(1, everybody(2));
  struct Lists {
    std::vector<Elements> counts;
    std::vector<std::int64_t> offsets;
  };
  const Lists few{{4, 7}, {0, 4}}, more{{30, 2}, {5, 40}}, none{{4, 0}, {0, 4}};
  auto call_with = [](const Lists& in, const Lists& out) {
    Call call{nullptr, nullptr, 0, DType::uint8, Op::bor, "", 0, Kind::all_to_all};
    call.in_blocks = {in.counts.data(), in.offsets.data()};
    call.out_blocks = {out.counts.data(), out.offsets.data()};
    call.count = std::max(in.counts[0], std::max(in.counts[1], out.counts[1]));
    call.lengths = 1;
    call.pairwise = true;
    call.fingerprint = compute_fingerprint(call);
    return call;
  };
  PreparedPlan& plan = world[0]->plans().plan_for(call_with(few, few).task(), 64);
  BriefCall brief, made;
  world[0]->make_brief(brief, call_with(few, few), plan);
  EXPECT_FALSE(brief.recount(call_with(few, none)));
  EXPECT_FALSE(brief.recount(call_with(none, few)));
  ASSERT_TRUE(brief.recount(call_with(more, few)));
  world[0]->make_brief(made, call_with(more, few), plan);
  ASSERT_EQ(brief.steps().size(), made.steps().size());
  for (std::size_t i = 0; i < made.steps().size(); ++i) {
    EXPECT_EQ(brief.steps()[i].count, made.steps()[i].count);
    EXPECT_EQ(brief.steps()[i].own.offset, made.steps()[i].own.offset);
    EXPECT_EQ(brief.steps()[i].into.offset, made.steps()[i].into.offset);
    EXPECT_EQ(brief.steps()[i].header.bytes, made.steps()[i].header.bytes);
  }
}

}  // namespace ddl
