// One collective call as a value: what the program asked for.
//
// Buffers are made of blocks of `count` elements. With P ranks:
//
//                     in         out        in place where
//   all-reduce        1          1          in == out
//   broadcast         1 (root)   1          in == out
//   reduce            1          1 (root)   in == out
//   all-gather        1          P          in == out + own block
//   reduce-scatter    P          1          out == in + own block
//   gather            1          P (root)   in == out + own block
//   scatter           P (root)   1          out == in + own block
//   all-to-all        P          P          never
//   send              1          0
//   receive           0          1
//
// A buffer that has no blocks on a rank may be null there. Otherwise `in` and `out` must not overlap.
//
// Blocks may be of unequal length and lie anywhere in their buffer (BlockLayout); then `count` is that of the
// longest. In an all-gather or a reduce-scatter all ranks know all lengths. In an all-to-all each two ranks
// know what they have for each other (pairwise), and `count` is that of the longest block of this rank.
#pragma once

#include <string>

#include "core/base/types.hpp"
#include "core/plan/kind.hpp"
#include "core/reduce/reduce.hpp"

namespace ddl {

/// A reduction that is not among Op: inout[i] = in[i] op inout[i] for `count` elements. It must commute.
/// It may be the program's own function. So only threads call it that are in a call into the engine, never
/// one of the engine's, and of one communicator never two at once.
struct OwnReduction {
  void (*combine)(void* context, const void* in, void* inout, Elements count) = nullptr;
  void* context = nullptr;
  explicit operator bool() const { return combine != nullptr; }
};

/// Where the blocks of a buffer are, by rank; null: one after the other, all as long as Call::count says.
struct BlockLayout {
  const Elements* counts = nullptr;       // of a buffer of one block: what the blocks of all ranks have
  const std::int64_t* offsets = nullptr;  // from the beginning of the buffer, in elements
};

struct Call {
  const void* in;
  void* out;
  Elements count;  // of one block
  DType type;
  Op op;                        // where the kind computes
  const char* collective = "";  // its name in the report, a literal
  Nanoseconds began = 0;        // when the program made it
  Kind kind = Kind::all_reduce;
  Rank root = 0;                // where the kind has one; send, receive: the other rank
  Elements whole = 0;           // of a block of the program's own call, where this is a piece of it; else 0
  std::uint8_t variant = 0;     // what else must be equal on all ranks, in the caller's words
  Fingerprint fingerprint = 0;  // fingerprint_of() it, where that is known already
  OwnReduction own = {};        // in place of `op`; then `type` only tells how large an element is
  std::uint64_t number = 0;     // of the program's calls on the communicator, from 1; 0: not known
  BlockLayout in_blocks = {}, out_blocks = {};  // valid as long as the call is under way
  std::uint64_t lengths = 0;  // of blocks of unequal length: a hash of what all ranks know of them; else 0
  bool pairwise = false;
  Rooted rooted = Rooted::no;  // a pairwise one
  // Of a call of the program that is made of several: what this one takes is not counted.
  bool is_part = false;
  const char* counted_as() const { return is_part ? "" : collective; }

  Task task() const {
    return {kind, has_root(kind) || is_between_two(kind) ? root : 0, has_layout(), rooted};
  }
  /// Of one block.
  Bytes bytes() const { return count * size_of(type); }
  bool has_layout() const { return in_blocks.counts || out_blocks.counts; }
};

/// Whether nothing but that all ranks have come matters: so a barrier is made, but for one that follows a
/// barrier, and whoever makes such a call himself is served alike.
inline bool is_barrier(const Call& call) {
  return call.kind == Kind::all_reduce && call.count == 1 && call.type == DType::uint8 &&
         call.op == Op::bor && !call.own;
}

/// Equal on all ranks of a right program; travels in every message.
Fingerprint compute_fingerprint(const Call& call);
/// The same of a call whose elements travel like that.
Fingerprint fingerprint_of(const Call& call, const WireFormat& wire);
inline Fingerprint fingerprint_of(const Call& call) {
  return call.fingerprint ? call.fingerprint : compute_fingerprint(call);
}
/// For people: "all-reduce of 100 float32, sum", "broadcast of 100 float32 from rank 3",
/// "all-reduce of 100 float32, sum, bfloat16 between hosts".
std::string describe(const Call& call, const WireFormat& wire = {});
/// The same with the name of the function: "MPI_Bcast (broadcast of 100 float32 from rank 3)".
std::string title_of(const Call& call, const WireFormat& wire = {});

}  // namespace ddl
