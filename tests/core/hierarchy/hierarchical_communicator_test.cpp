#include "core/hierarchy/hierarchical_communicator.hpp"

#include "tests/core/hierarchy/job.hpp"

namespace ddl::test {
namespace {

using enum HierarchyRoute;

constexpr std::size_t kCounts[] = {8, 64, 97, 1000, 1003};

}  // namespace

TEST(HierarchicalCommunicator, EveryRankGetsTheSumOfAllRanks) {
  for (const std::vector<Rank>& extents : std::vector<std::vector<Rank>>{{2, 2}, {2, 3}, {4, 2}, {2, 3, 2}}) {
    HierarchyJob job(extents);
    job.run({nccl}, [&](HierarchyJob::Member& here) {
      ASSERT_TRUE(here.hierarchy);
      for (std::size_t count : kCounts) {
        std::vector<Value> in = input_of(here.rank, count), out(count);
        EXPECT_EQ(here.sum(in, out), nccl);
        EXPECT_EQ(out, sum_of(job.ranks(), count));
        EXPECT_EQ(in, input_of(here.rank, count));
        here.sum(in, in);
        EXPECT_EQ(in, out) << "in place";
      }
    });
    EXPECT_EQ(tally.parts, 0);
  }
}

TEST(HierarchicalCommunicator, TheLastDimensionMayGoOverRails) {
  for (const std::vector<Rank>& extents : std::vector<std::vector<Rank>>{{2, 2}, {3, 2}, {1, 3}}) {
    HierarchyJob job(extents);
    job.run({rails}, [&](HierarchyJob::Member& here) {
      ASSERT_TRUE(here.hierarchy);
      for (std::size_t count : kCounts) {
        std::vector<Value> in = input_of(here.rank, count), out(count);
        EXPECT_EQ(here.sum(in, out), rails);
        EXPECT_EQ(out, sum_of(job.ranks(), count));
      }
    });
    EXPECT_GT(tally.on_rails, 0);
    EXPECT_EQ(tally.rails, 0) << "all closed";
  }
}

TEST(HierarchicalCommunicator, RailsThatAreLetGoAreTakenNoMore) {
  HierarchyJob job({2, 2});
  job.run({rails}, [&](HierarchyJob::Member& here) {
    std::vector<Value> in = input_of(here.rank, 100), out(100);
    here.hierarchy->let_rails_go();
    EXPECT_EQ(here.sum(in, out), whole);
    EXPECT_EQ(out, sum_of(job.ranks(), 100));
    EXPECT_EQ(here.hierarchy->state(), 0);
  });
  EXPECT_EQ(tally.on_rails, 0);
}

TEST(HierarchicalCommunicator, TheTroubleOfAPartIsItsOwn) {
  HierarchyJob job({2, 2});
  job.run({nccl}, [](HierarchyJob::Member& here) {
    EXPECT_EQ(here.hierarchy->state(), 0);
    library::of(here.hierarchy->parts()[1]).error = kSystemError;
    EXPECT_EQ(here.hierarchy->state(), kSystemError);
  });
}

TEST(HierarchicalCommunicator, NoCallIsMadeOnceItsPartsAreReleased) {
  HierarchyJob job({2, 2});
  job.run({nccl}, [](HierarchyJob::Member& here) {
    std::vector<Value> in(64), out(64);
    PlannedCall how =
        here.hierarchy->choose({in.data(), out.data(), in.size(), sizeof(Value), kValueType, 0, nullptr});
    for (void* part : here.hierarchy->release()) library_double().destroy(part);
    EXPECT_EQ(enqueue(library_double(), {&how, 1}), kInvalidUsage);
    EXPECT_EQ(here.hierarchy->state(), kInvalidUsage);
  });
  EXPECT_EQ(tally.calls, 0);
}

TEST(HierarchicalCommunicator, ARefusalOfTheDriversIsSaidAndStays) {
  HierarchyJob job({2, 1});
  HierarchyShape shape{{{2, 0, 0}, {2, 0, 0}}, kSmallCut, {nccl}};
  HierarchicalCommunicator here(library_double(), immediate_driver(), nullptr, nullptr, shape);
  here.make_streams();
  std::vector<Value> buffer(64);
  PlannedCall how =
      here.choose({buffer.data(), buffer.data(), buffer.size(), sizeof(Value), kValueType, 0, nullptr});
  next_record_result = cuda::kInvalidHandle;
  EXPECT_EQ(enqueue(library_double(), {&how, 1}), kCudaError);
  EXPECT_EQ(tally.complaints, 1);
  EXPECT_EQ(enqueue(library_double(), {&how, 1}), kCudaError);
  EXPECT_EQ(tally.complaints, 1) << "said once";
  EXPECT_EQ(here.state(), kCudaError);
}

// Under sanitizers the steps of a route take longer than any delay that a test can wait for.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kTimesMeanSomething = false;
#else
constexpr bool kTimesMeanSomething = true;
#endif

// What the whole takes is made longer than the other route takes where many tests share few processors.
TEST(HierarchicalCommunicator, TheFasterRouteIsFoundOnTheProgramsOwnCalls) {
  HierarchyJob job({2, 2});
  auto slow = [](HierarchyJob::Member& here) { here.whole.delay_ms = 150; };
  job.run({whole, nccl}, slow, [&](HierarchyJob::Member& here) {
    std::vector<Value> in = input_of(here.rank, 64), out(64);
    std::vector<HierarchyRoute> taken;
    for (int call = 0; call < 60; ++call) {
      taken.push_back(here.sum(in, out));
      EXPECT_EQ(out, sum_of(job.ranks(), 64));
    }
    EXPECT_EQ(taken.front(), whole);
    if (kTimesMeanSomething) {
      EXPECT_EQ(taken.back(), nccl);
    }
  });
  EXPECT_EQ(tally.meetings, 4 * 12) << "before each trial of either route";
}

}  // namespace ddl::test
