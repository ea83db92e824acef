#include "core/plan/task_planner.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "core/base/error.hpp"
#include "core/plan/check.hpp"
#include "core/plan/host_tree.hpp"
#include "core/plan/packed_planner.hpp"
#include "tests/core/plan/plans.hpp"
#include "tests/support/thinned.hpp"

namespace ddl {
namespace {

using test::hosts_of;
using test::round_robin;

const std::vector<std::vector<HostIndex>> kMachines = {
    hosts_of({1}),    hosts_of({2}),          hosts_of({3}),     hosts_of({4}),       hosts_of({6}),
    hosts_of({1, 1}), hosts_of({1, 1, 1, 1}), hosts_of({2, 2}),  hosts_of({2, 1, 3}), hosts_of({2, 2, 2, 2}),
    hosts_of({4, 4}), hosts_of({1, 4, 2, 3}), round_robin(4, 8), round_robin(3, 7),   {2, 0, 1, 0, 2, 2}};

constexpr Kind kAll[] = {Kind::broadcast, Kind::reduce,  Kind::all_gather, Kind::reduce_scatter,
                         Kind::gather,    Kind::scatter, Kind::all_to_all};

std::vector<Plan> plans_of(const std::vector<HostIndex>& machine, const TaskChoice& choice) {
  Grid grid = Grid::from_hosts(machine);
  HostMap map(machine);
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < grid.ranks(); ++rank) plans.push_back(make_plan(grid, map, rank, choice));
  return plans;
}

// Every choice that there is for a task.
template <class Body>
void each_choice(const std::vector<HostIndex>& machine, Task task, const Body& body) {
  for (Crossing crossing : {Crossing::by_agents, Crossing::directly})
    for (Division division : {Division::whole, Division::pieces, Division::chain, Division::packed}) {
      if (division == Division::packed && !can_be_packed(HostMap(machine), task)) continue;
      for (const std::vector<std::uint32_t>& share : {std::vector<std::uint32_t>{1}, {2, 1}, {0, 1, 3}}) {
        TaskChoice choice;
        choice.radix = 1 + static_cast<int>(share.size());
        choice.task = task;
        choice.crossing = crossing;
        choice.division = division;
        choice.share = share;
        choice.segment = 4096;
        body(choice);
      }
    }
}

template <class Body>
void each_task(Rank ranks, const Body& body) {
  for (Kind kind : kAll)
    for (Rank root = 0; root < (has_root(kind) ? ranks : 1); ++root) body(Task{kind, root});
}

std::string problem_of(const std::vector<Plan>& plans, Task task) {
  for (Elements count : {0, 1, 7, 64, 1000}) {
    if (count % test::thinned(7) != 0) continue;
    for (Buffers buffers : {Buffers::one, Buffers::two})
      if (std::string problem = check_plans(plans, count, 4, buffers, task).problem; !problem.empty())
        return fmt::format("{} to or from {}, {} ranks, {} elements: {}", plans[0].name, task.root,
                           plans.size(), count, problem);
  }
  return {};
}

}  // namespace

TEST(TaskPlanner, EveryTaskIsCompleteOnEveryMachineFromEveryRoot) {
  for (const auto& machine : kMachines)
    each_task(static_cast<Rank>(machine.size()), [&](Task task) {
      each_choice(machine, task, [&](const TaskChoice& choice) {
        EXPECT_EQ(problem_of(plans_of(machine, choice), task), "");
      });
    });
}

TEST(TaskPlanner, WhoeverSendsARankSomethingHearsFromItBeforeTheEnd) {
  for (const auto& machine : kMachines)
    each_task(static_cast<Rank>(machine.size()), [&](Task task) {
      each_choice(machine, task, [&](const TaskChoice& choice) {
        std::vector<Plan> plans = plans_of(machine, choice);
        for (Rank absent = 0; absent < static_cast<Rank>(machine.size()); ++absent)
          EXPECT_EQ(check_waits_for(plans, absent, 7, task), "") << plans[0].name;
      });
    });
}

TEST(TaskPlanner, WithoutTokensARootWouldRunAhead) {
  Task task{Kind::broadcast, 0};
  TaskChoice choice;
  choice.task = task;
  choice.segment = 4096;
  std::vector<Plan> plans = plans_of(hosts_of({3}), choice);
  for (Plan& plan : plans)
    std::erase_if(plan.flows, [&](const Flow& flow) { return plan.steps[flow.first].is_token; });
  EXPECT_NE(check_waits_for(plans, 1, 7, task), "");
}

