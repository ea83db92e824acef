// Selection of collectives other than all-reduces.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "core/base/error.hpp"
#include "tests/core/tune/selection_calls.hpp"
#include "tests/support/thinned.hpp"

namespace ddl {
namespace {

using test::FrontCalls;
using test::memories_of;
using test::VirtualJob;

}  // namespace

TEST(Selection, OtherCollectivesAreMeasuredAgainstTheOriginalWhateverTheirRoot) {
  VirtualJob job({0, 0, 1});
  auto memories = memories_of(job);
  auto world = job.create(1, {0, 1, 2});
  TuneSettings settings;
  std::array<int, 3> originals{};
  job.each([&](Rank rank) {
    auto me = static_cast<std::size_t>(rank);
    FrontCalls maker(job.engine(rank), *world[me], settings, *memories[me]);
    std::vector<std::int32_t> values(5000);
    for (int i = 0; i < 300; ++i) {
      const Rank root = i % 3;
      if (rank == root) std::fill(values.begin(), values.end(), i);
      Call call{values.data(), values.data(), values.size(),   DType::int32, Op::sum,
                "x",           now(),         Kind::broadcast, root};
      const bool ours = maker.run(call);
      originals[me] += !ours;
      if (ours) {
        ASSERT_EQ(values, std::vector<std::int32_t>(values.size(), i));
      }
    }
    // An original that takes no time has won, for all roots.
    for (Rank root = 0; root < 3; ++root)
      EXPECT_NE(maker.selection.nonblocking({{Kind::broadcast, root}, 20'000}).original, nullptr);
    EXPECT_NE(maker.selection.nonblocking({{Kind::reduce, 0}, 20'000}).plan, nullptr);
  });
  EXPECT_GT(originals[0], 80);
  EXPECT_EQ(originals[1], originals[0]);
  EXPECT_EQ(originals[2], originals[0]);
}

// A rank that has to pack what it sends asks first, in order not to pack for the original; the others do not.
TEST(Selection, WhatIsStillComparedIsNotLeftToTheOriginalUnseen) {
  VirtualJob job({0, 0, 1});
  auto memories = memories_of(job);
  auto world = job.create(1, {0, 1, 2});
  TuneSettings settings;
  job.each([&](Rank rank) {
    auto me = static_cast<std::size_t>(rank);
    FrontCalls maker(job.engine(rank), *world[me], settings, *memories[me]);
    std::vector<std::int32_t> values(100);
    int left = 0, unseen = 0;
    for (int i = 0; i < 300; ++i) {
      Call call{
          values.data(), values.data(), values.size(), DType::int32, Op::sum, "x", now(), Kind::broadcast, 0};
      const bool is_left = maker.selection.left_to_original(FrontCalls::shape_of(call)) != nullptr;
      const bool ours = maker.run(call);
      left += is_left;
      unseen += is_left && (ours || maker.was_watched);
    }
    EXPECT_GT(left, 100) << "an original that takes no time has won";
    EXPECT_EQ(unseen, 0);
  });
}

// Every rank makes so many equal broadcasts from rank 1; returns by how many plans.
std::vector<std::size_t> broadcast(VirtualJob& job, const TuneSettings& settings,
                                   std::vector<std::unique_ptr<TuningCache>>& memories, int calls) {
  auto world = job.create(1, {0, 1, 2, 3, 4});
  std::vector<std::size_t> plans(world.size());
  job.each([&](Rank rank) {
    auto me = static_cast<std::size_t>(rank);
    FrontCalls maker(job.engine(rank), *world[me], settings, *memories[me]);
    std::vector<std::int32_t> values(60);
    for (int i = 0; i < calls; ++i) {
      std::fill(values.begin(), values.end(), rank == 1 ? i : -1);
      Call call{
          values.data(), values.data(), values.size(), DType::int32, Op::sum, "x", now(), Kind::broadcast, 1};
      ASSERT_TRUE(maker.run(call));
      ASSERT_EQ(values, std::vector<std::int32_t>(values.size(), i));
    }
    plans[me] = maker.used.size();
    const PreparedPlan* one = maker.selection.nonblocking({{Kind::broadcast, 1}, 240}).plan;
    const PreparedPlan* other = maker.selection.nonblocking({{Kind::broadcast, 4}, 240}).plan;
    EXPECT_EQ(one->task.root, 1);
    EXPECT_EQ(other->task.root, 4);
    EXPECT_EQ(one->task_choice.radix, other->task_choice.radix) << "what is fast from one is fast from all";
  });
  return plans;
}

TEST(Selection, OtherCollectivesTryTheirWaysAndRememberTheBest) {
  TuneSettings settings;
  settings.has_original = false;
  VirtualJob job({0, 1, 2, 3, 3});
  auto memories = memories_of(job);
  const std::vector<std::size_t> tried = broadcast(job, settings, memories, 200);
  EXPECT_GT(tried[0], 1u);
  EXPECT_EQ(tried, std::vector<std::size_t>(5, tried[0]));
  const std::string text = memories[0]->write("");
  EXPECT_NE(text.find(", broadcast\""), std::string::npos) << text;
  for (const auto& memory : memories) EXPECT_EQ(memory->write(""), text);

  VirtualJob again({0, 1, 2, 3, 3});
  memories = memories_of(again);
  for (auto& memory : memories) EXPECT_EQ(memory->read(text), "");
  EXPECT_EQ(broadcast(again, settings, memories, 60), std::vector<std::size_t>(5, 1));
  EXPECT_FALSE(memories[0]->has_news());

  // A way that is none of those that would be tried.
  const std::size_t at = text.find("\"radix\": ");
  ASSERT_NE(at, std::string::npos);
  const std::string wrong = text.substr(0, at) + "\"radix\": 7" + text.substr(text.find(',', at));
  VirtualJob anew({0, 1, 2, 3, 3});
  memories = memories_of(anew);
  for (auto& memory : memories) EXPECT_EQ(memory->read(wrong), "");
  EXPECT_GT(broadcast(anew, settings, memories, 200)[0], 1u);
}

// How often ranks on these hosts, after a thousand equal calls of 64 KiB, settle anew in some thousand more.
// `known`: what they remember, and then what they know in the end.
int later_looks(const std::vector<int>& hosts, Kind kind, std::string& known) {
  TuneSettings settings;
  settings.has_original = false;
  VirtualJob job(hosts);
  auto memories = memories_of(job);
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < job.size(); ++rank) ranks.push_back(rank);
  if (!known.empty()) {
    for (auto& memory : memories) EXPECT_EQ(memory->read(known), "");
  }
  PlanLimits limits{1, Bytes{1} << 20, 0, {}};
  limits.single_copy = true;
  auto world = job.create(1, ranks, limits);
  std::vector<int> looks(ranks.size());
  job.each([&](Rank rank) {
    auto me = static_cast<std::size_t>(rank);
    FrontCalls maker(job.engine(rank), *world[me], settings, *memories[me]);
    std::vector<std::int64_t> in(8192, 1), out(8192);
    for (int i = 0; i < 6000; ++i) {
      Call call{in.data(), out.data(), in.size(), DType::int64, Op::sum, "x", now(), kind, 0};
      const std::uint32_t settled = maker.selection.settlings();
      maker.run(call);
      looks[me] += i > 1000 && maker.selection.settlings() != settled;
    }
  });
  EXPECT_EQ(looks, std::vector<int>(looks.size(), looks[0]));
  known = memories[0]->write("");
  return looks[0];
}

// But what a reduction of more than two ranks comes to may depend on its way.
TEST(Selection, TheWaysWithinAHostAreComparedAgain) {
  std::string known;
  EXPECT_GT(later_looks({0, 0}, Kind::broadcast, known), 0);
  EXPECT_GT(later_looks({0, 0}, Kind::broadcast, known), 0) << "what is remembered as well";
  const std::vector<std::tuple<std::vector<HostIndex>, Kind, bool>> others = {
      {{0, 0}, Kind::reduce, true}, {{0, 0, 0}, Kind::reduce, false}, {{0, 0, 1, 1}, Kind::broadcast, false}};
  for (std::size_t i = 0; i < others.size(); i += test::thinned(3)) {
    const auto& [hosts, kind, again] = others[i];
    std::string nothing;
    EXPECT_EQ(later_looks(hosts, kind, nothing) > 0, again) << name_of(kind) << " of " << hosts.size();
  }
}

TEST(Selection, ACollectiveThatNoPlanHasStagingForIsTheOriginals) {
  VirtualJob job({0, 0, 0});
  auto world = job.create(1, {0, 1, 2}, {1, 100, 0, {}});
  TuneSettings settings;
  TuningCache memory("test");
  TrialBudget budget(0);
  auto selection_with = [&](const TuneSettings& how) {
    return std::make_unique<Selection>(world[0]->plans(), how, memory, budget,
                                       [](std::span<std::int64_t>, Op) {});
  };
  const CallShape call{{Kind::all_to_all}, 1 << 20};
  const Route route = selection_with(settings)->blocking(call);
  EXPECT_EQ(route.plan, nullptr);
  EXPECT_STREQ(route.original, "DDL_STAGING_BYTES is too little");
  settings.has_original = false;
  EXPECT_THROW(selection_with(settings)->blocking(call), Error);
}

}  // namespace ddl
