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

}  // namespace ddl