TEST(TaskPlanner, AReduceByPiecesOnOneHostNeedsNoTokens) {
  for (Rank ranks : {2, 3, 4, 7})
    for (Rank root : {0, ranks - 1}) {
      TaskChoice choice;
      choice.task = {Kind::reduce, root};
      choice.division = Division::chain;
      choice.segment = 16 << 10;
      const std::vector<Plan> plans = plans_of(hosts_of({ranks}), choice);
      for (const Plan& plan : plans) EXPECT_LT(plan.token_flow, 0);
      const Elements least = choice.segment / 2 / 4;  // that such a plan is for
      for (Rank absent = 0; absent < ranks; ++absent)
        EXPECT_EQ(check_waits_for(plans, absent, least, choice.task), "") << ranks;
      choice.segment = 2048;  // of which a few bytes may be all
      EXPECT_GE(plans_of(hosts_of({ranks}), choice)[0].token_flow, 0);
      choice.segment = 16 << 10;
      choice.division = Division::whole;
      EXPECT_GE(plans_of(hosts_of({ranks}), choice)[0].token_flow, 0);
      EXPECT_GE(plans_of(hosts_of({ranks, 1}), choice)[0].token_flow, 0);
    }
}

TEST(TaskPlanner, WhatIsFoldedAsideAndSentOnAtOnceIsReadByNoOtherStep) {
  int found = 0;
  auto check = [&](const Plan& plan) {
    for (const Flow& flow : plan.flows)
      for (std::uint32_t s = flow.first; s + 1 < flow.first + flow.count; ++s) {
        const Step &made = plan.steps[s], &sent = plan.steps[s + 1];
        if (made.verb != Verb::reduce || made.into != Source::scratch || sent.verb != Verb::send ||
            sent.fabric != Fabric::local)
          continue;
        ++found;
        for (std::uint32_t other = s + 2; other < plan.steps.size(); ++other)
          EXPECT_FALSE(plan.steps[other].verb != Verb::copy && plan.steps[other].own == Source::scratch &&
                       plan.steps[other].own_block == made.into_block &&
                       plan.steps[other].slice == made.slice)
              << plan.name;
      }
  };
  for (const auto& machine : kMachines)
    each_task(static_cast<Rank>(machine.size()), [&](Task task) {
      each_choice(machine, task, [&](const TaskChoice& choice) {
        for (const Plan& plan : plans_of(machine, choice)) check(plan);
      });
    });
  EXPECT_GT(found, 0);
}

TEST(TaskPlanner, WhatOthersWaitForIsSentBeforeTheOwnBlockIsCopied) {
  for (Kind kind : {Kind::scatter, Kind::all_to_all, Kind::all_gather}) {
    TaskChoice choice;
    choice.task = {kind, 0};
    choice.segment = 16 << 10;
    for (const auto& machine : {hosts_of({3}), hosts_of({2, 2})}) {
      const Plan root = plans_of(machine, choice)[0];
      const auto own = std::find_if(root.steps.begin(), root.steps.end(), [](const Step& step) {
        return step.verb == Verb::copy && step.peers == 0;
      });
      ASSERT_NE(own, root.steps.end()) << root.name;
      auto is_sent = [](const Step& step) { return step.verb == Verb::send && step.own == Source::input; };
      EXPECT_TRUE(std::any_of(root.steps.begin(), own, is_sent)) << root.name;
      EXPECT_TRUE(std::none_of(own, root.steps.end(), is_sent)) << root.name;
    }
  }
}

TEST(TaskPlanner, ASendIsCompleteWithinAHostAndBetweenHosts) {
  for (const auto& machine : {hosts_of({2}), hosts_of({1, 1})})
    for (const std::vector<std::uint32_t>& share : {std::vector<std::uint32_t>{1}, {2, 1}}) {
      Grid grid = Grid::from_hosts(machine);
      HostMap map(machine);
      std::vector<Plan> plans;
      for (Rank me : {0, 1}) {
        TaskChoice choice;
        choice.task = {me == 0 ? Kind::send : Kind::receive, 1 - me};
        choice.share = share;
        choice.segment = 4096;
        plans.push_back(make_plan(grid, map, me, choice));
      }
      EXPECT_EQ(problem_of(plans, {Kind::send, 1}), "");
      EXPECT_EQ(check_waits_for(plans, 1, 7, {Kind::send, 1}), "");
    }
}

TEST(TaskPlanner, AHostSendsNothingTwiceForRanksThatShareAHost) {
  constexpr Elements kCount = 1200;
  auto wire = [&](Kind kind, Division division) {
    TaskChoice choice;
    choice.task = {kind, 1};
    choice.division = division;
    choice.segment = 1 << 20;
    std::vector<Elements> sent =
        check_plans(plans_of(hosts_of({4, 4, 4}), choice), kCount, 4, Buffers::two, choice.task).wire_sent;
    std::vector<Elements> by_host(3);
    for (std::size_t r = 0; r < sent.size(); ++r) by_host[r / 4] += sent[r];
    return by_host;
  };
  using ByHost = std::vector<Elements>;
  EXPECT_EQ(wire(Kind::all_gather, Division::whole), (ByHost{8 * kCount, 8 * kCount, 8 * kCount}));
  EXPECT_EQ(wire(Kind::reduce_scatter, Division::whole), (ByHost{8 * kCount, 8 * kCount, 8 * kCount}));
  EXPECT_EQ(wire(Kind::broadcast, Division::whole), (ByHost{2 * kCount, 0, 0}));
  EXPECT_EQ(wire(Kind::reduce, Division::whole), (ByHost{0, kCount, kCount}));
  ByHost cut = wire(Kind::broadcast, Division::pieces);
  EXPECT_EQ(cut[0], kCount);
  EXPECT_NEAR(cut[1], kCount / 2, 32);
  EXPECT_EQ(wire(Kind::broadcast, Division::chain), (ByHost{kCount, kCount, 0}));
  EXPECT_EQ(wire(Kind::reduce, Division::chain), (ByHost{0, kCount, kCount}));
}

