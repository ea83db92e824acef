#include "core/gradient/call_pattern.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ddl {
namespace {

using Shapes = std::vector<std::uint64_t>;

// Makes calls one after the other.
struct Program {
  CallPattern pattern;
  std::uint64_t calls = 0;

  std::optional<std::uint64_t> call(std::uint64_t shape) { return pattern.hear(calls++, shape); }
  void steps(const Shapes& step, int times) {
    for (int time = 0; time < times; ++time)
      for (std::uint64_t shape : step) call(shape);
  }
};

Shapes layers(int equal) {
  Shapes step(static_cast<std::size_t>(equal), 7);
  step.push_back(8);
  return step;
}

Shapes different(std::size_t calls) {
  Shapes step(calls);
  for (std::size_t i = 0; i < calls; ++i) step[i] = i;
  return step;
}

TEST(CallPattern, OneCallPerStepIsAPatternAfterAWhile) {
  Program program;
  for (std::size_t call = 0; call < CallPattern::kLeastCalls; ++call) EXPECT_FALSE(program.call(5)) << call;
  EXPECT_EQ(program.call(5), 0u);
  EXPECT_EQ(program.pattern.period(), 1u);
}

// As where a program does something else after its first step.
TEST(CallPattern, AGapInTheBeginningMakesNoLongerPeriod) {
  for (std::uint64_t gap = 2; gap < 12; ++gap) {
    Program program;
    program.call(5);
    program.calls += gap - 1;
    while (program.pattern.period() == 0) program.call(5);
    EXPECT_EQ(program.pattern.period(), 1u) << gap;
    EXPECT_LE(program.calls, gap + CallPattern::kLeastCalls);
  }
}

TEST(CallPattern, EachCallOfAStepHasItsOwnPlace) {
  Program program;
  const Shapes step = {5, 6, 5, 7, 5};
  program.steps(step, 20);
  std::vector<std::uint64_t> places;
  for (int round = 0; round < 2; ++round)
    for (std::uint64_t shape : step) places.push_back(*program.call(shape));
  for (std::size_t i = 0; i < step.size(); ++i) EXPECT_EQ(places[i], places[i + step.size()]);
  std::sort(places.begin(), places.end());
  EXPECT_EQ(places, (std::vector<std::uint64_t>{0, 0, 1, 1, 2, 2, 3, 3, 4, 4}));
}

TEST(CallPattern, LayersOfOneSizeAreNoPatternByThemselves) {
  for (int equal : {3, 10, 40, 100}) {
    Program program;
    program.steps(layers(equal), 40);
    EXPECT_EQ(program.pattern.period(), static_cast<std::uint64_t>(equal) + 1) << equal;
    const std::uint32_t broken = program.pattern.broken();
    program.steps(layers(equal), 40);
    EXPECT_EQ(program.pattern.broken(), broken) << equal;
  }
}

TEST(CallPattern, AnotherCallEndsIt) {
  Program program;
  program.steps({5, 6}, 40);
  ASSERT_EQ(program.pattern.period(), 2u);
  EXPECT_FALSE(program.call(9));
  EXPECT_EQ(program.pattern.broken(), 1u);
  EXPECT_FALSE(program.call(5));
  program.steps({6, 5}, 40);
  EXPECT_EQ(program.pattern.period(), 2u);
  EXPECT_EQ(program.pattern.broken(), 1u);
}

TEST(CallPattern, StepsThatAreTooLongOrNeverTheSameHaveNone) {
  Program growing, longest, too_long;
  for (std::uint64_t shape = 0; shape < 6'000; ++shape) EXPECT_FALSE(growing.call(shape));
  longest.steps(different(CallPattern::kMostPlaces), 4);
  EXPECT_EQ(longest.pattern.period(), CallPattern::kMostPlaces);
  too_long.steps(different(CallPattern::kMostPlaces + 1), 4);
  EXPECT_EQ(too_long.pattern.period(), 0u);
}

// Numbers of which every third belongs to another kind of call, and calls that two threads make together.
TEST(CallPattern, PlacesFollowNumbersAndNotTheOrderInWhichTheyAreHeard) {
  CallPattern in_order, swapped;
  for (std::uint64_t step = 0; step < 40; ++step) {
    const std::uint64_t first = 24 * step, second = first + 8;
    const auto a = in_order.hear(first, 5), b = in_order.hear(second, 6);
    const bool is_swapped = step % 3 == 1;
    const auto d = is_swapped ? swapped.hear(second, 6) : std::nullopt;
    const auto c = swapped.hear(first, 5);
    const auto e = is_swapped ? d : swapped.hear(second, 6);
    if (step < 38) continue;
    EXPECT_EQ(a, 0u);
    EXPECT_EQ(b, 8u);
    EXPECT_EQ(c, a);
    EXPECT_EQ(e, b);
  }
  EXPECT_EQ(in_order.period(), 24u);
  EXPECT_EQ(swapped.period(), 24u);
  EXPECT_EQ(swapped.broken(), 0u);
}

}  // namespace
}  // namespace ddl
