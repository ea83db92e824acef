// Plan: what one rank does in a collective, as a value.
//
// A block, the unit that input and output are made of (all-reduce has one), is cut into segments; a segment
// is the same piece of every block. Every segment is done by the same plan, several segments at once.
// Within a segment the plan is a set of flows that are independent of each other; a flow is a list of steps
// done in order. Three verbs are enough for every algorithm over any number of dimensions:
//
//   send    hand a slice to one or several peers (its own contribution, or what has been reduced so far)
//   reduce  wait for the same slice from some peers; output = own ∘ theirs, folded in the order of the group
//   copy    wait for a finished slice from one peer; output = theirs. Without a peer: output = own
//
// A slice is a piece of the segment, found by cutting again and again (lane, then cuts per dimension), so
// offsets are computed in one place (SliceTable) for any number of elements. A message is known by its tag,
// which both ends derive from phase, dimension and slice: nothing is counted or matched by order of arrival.
//
// A token is a message without payload that says that its sender has opened the segment. Where a rank could
// otherwise finish without having heard from those it sends to, they send it one, see operation.hpp.
//
// Between hosts, or everywhere, an element may travel as a narrower type, while every reduction is done at
// full width. Each send there then rounds (narrows() says which do), so what several ranks are to have alike
// is rounded before the first of them uses it: the result of a slice by whoever completes it (he keeps what
// he sends on), and where everybody sends its share to everybody, the own share. Steps of which this is asked
// round; a value that has been rounded travels unchanged.
//
// Sources: BlueConnect (Cho et al., MLSys 2019) for the decomposition, Patarasuk & Yuan 2009 for the ring.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/base/partition.hpp"
#include "core/base/types.hpp"
#include "core/plan/fabric.hpp"