TEST(TaskPlanner, InAChainOfUnevenHostsNoLinkCarriesABlockTwice) {
  constexpr Elements kCount = 1200;
  const std::vector<HostIndex> machine = hosts_of({2, 1, 3});
  const HostMap map(machine);
  auto wire = [&](Kind kind, Division division) {
    TaskChoice choice;
    choice.task = {kind, 0};
    choice.division = division;
    choice.segment = 1 << 20;
    const std::vector<Elements> sent =
        check_plans(plans_of(machine, choice), kCount, 4, Buffers::two, choice.task).wire_sent;
    std::vector<Elements> by_host(3);
    for (Rank r = 0; r < 6; ++r)
      by_host[static_cast<std::size_t>(map.host_of(r))] += sent[static_cast<std::size_t>(r)];
    return by_host;
  };
  using ByHost = std::vector<Elements>;
  EXPECT_EQ(wire(Kind::all_gather, Division::whole), (ByHost{4 * kCount, 2 * kCount, 6 * kCount}));
  EXPECT_EQ(wire(Kind::all_gather, Division::chain), (ByHost{5 * kCount, 3 * kCount, 4 * kCount}));
  EXPECT_EQ(wire(Kind::reduce_scatter, Division::whole), (ByHost{4 * kCount, 5 * kCount, 3 * kCount}));
  EXPECT_EQ(wire(Kind::reduce_scatter, Division::chain), (ByHost{4 * kCount, 5 * kCount, 3 * kCount}));
}

// Each of a few flows has many of their blocks.
TEST(TaskPlanner, AChainOfManyRanksComesToItsEnd) {
  for (const auto& machine : {hosts_of({7, 1, 9, 5}), hosts_of({12, 12, 12, 12}), round_robin(40, 40)})
    for (Kind kind : {Kind::all_gather, Kind::reduce_scatter}) {
      TaskChoice choice;
      choice.task = {kind, 0};
      choice.division = Division::chain;
      choice.share = {2, 1};
      choice.segment = 4096;
      EXPECT_EQ(problem_of(plans_of(machine, choice), choice.task), "");
    }
}

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

TEST(HostTree, EveryHostHasOneParentAndIsReachedInLogarithmicallyManyRounds) {
  for (int hosts : {1, 2, 3, 4, 5, 8, 9, 27, 28, 100, 4096})
    for (int k : {2, 3, 4, 8})
      for (int root : {0, hosts / 2, hosts - 1}) {
        HostTree tree(hosts, root, k);
        std::vector<int> parents(static_cast<std::size_t>(hosts), -1);
        for (int host = 0; host < hosts; ++host) {
          std::vector<int> children = tree.children(host);
          ASSERT_LE(static_cast<int>(children.size()), (k - 1) * tree.rounds());
          for (int child : children) {
            ASSERT_EQ(parents[static_cast<std::size_t>(child)], -1);
            parents[static_cast<std::size_t>(child)] = host;
          }
        }
        for (int host = 0; host < hosts; ++host) {
          ASSERT_EQ(tree.parent(host), parents[static_cast<std::size_t>(host)]) << host << " of " << hosts;
          int depth = 0;
          for (int at = host; at != root; at = tree.parent(at)) ASSERT_LE(++depth, tree.rounds());
        }
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

TEST(TaskPlanner, AFewFlowsServeManyRanks) {
  TaskChoice choice;
  choice.task.kind = Kind::all_to_all;
  choice.segment = 4096;
  for (const Plan& plan : plans_of(hosts_of({100}), choice)) EXPECT_LT(plan.flows.size(), 40u);
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
  const Task gather_v{Kind::all_to_all, 0, true, true}, all_to_all_v{Kind::all_to_all, 0, true},
      all_gather_v{Kind::all_gather, 0, true};
  const std::vector<HostIndex> several = hosts_of({4, 4, 4, 4});
  EXPECT_EQ(first(several, all_to_all_v, 1 << 20), 256u) << "of any length, which nobody knows";
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
  auto of_pairs = [&limits] {
    return task_candidates(HostMap(hosts_of({2})), {Kind::all_to_all, 0, true}, pairwise_bytes(false, 1),
                           limits);
  };
  ASSERT_EQ(of_pairs().size(), 1u) << "nothing would be measured about the long ones";
  EXPECT_EQ(of_pairs()[0].choice.handover, Handover::staged);
  limits.slow_lines = true;
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
