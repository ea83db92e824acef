// Padded calls: a call with blocks of unequal length, the short ones of which travel in a call whose blocks
// are all of one length.
//
// Blocks of one length can be packed, many in a message, since everybody knows where each of them lies
// (plan/packed_planner.hpp). Between hosts that saves most messages of small calls; what it costs is the
// bytes of the padding, which are few. The longer blocks are exchanged by themselves afterwards.
//
// Two ranks know alike which of their blocks are short, and in an all-gather all do. In a pairwise all-to-all
// nobody knows what the others have, so that all must pad, or none: each says in its blocks how many messages
// it saves, which all hear of all. Thus all decide alike of the calls that follow (PaddingHabit). It says,
// too, how long each block is, as messages of blocks by themselves do. Thread safety: none.
#pragma once

#include <algorithm>
#include <vector>

#include "core/collective/engine.hpp"

namespace ddl {

/// Whether the pairwise calls of a communicator are padded: those that follow one in which it was worth it,
/// and now and then one, to see whether it has become so.
class PaddingHabit {
 public:
  bool pads_next() { return without_ == 0 || without_-- == 0; }
  /// After one that was padded.
  void learn(bool was_worth) {
    without_ = was_worth ? 0 : pause_;
    pause_ = was_worth ? kFirst : std::min(2 * pause_, kMost);
  }

 private:
  static constexpr int kFirst = 16, kMost = 512;
  int without_ = 0;  // so many calls that follow are not
  int pause_ = kFirst;
};

/// What a communicator keeps for its padded calls, which follow each other.
struct Padding {
  PaddingHabit habit;
  std::vector<std::byte> in, out;
  std::vector<Elements> given, taken;
  std::uint64_t pairs = 0;  // of ranks of different hosts, each in both directions
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
