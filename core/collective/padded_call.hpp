// Padded calls: a call with blocks of unequal length, the short ones of which travel in a call whose blocks
// are all of one length.
//
// Blocks of one length can be packed, many in a message, since everybody knows where each of them lies
// (plan/packed_planner.hpp). Between hosts that saves most messages of small calls; what it costs is the
// bytes of the padding, which are few. The longer blocks are exchanged by themselves afterwards.
//
// Two ranks know alike which of their blocks are short, and in an all-gather all do. In a pairwise all-to-all
// nobody knows what the others have, so that all must pad to one length, or none: each says in its blocks
// what it has for other hosts, which all hear of all. Thus all decide alike of the calls that follow
// (PaddingHabit). It says, too, how long each block is, as messages of blocks by themselves do.
// Thread safety: none.
#pragma once

#include <vector>

#include "core/collective/engine.hpp"

namespace ddl {

/// What all ranks together had for ranks of other hosts in a pairwise call.
struct BlocksBetweenHosts {
  std::uint64_t pairs = 0;  // of ranks of different hosts, each in both directions
  std::uint64_t least = 0;  // blocks of up to kLeastPadded bytes; not those of none
  Bytes longest = 0, all = 0;
};

/// Up to which length blocks are padded in the pairwise calls of a communicator: in those that follow one in
/// which that would have been worth it, and now and then in one, to see whether it has become so.
class PaddingHabit {
 public:
  /// Of the next call, in bytes; 0: it is not padded.
  Bytes next() { return without_ == 0 || without_-- == 0 ? length_ : 0; }
  /// After one that was padded. `most`: what is longer is not packed.
  void learn(const BlocksBetweenHosts& seen, Bytes most);

 private:
  static constexpr int kFirst = 16, kMost = 512;
  Bytes length_ = kLeastPadded;
  Bytes last_ = 0;   // what would have been best in the last one that was padded; 0: none
  int without_ = 0;  // so many calls that follow are not
  int pause_ = kFirst;
};

/// What a communicator keeps for its padded calls, which follow each other.
struct Padding {
  PaddingHabit habit;
  std::vector<std::byte> in, out;
  std::vector<Elements> given, taken;
  std::uint64_t pairs = 0;  // see BlocksBetweenHosts
  struct Packed {
    Kind kind;
    Bytes size_class;
    PreparedPlan* plan;  // null: there is none
  };
  std::vector<Packed> packed;  // those that were asked for
};

/// A blocking call from beginning to end, by a plan whose choice says up to how many bytes blocks are padded.
void run_padded(Engine& engine, Communicator& communicator, const Call& call, PreparedPlan& plan,
                Padding& padding);

}  // namespace ddl
