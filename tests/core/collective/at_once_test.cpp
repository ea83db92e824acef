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

}  // namespace ddl