namespace ddl {

enum class Verb : std::uint8_t { send, reduce, copy };
/// Where a rank has a slice: in the buffers of the call or in memory of its own, which lives as long as the
/// segment. What is folded there and sent within the host by the very next step is read by no other: it may
/// never be written there.
enum class Source : std::uint8_t { input, output, scratch };
using LaneId = std::uint16_t;
using RailId = std::uint16_t;
using SliceId = std::uint32_t;
using Tag = std::uint64_t;
/// See Plan::most_staged. A single copy costs a system call, and then a fifth of what a staged block does for
/// each byte (two ranks, broadcasts with a barrier behind each, staged and read: 6 KiB 1.53 and 1.29 us, 8
/// KiB 1.64 and 1.25, 16 KiB 1.83 and 1.42). From kLeastJoint on the sender of a payload that is read where
/// it is copies a part of it, see JointCopy; where it has others to read or to keep from kLeastJointOfMany
/// on, because it takes the lines that it writes out of its reader's cache (2 ranks, an Intel Xeon, by the
/// reader alone and by both: broadcast of 128 KiB 16.1 and 10.8 us, 1 MiB 99 and 70; gather 11.8 and 9.2, 180
/// and 116; but scatter of 128 KiB 8.2 and 11, 1 MiB 95 and 96, 4 MiB 500 and 450; all-to-all of 256 KiB 26
/// and 28, 4 MiB 1070 and 1000).
inline constexpr Bytes kMostStaged = 6 << 10, kLeastJoint = 128 << 10, kLeastJointOfMany = 1 << 20;
inline constexpr Bytes kAllStaged = ~Bytes{0};  // of whatever length
/// Of what goes one way within a host so much is not cut: it is a call that is made at once, see Credit (2
/// ranks, in pieces and whole, us, 32 KiB: broadcast 3.2 and 2.6, with roots in turn 3.0 and 2.0, gather 2.9
/// and 2.0, scatter 3.2 and 2.2, with a barrier behind each 3.1 and 2.4; 64 KiB 4.5 and 3.8, 4.0 and 7.5, 5.6
/// and 7.8, 7.4 and 8.9).
inline constexpr Bytes kMostWhole = 32 << 10;

struct Slice {
  SliceId parent;                    // kWholeSegment for a lane
  std::uint32_t first, last, parts;  // parts [first, last) of the parent cut into `parts`
};
inline constexpr SliceId kWholeSegment = ~SliceId{0};

struct Step {
  Verb verb;
  Source own;   // send: what is sent; reduce, copy without a peer: where the own share is
  Source into;  // reduce, copy: where the result goes
  Fabric fabric;
  std::uint8_t dimension;  // of the grid, whatever the lane's order
  RailId rail;             // wire only: the one its lane is bound to
  SliceId slice;
  Tag tag;
  std::uint32_t peer;  // first of its peers in Plan::peers
  std::uint32_t peers;
  std::uint32_t own_rank;  // reduce: position of the own share in the fold
  // Reduce, copy: first of its messages in Plan::expected; send: number among local sends.
  std::uint32_t expected;
  bool after_sends;  // reduce: writes what this rank has sent, so the sends must have finished reading it
  bool is_token;     // its slice is empty, and yet there is a message
  bool rounds;       // reduce, copy without a peer: to what travels
  std::uint32_t own_block, into_block;  // of own and into
  // Of that many blocks, one after the other from there on. More than one: the slice is all of the segment,
  // and the segment all of a block.
  std::uint32_t blocks = 1;
  std::uint32_t rank;  // whose block it is part of: where blocks differ in length, that counts
};

struct Flow {
  std::uint32_t first, count;  // range of Plan::steps
};

/// One message this rank will receive in each segment.
struct Expected {
  Tag tag;
  Rank from;
  std::uint32_t step;  // that waits for it, in Plan::steps
  Fabric fabric = Fabric::local;
};

struct Plan {
  std::string name;   // for people: "2 local direct x 4 hosts ring, 2 lanes"
  Bytes segment = 0;  // bytes of a full segment
  int window = 1;     // segments in flight; also what bounds early arrivals, see operation.hpp
  LaneId lanes = 1;
  // Payloads of more bytes stay within the host where they are, and are read there, from buffers that nobody
  // writes to meanwhile. What is reduced has one source beside the own share.
  Bytes most_staged = kAllStaged;
  std::uint32_t scratch = 0;  // blocks of scratch
  std::vector<Slice> slices;  // parents before children
  std::vector<Rank> peers;
  std::vector<Step> steps;
  std::vector<Flow> flows;
  std::vector<Expected> expected;

  /// Position of a message in `expected`, or -1.
  int find_expected(Tag tag, Rank from) const;
  /// Builds the index behind find_expected, numbers messages and local sends and finds the flow of tokens;
  /// called once by the planner.
  void seal();
  std::uint32_t local_sends = 0;
  int token_flow = -1;  // the flow that has nothing but tokens; -1: there is none
  /// Memory behind this value.
  Bytes bytes() const;

 private:
  std::vector<std::int32_t> index_;  // open addressing over (tag, from)
};

/// Whether a payload of a call by that plan stays where it is, and is read there, see Plan::most_staged.
inline bool is_read_in_place(const Plan& plan, Bytes payload) { return payload > plan.most_staged; }
/// Whether there are such payloads.
inline bool reads_in_place(const Plan& plan) { return plan.most_staged != kAllStaged; }

/// Where slices may be cut: at whole cache lines, but where there are fewer than parts.
enum class Cuts : std::uint8_t { at_lines_where_enough, at_lines };

/// The slices of a plan for a segment of `count` elements: ranges relative to the segment.
class SliceTable {
 public:
  void compute(const Plan& plan, Elements count, Bytes element_size, Cuts cuts = Cuts::at_lines_where_enough);
  Range operator[](SliceId id) const { return ranges_[id]; }
  /// What a step is about, all its blocks together.
  Range of(const Step& step) const {
    Range range = ranges_[step.slice];
    range.count *= step.blocks;
    return range;
  }

 private:
  std::vector<Range> ranges_;
};

}  // namespace ddl
