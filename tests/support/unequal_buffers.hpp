// The buffers of calls with blocks of unequal length, and what they must hold in the end.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/collective/call.hpp"
#include "tests/support/call_buffers.hpp"
#include "tests/support/sums.hpp"

namespace ddl::test {

inline constexpr std::int32_t kUntouched = -77;
inline constexpr Elements kGap = 3;

inline std::vector<Elements> lengths_for(const std::vector<Elements>& some, Rank ranks) {
  std::vector<Elements> lengths(static_cast<std::size_t>(ranks));
  for (std::size_t r = 0; r < lengths.size(); ++r) lengths[r] = some[r % some.size()];
  return lengths;
}

// The buffers of one rank; the blocks lie in their order from the last to the first, with gaps.
struct UnequalBuffers {
  std::vector<Elements> lengths;
  std::vector<std::int64_t> offsets;
  std::vector<std::int32_t> many, own;
  Call call;
  Rank me, ranks;

  UnequalBuffers(Kind kind, const std::vector<Elements>& some, Rank my_rank, Rank all, Where where)
      : lengths(lengths_for(some, all)),
        offsets(lengths.size()),
        call{nullptr, nullptr, *std::max_element(lengths.begin(), lengths.end()), DType::int32, Op::sum, "",
             0,       kind},
        me(my_rank),
        ranks(all) {
    Elements end = kGap;
    for (std::size_t r = lengths.size(); r-- > 0; end += lengths[r] + kGap)
      offsets[r] = static_cast<std::int64_t>(end);
    many.assign(end, kUntouched);
    own.assign(length(me) + kGap, kUntouched);
    call.lengths = 1;
    for (Elements one : lengths) call.lengths = call.lengths * 31 + one;
    call.in_blocks.counts = call.out_blocks.counts = lengths.data();
    const bool gathers = kind == Kind::all_gather;
    (gathers ? call.out_blocks : call.in_blocks).offsets = offsets.data();
    void* one = where == Where::in_place ? static_cast<void*>(block(me)) : own.data();
    call.in = gathers ? one : many.data();
    call.out = gathers ? static_cast<void*>(many.data()) : one;
    for (Elements i = 0; gathers && i < length(me); ++i) static_cast<std::int32_t*>(one)[i] = share(me, 0, i);
    for (Rank b = 0; !gathers && b < ranks; ++b)
      for (Elements i = 0; i < length(b); ++i) block(b)[i] = share(me, static_cast<Elements>(b), i);
  }

  Elements length(Rank rank) const { return lengths[static_cast<std::size_t>(rank)]; }
  std::int32_t* block(Rank rank) { return many.data() + offsets[static_cast<std::size_t>(rank)]; }

  void expect_right() {
    const bool gathers = call.kind == Kind::all_gather;
    const auto* result = static_cast<const std::int32_t*>(call.out);
    for (Rank b = gathers ? 0 : me; b < (gathers ? ranks : me + 1); ++b) {
      const std::int32_t* at = gathers ? block(b) : result;
      for (Elements i = 0; i < length(b); ++i)
        ASSERT_EQ(at[i], promised(call, me, ranks, static_cast<Elements>(b), i))
            << describe(call) << ": block " << b << ", element " << i << " of rank " << me << " of " << ranks;
    }
    for (Rank b = 0; b < ranks; ++b)
      for (Elements i = 1; i <= kGap; ++i) ASSERT_EQ(*(block(b) - i), kUntouched) << describe(call);
    ASSERT_EQ(own.back(), kUntouched) << describe(call);
  }
};

// What rank `from` has for rank `to`, which these two alone know.
inline Elements between(Rank from, Rank to, int pattern) {
  constexpr int kAllAlike = 8;  // from here on it is the length
  if (pattern >= kAllAlike) return static_cast<Elements>(pattern);
  switch (pattern) {
    case 0:  // to one, who gives nothing
      return to == 0 && from != 0 ? 30'000 : 0;
    case 1:  // to the next one around alone
      return to == from + 1 ? 7 : 0;
    case 2:
      return static_cast<Elements>(from * 4099 + to * 513) % 9001;
    case 3:
      return from == to ? 5 : 0;
    case 4:
      return from == 0 && to != 0 ? 7 : 0;
    case 5:  // little for some, much for others
      return from == 0 && to != 0 ? (to % 2 ? 7 : 30'000) : 0;
    case 6:
      return from == 0 && to != 0 ? 30'000 : 0;
    default:
      return static_cast<Elements>(from + to) % 3;
  }
}

struct PairwiseBuffers {
  std::vector<Elements> given, taken;
  std::vector<std::int64_t> given_at, taken_at;
  std::vector<std::int32_t> in, out;
  Call call;
  Rank me;

  PairwiseBuffers(int pattern, Rank my_rank, Rank ranks)
      : call{nullptr, nullptr, 0, DType::int32, Op::sum, "", 0, Kind::all_to_all}, me(my_rank) {
    for (Rank r = 0; r < ranks; ++r) {
      given.push_back(between(me, r, pattern));
      taken.push_back(between(r, me, pattern));
      given_at.push_back(static_cast<std::int64_t>(in.size()));
      for (Elements i = 0; i < given.back(); ++i) in.push_back(share(me, static_cast<Elements>(r), i));
      out.resize(out.size() + kGap, kUntouched);
      taken_at.push_back(static_cast<std::int64_t>(out.size()));
      out.resize(out.size() + taken.back(), kUntouched);
      call.count = std::max({call.count, given.back(), taken.back()});
    }
    call.in = in.data();
    call.out = out.data();
    call.in_blocks = {given.data(), given_at.data()};
    call.out_blocks = {taken.data(), taken_at.data()};
    call.lengths = 1;
    call.pairwise = true;
  }

  void expect_right() const {
    std::size_t at = 0;
    for (std::size_t r = 0; r < taken.size(); ++r) {
      for (Elements i = 0; i < kGap; ++i) ASSERT_EQ(out[at++], kUntouched);
      for (Elements i = 0; i < taken[r]; ++i)
        ASSERT_EQ(out[at++], share(static_cast<Rank>(r), static_cast<Elements>(me), i))
            << "from " << r << " to " << me << ", element " << i;
    }
  }
};

}  // namespace ddl::test
