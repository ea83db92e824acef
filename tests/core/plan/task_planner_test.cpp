#include "core/plan/task_planner.hpp"

#include <gtest/gtest.h>

#include "core/plan/check.hpp"
#include "core/plan/host_tree.hpp"
#include "core/plan/packed_planner.hpp"
#include "tests/core/plan/tasks.hpp"
#include "tests/support/thinned.hpp"

namespace ddl {
namespace {

using test::each_task;
using test::hosts_of;
using test::kMachines;
using test::plans_of;
using test::round_robin;

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

// In and out of each host, counted from the plans.
TEST(TaskPlanner, TheBusiestLinkIsCrossedAsOftenAsIsSaid) {
  constexpr Elements kCount = 1 << 16;
  auto most_carried = [](const std::vector<Plan>& plans, const HostMap& map) {
    std::vector<Elements> out(static_cast<std::size_t>(map.hosts())), in = out;
    for (std::size_t rank = 0; rank < plans.size(); ++rank) {
      SliceTable table;
      table.compute(plans[rank], kCount, 4);
      for (const Step& step : plans[rank].steps)
        for (std::uint32_t i = 0; i < step.peers && step.verb == Verb::send && step.fabric == Fabric::wire;
             ++i) {
          out[static_cast<std::size_t>(map.host_of(static_cast<Rank>(rank)))] += table.of(step).count;
          in[static_cast<std::size_t>(map.host_of(plans[rank].peers[step.peer + i]))] += table.of(step).count;
        }
    }
    return std::max(*std::max_element(out.begin(), out.end()), *std::max_element(in.begin(), in.end()));
  };
  for (const std::vector<HostIndex>& machine :
       {hosts_of({1, 1}), hosts_of({2, 2, 2, 2}), hosts_of({2, 1, 3}), hosts_of({1, 4, 2, 3})})
    for (Kind kind : test::kAll)
      each_choice(machine, {kind, 1}, [&](const TaskChoice& choice) {
        const HostMap map(machine);
        const double said = crossings(map, choice);
        if (said == 0) return;
        const auto carried = static_cast<double>(most_carried(plans_of(machine, choice), map));
        EXPECT_NEAR(carried / kCount, said, 0.01) << describe(map, choice);
      });
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

TEST(TaskPlanner, AFewFlowsServeManyRanks) {
  TaskChoice choice;
  choice.task.kind = Kind::all_to_all;
  choice.segment = 4096;
  for (const Plan& plan : plans_of(hosts_of({100}), choice)) EXPECT_LT(plan.flows.size(), 40u);
}

}  // namespace ddl
