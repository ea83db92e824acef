#include "core/tune/tag_tuner.hpp"

#include <gtest/gtest.h>

namespace ddl {
namespace {

using Library = TagTuner::Library;
using Begun = TagTuner::Begin::What;
constexpr Nanoseconds kMs = 1'000'000, kLong = 3600'000 * kMs;

std::vector<TagTuner::Tag> checkpoints(TagTuner& tuner, TagTuner::Tag from, TagTuner::Tag stride, int calls) {
  std::vector<TagTuner::Tag> found;
  for (int i = 0; i < calls; ++i, from += stride)
    if (tuner.begin(from).what == Begun::checkpoint) found.push_back(from);
  return found;
}

TEST(TagTuner, CheckpointsAreFewWhateverTheStride) {
  for (TagTuner::Tag stride : {1u, 2u, 3u, 7u, 50u, 64u, 128u}) {
    TagTuner one, other;
    const std::vector<TagTuner::Tag> found = checkpoints(one, 3, stride, 6400);
    EXPECT_GT(found.size(), 80u) << stride;
    EXPECT_LT(found.size(), 420u) << stride;
    EXPECT_EQ(found, checkpoints(other, 3, stride, 6400)) << "the same on all ranks";
  }
}

TEST(TagTuner, OneTagAgainAndAgainHasAtMostOne) {
  for (TagTuner::Tag tag = 0; tag < 300; ++tag) {
    TagTuner tuner;
    EXPECT_LE(checkpoints(tuner, tag, 0, 100).size(), tag > 0 ? 1u : 0u);
  }
}

// What ranks bring whose calls have taken so long.
TagTuner::Numbers numbers(int ours, Nanoseconds our_time, int theirs, Nanoseconds their_time,
                          Nanoseconds elapsed = kLong) {
  TagTuner tuner;
  for (int i = 0; i < ours; ++i) tuner.record(Library::engine, our_time);
  for (int i = 0; i < theirs; ++i) tuner.record(Library::original, their_time);
  return tuner.numbers(0, elapsed);
}

TEST(TagTuner, OursIsMeasuredFirst) {
  EXPECT_EQ(TagTuner::decide(numbers(0, 0, 0, 0)).library, Library::engine);
  EXPECT_EQ(TagTuner::decide(numbers(1, kMs, 0, 0)).library, Library::engine);
  EXPECT_EQ(TagTuner::decide(numbers(2, kMs, 0, 0)).library, Library::original);
}

TEST(TagTuner, TheOriginalIsTriedWhereTheJobIsLongEnough) {
  const TagTuner::Decision decision = TagTuner::decide(numbers(2, kMs, 0, 0));
  EXPECT_GE(decision.cost, 10 * kMs);
  for (Nanoseconds elapsed : {Nanoseconds{0}, 20 * decision.cost - 1})
    EXPECT_EQ(TagTuner::decide(numbers(2, kMs, 0, 0, elapsed)).library, Library::engine);
  EXPECT_EQ(TagTuner::decide(numbers(2, kMs, 0, 0, 20 * decision.cost)).library, Library::original);
  EXPECT_EQ(TagTuner::decide(numbers(2, kMs, 1, 2 * kMs, 39 * kMs)).library, Library::engine);
  EXPECT_EQ(TagTuner::decide(numbers(2, kMs, 1, 2 * kMs, 40 * kMs)).library, Library::original);
}

TEST(TagTuner, WhatIsMuchSlowerIsTriedOnce) {
  EXPECT_TRUE(TagTuner::decide(numbers(2, kMs, 1, 6 * kMs)).is_verdict);
  EXPECT_FALSE(TagTuner::decide(numbers(2, kMs, 1, 4 * kMs)).is_verdict) << "the first may be a slow one";
  EXPECT_TRUE(TagTuner::decide(numbers(2, kMs, 2, 4 * kMs)).is_verdict);
  EXPECT_EQ(TagTuner::decide(numbers(2, kMs, 2, 4 * kMs)).library, Library::engine);
}

TEST(TagTuner, TheFasterOneWins) {
  for (Nanoseconds theirs : {kMs / 4, 3 * kMs / 4, kMs, 3 * kMs / 2}) {
    int tries[2] = {0, 0};
    TagTuner::Decision decision;
    for (int i = 0; i < 40 && !decision.is_verdict; ++i) {
      decision = TagTuner::decide(numbers(tries[0], kMs, tries[1], theirs));
      ++tries[static_cast<int>(decision.library)];
    }
    EXPECT_TRUE(decision.is_verdict);
    EXPECT_EQ(decision.library, theirs < kMs ? Library::original : Library::engine);
    EXPECT_LE(tries[0] + tries[1], 12);
  }
}

TEST(TagTuner, AVerdictHoldsBehindAllThatHasBegun) {
  TagTuner tuner;
  tuner.begin(10);
  tuner.begin(17);
  EXPECT_EQ(tuner.freeze(10), 17u);
  EXPECT_NE(tuner.begin(12).what, Begun::wait) << "others may have begun it, too";
  EXPECT_EQ(tuner.begin(18).what, Begun::wait);
  tuner.settle(10, 20, Library::original);
  EXPECT_EQ(tuner.begin(20).library, Library::engine);
  EXPECT_EQ(tuner.begin(21).library, Library::original);
  EXPECT_TRUE(tuner.begin(21).is_settled);
  EXPECT_EQ(tuner.begin(19).library, Library::engine);
}

TEST(TagTuner, OfTwoVerdictsThatOfTheLowerCheckpointCounts) {
  for (bool lower_first : {true, false}) {
    TagTuner tuner;
    tuner.begin(30);
    tuner.freeze(10);
    tuner.freeze(20);
    if (lower_first) tuner.settle(10, 50, Library::original);
    EXPECT_EQ(tuner.begin(45).what, Begun::wait) << "the other may hold from there";
    tuner.settle(20, 40, Library::engine);
    if (!lower_first) tuner.settle(10, 50, Library::original);
    EXPECT_EQ(tuner.begin(45).library, Library::engine);
    EXPECT_EQ(tuner.begin(51).library, Library::original);
  }
}

TEST(TagTuner, WhatCameToNothingLetsCallsGoOn) {
  TagTuner tuner;
  tuner.begin(5);
  tuner.freeze(5);
  EXPECT_EQ(tuner.begin(6).what, Begun::wait);
  tuner.unfreeze(5);
  EXPECT_NE(tuner.begin(6).what, Begun::wait);
}

}  // namespace
}  // namespace ddl
