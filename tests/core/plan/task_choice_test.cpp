#include "core/plan/task_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.hpp"
#include "tests/core/plan/tasks.hpp"

namespace ddl {
namespace {

using test::each_task;
using test::hosts_of;
using test::kAll;
using test::kMachines;
using test::plans_of;

}  // namespace

TEST(TaskChoice, HostsThatCarryUnequallyMuchFormAChain) {
  const PlanLimits limits{1, Bytes{64} << 20, 0, {}};
  auto division = [&](const std::vector<Rank>& hosts, Task task, Bytes bytes) {
    return choose_task(HostMap(hosts_of(hosts)), task, bytes, limits).division;
  };
  for (Kind kind : {Kind::all_gather, Kind::reduce_scatter}) {
    EXPECT_EQ(division({2, 1, 3}, {kind, 0}, 4 << 20), Division::chain);
    EXPECT_NE(division({2, 1, 3}, {kind, 0}, 64), Division::chain);
    EXPECT_EQ(division({2, 2, 2}, {kind, 0}, 4 << 20), Division::whole);
    EXPECT_EQ(division({2, 2, 2}, {kind, 0, true}, 4 << 20), Division::chain);  // one may have all of it
    EXPECT_EQ(division({3, 1}, {kind, 0}, 4 << 20), Division::whole);           // two hosts are one link
  }
}

TEST(TaskChoice, ASmallBroadcastOverManyHostsIsNoFlatOne) {
  for (Kind kind : {Kind::broadcast, Kind::reduce})
    for (int hosts : {64, 4096}) {
      std::vector<HostIndex> machine(static_cast<std::size_t>(hosts));
      std::iota(machine.begin(), machine.end(), 0);
      HostMap map(machine);
      TaskChoice choice = choose_task(map, {kind, 0}, 64, {1, Bytes{1} << 20, 0, {}});
      Grid grid = Grid::from_hosts(machine);
      for (Rank rank : {0, 1, hosts / 2, hosts - 1})
        EXPECT_LE(make_plan(grid, map, rank, choice).peers.size(), 64u) << "messages and tokens";
    }
}

TEST(TaskChoice, ManyRanksPlanInLittleMemory) {
  std::vector<HostIndex> machine;
  for (int rank = 0; rank < 4 * 4096; ++rank) machine.push_back(rank / 4);
  HostMap map(machine);
  Grid grid = Grid::from_hosts(machine);
  for (Kind kind : {Kind::broadcast, Kind::reduce}) {
    TaskChoice choice = choose_task(map, {kind, 5}, 4096, {1, Bytes{1} << 20, 0, {}});
    for (Rank rank : {0, 1, 5, 7, 16'000}) EXPECT_LT(make_plan(grid, map, rank, choice).bytes(), 8u << 10);
  }
}

TEST(TaskChoice, CandidatesAreDistinctWaysThatFitTheStagingBestFirst) {
  HostMap map(hosts_of({2, 2, 2, 2}));
  for (Bytes bytes : {64, 4096, 1 << 20, 64 << 20})
    for (Kind kind : kAll) {
      PlanLimits limits{1, Bytes{1} << 20, 0, {}};
      std::vector<TaskCandidate> all = task_candidates(map, {kind, 1}, bytes, limits);
      EXPECT_EQ(all[0].choice, choose_task(map, {kind, 1}, bytes, limits));
      const bool is_small = bytes <= 4096;
      EXPECT_EQ(all.size() > 1, kind == Kind::broadcast || kind == Kind::reduce ||
                                    (is_small && kind != Kind::reduce_scatter));
      for (std::size_t i = 0; i < all.size(); ++i) {
        EXPECT_LE(staging_need(map, all[i].choice), limits.staging);
        for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(all[i].choice == all[j].choice);
      }
    }
  PlanLimits limits{1, Bytes{1} << 20, 0, {}};
  EXPECT_EQ(choose_task(map, {Kind::reduce, 0}, 64 << 20, limits).division, Division::chain);
  EXPECT_NE(choose_task(map, {Kind::broadcast, 0}, 64 << 20, limits).division, Division::whole);
}

TEST(TaskChoice, WhatGoesOneWayWithinAHostIsReadWhileTheRestIsWritten) {
  HostMap map(hosts_of({2}));
  const PlanLimits limits{1, Bytes{64} << 20, 0, {}};
  for (Kind kind : {Kind::broadcast, Kind::gather, Kind::scatter}) {
    EXPECT_EQ(choose_task(map, {kind, 0}, 16 << 10, limits).segment, Bytes{16} << 10);
    EXPECT_EQ(choose_task(map, {kind, 0}, 64 << 10, limits).segment, Bytes{16} << 10);
    EXPECT_EQ(choose_task(map, {kind, 0}, 1 << 20, limits).segment, Bytes{128} << 10);
  }
  EXPECT_EQ(choose_task(map, {Kind::all_gather, 0}, 256 << 10, limits).segment, Bytes{256} << 10);
}

TEST(TaskChoice, AReduceWithinAHostIsDoneByItsRootFirstAmongFewAndInPiecesFirstAmongMany) {
  const PlanLimits limits{1, Bytes{64} << 20, 0, {}};
  for (Rank ranks : {2, 3, 4, 8}) {
    const HostMap map(hosts_of({ranks}));
    for (Bytes bytes : {Bytes{64} << 10, Bytes{1} << 20, Bytes{64} << 20}) {
      const std::vector<TaskCandidate> all = task_candidates(map, {Kind::reduce, 1}, bytes, limits);
      ASSERT_EQ(all.size(), ranks == 2 ? 1u : 2u)
          << "of two the root alone has most to do, whatever it reduces";
      const TaskChoice& by_root = all[ranks <= 3 ? 0 : 1].choice;
      EXPECT_EQ(by_root.division, Division::whole);
      EXPECT_EQ(by_root.segment, bytes == Bytes{64} << 10 ? bytes : Bytes{128} << 10) << "in steps";
      if (ranks > 2) {
        EXPECT_EQ(all[ranks <= 3 ? 1 : 0].choice.division, Division::chain);
      }
    }
    EXPECT_EQ(task_candidates(map, {Kind::reduce, 1}, 4096, limits)[0].choice.division, Division::whole);
  }
}

TEST(TaskChoice, BlocksOfUnequalLengthArePaddedBetweenHostsWhereOthersArePacked) {
  PlanLimits limits{1, Bytes{64} << 20, 0, {}};
  limits.machine.shared_cores = 2;  // messages are dear
  auto first = [&](const std::vector<HostIndex>& machine, Task task, Bytes bytes) {
    return task_candidates(HostMap(machine), task, bytes, limits)[0].choice.padded;
  };
  const Task gather_v{Kind::all_to_all, 0, true, Rooted::gather}, all_to_all_v{Kind::all_to_all, 0, true},
      all_gather_v{Kind::all_gather, 0, true};
  const std::vector<HostIndex> several = hosts_of({4, 4, 4, 4});
  const Bytes most = first(several, all_to_all_v, 1 << 20);
  EXPECT_GE(most, kLeastPadded) << "of any length, which nobody knows";
  auto way_of = [&](Bytes length) {
    return task_candidates(HostMap(several), {Kind::all_to_all}, length + kPaddedHead, limits)[0]
        .choice.division;
  };
  EXPECT_EQ(way_of(most), Division::packed);
  EXPECT_NE(way_of(2 * most), Division::packed);
  EXPECT_EQ(first(several, all_gather_v, 64), 64u);
  EXPECT_EQ(first(several, all_gather_v, 1 << 20), 0u);
  EXPECT_EQ(first(several, gather_v, 1 << 20), 0u);
  EXPECT_EQ(first(several, {Kind::reduce_scatter, 0, true}, 64), 0u);
  EXPECT_EQ(first(several, {Kind::all_gather, 0}, 64), 0u) << "they are packed as they are";
  for (Task task : {all_to_all_v, all_gather_v}) EXPECT_EQ(first(hosts_of({4}), task, 64), 0u);
}

TEST(TaskChoice, ASingleCopyIsTriedForWhatMovesWithinAHostAndFirstWhereBothCopy) {
  PlanLimits limits{1, Bytes{64} << 20, 0, {}};
  auto copies = [&limits](const std::vector<HostIndex>& machine, Kind kind, Bytes bytes) {
    std::vector<Handover> found;
    for (const TaskCandidate& one : task_candidates(HostMap(machine), {kind, 0}, bytes, limits))
      found.push_back(one.choice.handover);
    return found;
  };
  const auto count = [](const std::vector<Handover>& all) {
    return std::count(all.begin(), all.end(), Handover::single_copy);
  };
  for (Kind kind : kAll) EXPECT_EQ(count(copies(hosts_of({2}), kind, 1 << 20)), 0) << "the kernel forbids it";
  limits.single_copy = true;
  for (Kind kind : kAll) {
    const bool only_moves = !computes(kind) && !is_between_two(kind);
    EXPECT_EQ(count(copies(hosts_of({2}), kind, 1 << 20)), only_moves || kind == Kind::reduce ? 1 : 0);
    EXPECT_EQ(count(copies(hosts_of({3}), kind, 1 << 20)), only_moves ? 1 : 0) << "a root hears from several";
    EXPECT_EQ(count(copies(hosts_of({2}), kind, kMostStaged)), 0);
    EXPECT_EQ(count(copies(hosts_of({2, 2}), kind, 1 << 20)), 0);
  }
  for (Kind kind : {Kind::all_gather, Kind::all_to_all})
    for (Bytes bytes : {256 << 10, 1 << 20, 8 << 20})
      EXPECT_EQ(copies(hosts_of({2}), kind, bytes)[0],
                bytes < (8 << 20) ? Handover::staged : Handover::single_copy);
  for (Kind kind : {Kind::broadcast, Kind::gather, Kind::scatter})
    EXPECT_EQ(copies(hosts_of({2}), kind, 1 << 20)[0], Handover::staged);
  EXPECT_EQ(count(copies(hosts_of({2}), Kind::reduce, 4 << 20)), 0) << "one stages while the other reduces";
  EXPECT_EQ(copies(hosts_of({2}), Kind::reduce, 64 << 10)[0], Handover::staged)
      << "also where lines come fast";
  auto of_pairs = [&limits](Rooted rooted = Rooted::no) {
    return task_candidates(HostMap(hosts_of({2})), {Kind::all_to_all, 0, true, rooted},
                           pairwise_bytes(rooted, false, 1), limits);
  };
  ASSERT_EQ(of_pairs().size(), 1u) << "nothing would be measured about the long ones";
  EXPECT_EQ(of_pairs()[0].choice.handover, Handover::staged);
  EXPECT_EQ(of_pairs(Rooted::gather)[0].choice.handover, Handover::staged);
  EXPECT_LT(of_pairs(Rooted::gather)[0].choice.segment, of_pairs()[0].choice.segment) << "who copies at once";
  ASSERT_EQ(of_pairs(Rooted::scatter).size(), 1u);
  EXPECT_EQ(of_pairs(Rooted::scatter)[0].choice.handover, Handover::single_copy);
  EXPECT_GT(of_pairs(Rooted::scatter)[0].choice.most_staged, kMostStaged) << "only long ones are read";
  limits.slow_lines = true;
  for (Rooted rooted : {Rooted::no, Rooted::gather, Rooted::scatter})
    EXPECT_EQ(of_pairs(rooted)[0].choice.most_staged, kMostStaged);
  ASSERT_EQ(of_pairs().size(), 1u);
  EXPECT_EQ(of_pairs()[0].choice.handover, Handover::single_copy);
  for (Kind kind : {Kind::broadcast, Kind::gather, Kind::scatter, Kind::all_gather, Kind::all_to_all})
    EXPECT_EQ(copies(hosts_of({2}), kind, 1 << 20)[0], Handover::single_copy);
  for (Kind kind : {Kind::broadcast, Kind::gather, Kind::scatter, Kind::all_gather, Kind::all_to_all})
    EXPECT_EQ(copies(hosts_of({2}), kind, 16 << 10), (std::vector{Handover::staged, Handover::single_copy}))
        << "which of them is faster the program's own calls tell";
  EXPECT_EQ(copies(hosts_of({2}), Kind::broadcast, 64 << 10)[0], Handover::staged)
      << "its root copies nothing";
  EXPECT_EQ(copies(hosts_of({3}), Kind::broadcast, 1 << 20)[0], Handover::staged);
  EXPECT_EQ(copies(hosts_of({2}), Kind::reduce, 64 << 10)[0], Handover::staged) << "most buffers are new";
}

TEST(TaskChoice, WhatGoesOneWayIsNotCutWhereRanksTakeTurnsOnTheCores) {
  constexpr Bytes kBytes = 256 << 10;
  PlanLimits limits{1, 64 << 20, 0};
  auto segment = [&](const std::vector<HostIndex>& machine, Kind kind) {
    return choose_task(HostMap(machine), {kind, 0}, kBytes, limits).segment;
  };
  for (Kind kind : {Kind::broadcast, Kind::gather, Kind::scatter}) {
    limits.machine.crowded = false;
    EXPECT_LT(segment(hosts_of({4}), kind), kBytes);
    limits.machine.crowded = true;
    EXPECT_EQ(segment(hosts_of({4}), kind), kBytes);
  }
  EXPECT_LT(segment(hosts_of({2, 2}), Kind::broadcast), kBytes) << "a link works at the same time";
}

TEST(TaskChoice, ThePlanOfEveryRankFitsTheStagingItWasChosenFor) {
  for (const auto& machine : kMachines)
    for (Bytes staging : {Bytes{12} << 10, Bytes{1} << 20})
      for (Bytes bytes : {1, 4096, 1 << 20, 64 << 20})
        for (RailId rails : {1, 3})
          each_task(static_cast<Rank>(machine.size()), [&](Task task) {
            TaskChoice choice = choose_task(HostMap(machine), task, bytes, {rails, staging, 0});
            EXPECT_GE(choice.window, 1);
            EXPECT_GE(choice.segment, 64u);
            EXPECT_LE(staging_need(HostMap(machine), choice), staging);
            for (const Plan& plan : plans_of(machine, choice))
              EXPECT_LE(test::blocks_of(plan), staging) << plan.name << ", " << bytes << " bytes";
          });
}

TEST(TaskChoice, WhatFitsNowhereIsSaidInOneLine) {
  try {
    choose_task(HostMap(hosts_of({8})), {Kind::all_to_all, 0}, 1000, {1, 500, 0});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("raise DDL_STAGING_BYTES"), std::string::npos);
  }
}

}  // namespace ddl
