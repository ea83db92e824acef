// The buffers of one rank for any collective, filled with whole numbers that tell where they come from, and
// what must be in them afterwards.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/collective/call.hpp"

namespace ddl::test {

/// All kinds in which every rank takes part, but all-reduce.
inline constexpr Kind kAllKinds[] = {Kind::broadcast, Kind::reduce,  Kind::all_gather, Kind::reduce_scatter,
                                     Kind::gather,    Kind::scatter, Kind::all_to_all};
enum class Where { in_place, apart };

inline std::int32_t share(Rank rank, Elements block, Elements i) {
  return static_cast<std::int32_t>(static_cast<Elements>(rank) * 1'000'003 + block * 10'007 + i * 31 + 5);
}

// Which block of the inputs goes to rank `me`.
inline Elements block_for(Kind kind, Rank me) {
  bool by_receiver = kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::all_to_all;
  return by_receiver ? static_cast<Elements>(me) : 0;
}

inline std::int32_t promised(const Call& call, Rank me, Rank size, Elements block, Elements i) {
  Elements from_block = block_for(call.kind, me);
  if (!computes(call.kind)) {
    bool from_root = call.kind == Kind::broadcast || call.kind == Kind::scatter;
    return share(from_root || is_between_two(call.kind) ? call.root : static_cast<Rank>(block), from_block,
                 i);
  }
  std::uint32_t sum = 0;
  for (Rank from = 0; from < size; ++from) sum += static_cast<std::uint32_t>(share(from, from_block, i));
  return static_cast<std::int32_t>(sum);
}

// The buffers of one rank of one call.
struct CallBuffers {
  std::vector<std::int32_t> in, out;
  Call call;

  CallBuffers(Kind kind, Rank root, Rank me, Rank size, Elements count, Where where)
      : call{nullptr, nullptr, count, DType::int32, Op::sum, "", 0, kind, root} {
    auto ins = static_cast<Elements>(blocks_in(call.task(), me, size));
    auto outs = static_cast<Elements>(blocks_out(call.task(), me, size));
    in.resize(ins * count);
    out.assign(outs * count, -1);
    for (Elements b = 0; b < ins; ++b)
      for (Elements i = 0; i < count; ++i) in[b * count + i] = share(me, b, i);
    call.in = ins ? in.data() : nullptr;
    call.out = outs ? out.data() : nullptr;
    Elements own = static_cast<Elements>(me) * count;
    if (where == Where::apart || kind == Kind::all_to_all || !ins || !outs) return;
    if (outs > ins) {
      std::copy(in.begin(), in.end(), out.begin() + static_cast<std::ptrdiff_t>(own));
      call.in = out.data() + own;
    } else {
      call.out = in.data() + (ins > outs ? own : 0);
    }
  }

  /// What no call may change, whatever comes of it: the inputs that lie apart from the outputs.
  void expect_untouched(Rank me) const {
    if (call.in != in.data() || call.out != out.data()) return;
    for (Elements i = 0; i < in.size(); ++i)
      ASSERT_EQ(in[i], share(me, i / call.count, i % call.count)) << describe(call) << ": input changed";
  }

  void expect_right(Rank me, Rank size) const {
    auto outs = static_cast<Elements>(blocks_out(call.task(), me, size));
    const auto* result = static_cast<const std::int32_t*>(call.out);
    for (Elements b = 0; b < outs; ++b)
      for (Elements i = 0; i < call.count; ++i)
        ASSERT_EQ(result[b * call.count + i], promised(call, me, size, b, i))
            << describe(call) << ": block " << b << ", element " << i << " of rank " << me << " of " << size;
    expect_untouched(me);
  }
};

}  // namespace ddl::test
