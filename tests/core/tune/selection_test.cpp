#include "core/tune/selection.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "tests/core/tune/selection_calls.hpp"
#include "tests/support/sums.hpp"
#include "tests/support/thinned.hpp"

namespace ddl {
namespace {

using test::FrontCalls;
using test::memories_of;
using test::VirtualJob;

// Every rank makes `calls` equal blocking all-reduces the way a front does; returns how many each rank left
// to the original.
std::vector<int> run(VirtualJob& job, const TuneSettings& settings,
                     std::vector<std::unique_ptr<TuningCache>>& memories, int calls, std::size_t count,
                     PlanLimits limits = {1, Bytes{1} << 20, 0, {}}, Nanoseconds began = 0) {
  std::vector<Rank> members;
  for (Rank rank = 0; rank < job.size(); ++rank) members.push_back(rank);
  auto world = job.create(1, members, limits);
  std::vector<int> originals(world.size());
  job.each([&](Rank rank) {
    auto me = static_cast<std::size_t>(rank);
    FrontCalls maker(job.engine(rank), *world[me], settings, *memories[me], began);
    std::vector<std::int32_t> in(count, rank + 1), out(count);
    for (int i = 0; i < calls; ++i) {
      Call call{in.data(), out.data(), count, DType::int32, Op::sum, "x", now()};
      bool ours = maker.run(call);
      originals[me] += !ours;
      std::int32_t sum = job.size() * (job.size() + 1) / 2;
      if (ours) {
        ASSERT_EQ(out, std::vector<std::int32_t>(count, sum));
      }
      std::fill(out.begin(), out.end(), 0);
    }
  });
  return originals;
}

}  // namespace

TEST(Selection, RanksTryAndSettleAlikeWhateverTheirClocksSay) {
  VirtualJob job({0, 0, 1, 1, 2});
  auto memories = memories_of(job);
  std::vector<int> originals = run(job, {}, memories, 160, 1000);
  for (int one : originals) EXPECT_EQ(one, originals[0]);
  EXPECT_GT(originals[0], 0);
  std::string first = memories[0]->write("");
  EXPECT_NE(first.find("\"bytes_up_to\": 4096"), std::string::npos);
  for (const auto& memory : memories) EXPECT_EQ(memory->write(""), first);
}

TEST(Selection, RanksMeetBeforeACallThatIsMeasured) {
  constexpr std::size_t kCalls = 30;
  VirtualJob job({0, 0, 1});
  auto memories = memories_of(job);
  auto world = job.create(1, {0, 1, 2});
  TuneSettings settings;
  std::array<std::atomic<Nanoseconds>, kCalls> last_arrival{};
  std::array<int, 3> met{};
  job.each([&](Rank rank) {
    auto me = static_cast<std::size_t>(rank);
    FrontCalls maker(job.engine(rank), *world[me], settings, *memories[me]);
    std::vector<std::int32_t> values(1000);
    for (std::size_t i = 0; i < kCalls; ++i) {
      if (i % 3 == me) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      Call call{values.data(), values.data(), values.size(), DType::int32, Op::max, "x", now()};
      Nanoseconds arrived = call.began, seen = last_arrival[i];
      while (seen < arrived && !last_arrival[i].compare_exchange_weak(seen, arrived)) continue;
      maker.run(call);
      if (call.began == arrived) continue;
      ++met[me];
      EXPECT_GE(call.began, last_arrival[i]);
    }
  });
  EXPECT_GT(met[0], 5);
  EXPECT_EQ(met[1], met[0]);
  EXPECT_EQ(met[2], met[0]);
}

TEST(Selection, WhatABarrierHasShownIsNoAllReduces) {
  VirtualJob job({0, 0});
  auto world = job.create(1, {0, 1});
  TuningCache memory("test"), next("test");
  memory.learn({world[0]->plans().name() + ", variant 1", 64, true, {}, {}, 1});
  ASSERT_EQ(next.read(memory.write("")), "");
  const TuneSettings settings;
  TrialBudget budget(0);
  Selection selection(world[0]->plans(), settings, next, budget, [](std::span<std::int64_t>, Op) {});
  EXPECT_NE(selection.nonblocking({{}, 1, 0, 1}).original, nullptr);
  EXPECT_EQ(selection.nonblocking({{}, 1, 0, 0}).original, nullptr);
}

// The first rank is the first to leave it.
TEST(Selection, ABarrierOfACrowdedHostGoesThroughItsFirstRank) {
  auto algorithm = [](const std::vector<HostIndex>& hosts, bool crowded, bool barrier) {
    VirtualJob job(hosts);
    PlanLimits limits{1, Bytes{1} << 20, 0};
    limits.machine.crowded = crowded;
    auto world = job.create(1, test::everybody(job.size()), limits);
    TuneSettings settings;
    settings.deterministic = true;
    TuningCache memory("test");
    TrialBudget budget(0);
    Selection selection(world[0]->plans(), settings, memory, budget, [](std::span<std::int64_t>, Op) {});
    const PreparedPlan& plan = *selection.nonblocking({{}, 1, 0, 0, DType::uint8, barrier}).plan;
    EXPECT_TRUE(plan.is_brief);
    return plan.choice.algorithm[0];
  };
  EXPECT_EQ(algorithm({0, 0, 0, 0}, true, true), Algorithm::funnel);
  EXPECT_EQ(algorithm({0, 0, 0, 0}, false, true), Algorithm::exchange);
  EXPECT_EQ(algorithm({0, 0, 0, 0}, true, false), Algorithm::exchange);
  EXPECT_EQ(algorithm({0, 0}, true, true), Algorithm::exchange) << "of two it would be a detour";
}

TEST(Selection, WhatTravelsNarrowerHasPlansOfItsOwn) {
  VirtualJob job({0, 1, 1});
  auto world = job.create(1, {0, 1, 2});
  TuneSettings settings;
  settings.gradients = {WireType::bfloat16, WireWhere::between, {1000}};
  settings.deterministic = true;
  TuningCache memory("test");
  TrialBudget budget(0);
  Selection selection(world[0]->plans(), settings, memory, budget, [](std::span<std::int64_t>, Op) {});
  auto wire_of = [&](Task task, Bytes bytes, DType type) {
    return selection.nonblocking({task, bytes, 0, 0, type}).plan->choice.wire;
  };
  EXPECT_EQ(wire_of({}, 1000, DType::float32), (WireFormat{DType::float32, WireType::bfloat16}));
  EXPECT_EQ(wire_of({}, 1000, DType::int32), WireFormat{});
  EXPECT_EQ(wire_of({}, 1000, DType::float64), (WireFormat{DType::float64, WireType::bfloat16}));
  EXPECT_EQ(wire_of({}, 996, DType::float32), WireFormat{}) << "of the same size class";
  EXPECT_EQ(wire_of({Kind::reduce, 0}, 1000, DType::float32), WireFormat{});
}

TEST(Selection, AYoungJobTriesNothing) {
  VirtualJob job({0, 0, 1, 1});
  auto memories = memories_of(job);
  EXPECT_EQ(run(job, {}, memories, 200, 1000, {1, Bytes{1} << 20, 0, {}}, now() + 3'600'000'000'000),
            std::vector<int>(4, 0));
  EXPECT_FALSE(memories[0]->has_news());
}

TEST(Selection, TheDumpSaysWhereTheTimeWent) {
  VirtualJob job({0, 0, 1, 1});
  auto memories = memories_of(job);
  TuneSettings settings;
  settings.options = parse_ddl_options("-mode b -dump_iter 4", 4);
  testing::internal::CaptureStderr();
  run(job, settings, memories, 9, 100'000);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_NE(text.find("call 4: the last 4 calls took "), std::string::npos) << text;
  EXPECT_NE(text.find("call 8: the last 4 calls took "), std::string::npos) << text;
  EXPECT_NE(text.find(" us: 2 local direct "), std::string::npos) << text;
  EXPECT_NE(text.find(" us, 2 hosts direct "), std::string::npos) << text;
  EXPECT_NE(text.find("; most jitter: rank "), std::string::npos) << text;
  EXPECT_NE(text.find("; the last one: 400000 bytes by 2 local direct x 2 hosts direct"), std::string::npos)
      << text;
}

TEST(Selection, WhatIsRememberedIsNotMeasuredAgain) {
  VirtualJob job({0, 0});
  auto memories = memories_of(job);
  run(job, {}, memories, 80, 1000);
  std::string text = memories[0]->write("");
  memories = memories_of(job);
  for (auto& memory : memories) EXPECT_EQ(memory->read(text), "");
  VirtualJob again({0, 0});
  std::vector<int> originals = run(again, {}, memories, 80, 1000);
  EXPECT_TRUE(originals[0] == 0 || originals[0] == 80);
  EXPECT_FALSE(memories[0]->has_news());
}

TEST(Selection, WhatIsRememberedAndMakesNoSenseIsMeasuredAnew) {
  PlanLimits limits{2, Bytes{1} << 20, 0, {}};
  std::vector<std::unique_ptr<TuningCache>> memories;
  TuningEntry good{"", 512, false, {{Algorithm::direct, Algorithm::ring}, {1, 1}, {0, 1}, {}, 4096, 4},
                   {}, 1};
  {
    VirtualJob named({0, 0, 1, 1});
    memories = memories_of(named);
    run(named, {}, memories, 160, 100, limits);
    std::string text = memories[0]->write("");
    std::size_t at = text.find("\"grid\": \"") + 9;
    good.grid = text.substr(at, text.find('"', at) - at);
  }
  auto measures_after = [&](const TuningEntry& entry) {
    TuningCache writer("test");
    writer.learn(entry);
    VirtualJob job({0, 0, 1, 1});
    memories = memories_of(job);
    for (auto& memory : memories) EXPECT_EQ(memory->read(writer.write("")), "");
    run(job, {}, memories, 160, 100, limits);
    return memories[0]->has_news();
  };
  EXPECT_FALSE(measures_after(good));
  std::vector<TuningEntry> bad(8, good);
  bad[0].choice.algorithm = {};
  bad[1].choice.order = {{1}, {1}};
  bad[2].choice.rail = {0};
  bad[3].choice.rail = {0, 7};
  bad[4].choice.share = {0, 0};
  bad[5].choice.algorithm = {Algorithm::exchange, Algorithm::ring};
  bad[6].choice.window = 0;
  bad[7].choice.share = {1, 0xffffffff};  // -1 in the file: the sum would be none
  for (const TuningEntry& entry : bad) EXPECT_TRUE(measures_after(entry));
}

TEST(Selection, DeterministicMeansThatNothingIsMeasured) {
  VirtualJob job({0, 1, 1});
  auto memories = memories_of(job);
  TuneSettings settings;
  settings.deterministic = true;
  EXPECT_EQ(run(job, settings, memories, 80, 1000), std::vector<int>(3, 0));
  EXPECT_FALSE(memories[0]->has_news());
}

TEST(Selection, MeasuringRailsChangesNoResult) {
  VirtualJob job({0, 0, 1, 1});
  auto memories = memories_of(job);
  run(job, {}, memories, 40, 1'000'000 / test::thinned(5), {2, Bytes{1} << 20, 0, {}});
  EXPECT_TRUE(memories[0]->has_news());
}

namespace {

// How many rails the next job knows after large calls of that kind.
std::size_t rails_known_after(Kind kind, const TuneSettings& settings, Bytes staging = 16 << 20) {
  VirtualJob job({0, 0, 1, 1});
  auto world = job.create(1, test::everybody(job.size()), {2, staging, 0, {}});
  auto memories = memories_of(job);
  job.each([&](Rank rank) {
    auto me = static_cast<std::size_t>(rank);
    FrontCalls maker(job.engine(rank), *world[me], settings, *memories[me]);
    const std::size_t blocks = kind == Kind::all_reduce || kind == Kind::broadcast ? 1 : 4;
    std::vector<std::byte> in(blocks << 21), out(blocks << 21);
    for (int calls = 0; calls < 40; ++calls) {
      Call call{in.data(), out.data(), 512 << 10, DType::float32, Op::sum, "", now()};
      call.kind = kind;
      maker.run(call);
    }
  });
  TuningCache next("test");
  EXPECT_EQ(next.read(memories[0]->write("")), "");
  return next.rail_rates(world[0]->plans().name()).size();
}

}  // namespace

// Programs that never all-reduce have rails, too.
TEST(Selection, LargeCallsOfEveryKindMeasureTheRails) {
  const std::vector<Kind> kinds = {Kind::broadcast, Kind::reduce, Kind::all_gather, Kind::reduce_scatter,
                                   Kind::all_to_all};
  for (std::size_t i = 0; i < kinds.size(); i += test::thinned(5))
    EXPECT_EQ(rails_known_after(kinds[i], {}), 2U) << name_of(kinds[i]);
}

TEST(Selection, RailsAreRememberedInEveryMode) {
  const std::vector<const char*> modes = {"-mode r", "-mode b", "-mode n"};
  for (std::size_t i = 0; i < modes.size(); i += test::thinned(3))
    for (Kind kind : {Kind::all_reduce, Kind::broadcast}) {
      TuneSettings settings;
      settings.options = parse_ddl_options(modes[i], 4);
      EXPECT_EQ(rails_known_after(kind, settings), 2U) << modes[i] << ", " << name_of(kind);
    }
}

// With the usual staging, segments are too short to tell rails apart.
TEST(Selection, AllReducesMeasureTheRailsByLongerSegments) {
  const std::vector<const char*> modes = {"-mode r", "-mode n"};
  for (std::size_t i = 0; i < modes.size(); i += test::thinned(2)) {
    TuneSettings settings;
    settings.options = parse_ddl_options(modes[i], 4);
    EXPECT_EQ(rails_known_after(Kind::all_reduce, settings, 4 << 20), 2U) << modes[i];
  }
}

// What is known of them holds for all kinds, in all modes.
TEST(Selection, WhatIsKnownOfTheRailsDividesAllLargeCalls) {
  VirtualJob job({0, 0, 1, 1});
  auto world = job.create(1, {0, 1, 2, 3}, {2, Bytes{16} << 20, 0, {}});
  auto memories = memories_of(job);
  TuningCache writer("test");
  TuningEntry entry;
  entry.grid = world[0]->plans().name();
  entry.original = true;
  entry.rail_rates = {1e8, 2e7};
  writer.learn(entry);
  for (auto& memory : memories) ASSERT_EQ(memory->read(writer.write("")), "");
  const std::vector<std::uint32_t> fits = {5, 1};
  for (const char* options : {"-mode p", "-mode b", "-mode n", "-mode r"}) {
    TuneSettings settings;
    settings.options = parse_ddl_options(options, 4);
    job.each([&](Rank rank) {
      auto me = static_cast<std::size_t>(rank);
      FrontCalls maker(job.engine(rank), *world[me], settings, *memories[me]);
      for (Kind kind : {Kind::broadcast, Kind::reduce, Kind::all_gather, Kind::reduce_scatter}) {
        const Route route = maker.selection.nonblocking({{kind}, 4 << 20});
        ASSERT_TRUE(route.plan) << name_of(kind) << options;
        EXPECT_EQ(route.plan->task_choice.share, fits) << name_of(kind) << options;
      }
      const Route route = maker.selection.nonblocking({{Kind::all_reduce}, 4 << 20});
      ASSERT_TRUE(route.plan);
      EXPECT_EQ(route.plan->choice.share, fits);
    });
  }
}

TEST(Selection, ModesWithoutPickingStayWithTheirPlan) {
  for (const char* options : {"-mode r", "-mode b", "-mode r:4", "-mode n:2x2"}) {
    VirtualJob job({0, 0, 1, 1});
    auto memories = memories_of(job);
    TuneSettings settings;
    settings.options = parse_ddl_options(options, 4);
    EXPECT_EQ(run(job, settings, memories, 50, 3000), std::vector<int>(4, 0)) << options;
  }
  VirtualJob job({0, 0, 1, 1});
  auto memories = memories_of(job);
  TuneSettings settings;
  settings.options = parse_ddl_options("-mode m", 4);
  EXPECT_EQ(run(job, settings, memories, 5, 3000), std::vector<int>(4, 5));
}

}  // namespace ddl
